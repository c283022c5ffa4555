package zk

import "holdfast/zkproto"

type (
	// A Stat is a node's metadata: its times, versions and zxids, and its owner.
	Stat = zkproto.Stat
	// An ACL is one entry of a node's access control list.
	ACL = zkproto.ACL
	// A Code is the error number of an answer, and an error.
	Code = zkproto.Code
	// An EventType says what happened to a watched node.
	EventType = zkproto.EventType
)

// The types of event that a [Watch] can deliver.
const (
	EventNone                = zkproto.EventNone // no event: the session is over, or events were missed; see Event.Err
	EventNodeCreated         = zkproto.EventNodeCreated
	EventNodeDeleted         = zkproto.EventNodeDeleted
	EventNodeDataChanged     = zkproto.EventNodeDataChanged
	EventNodeChildrenChanged = zkproto.EventNodeChildrenChanged
)

// A Mode says how long a new node lives and whether its name gets a number.
type Mode int32

// The modes of nodes.
const (
	Persistent           Mode = Mode(zkproto.FlagPersistent)
	Ephemeral            Mode = Mode(zkproto.FlagEphemeral)            // removed when the session ends
	PersistentSequential Mode = Mode(zkproto.FlagPersistentSequential) // the parent's counter is appended to the name
	EphemeralSequential  Mode = Mode(zkproto.FlagEphemeralSequential)
	Container            Mode = Mode(zkproto.FlagContainer) // removed by the server some time after its last child; needs ZooKeeper 3.5.1
)

// The permissions of an ACL, as bits. Read is for data and the list of children, Write for
// data, Create and Delete for children, Admin for the ACL.
const (
	PermRead   = zkproto.PermRead
	PermWrite  = zkproto.PermWrite
	PermCreate = zkproto.PermCreate
	PermDelete = zkproto.PermDelete
	PermAdmin  = zkproto.PermAdmin
	PermAll    = zkproto.PermAll
)

// AnyVersion is the version that matches every version.
const AnyVersion = -1

// openACL allows everything to everyone. It is the default of a create without ACL, as in every
// ZooKeeper client.
var openACL = []ACL{{Perms: zkproto.PermAll, Scheme: "world", ID: "anyone"}}

// ValidatePath applies ZooKeeper's rules for the path of a node. Its errors wrap
// ErrInvalidPath. Every operation checks its path with it. A program that takes paths from its
// users can refuse a wrong one early.
func ValidatePath(path string) error { return zkproto.ValidatePath(path) }
