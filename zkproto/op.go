package zkproto

import "strconv"

// An Op is an operation code (org.apache.zookeeper.ZooDefs.OpCode).
type Op int32

// The operations for which this package has messages.
const (
	OpError                Op = -1 // in multi: the end of a request, an error in a response
	OpCreate               Op = 1
	OpDelete               Op = 2
	OpExists               Op = 3
	OpGetData              Op = 4
	OpSetData              Op = 5
	OpGetACL               Op = 6
	OpSetACL               Op = 7
	OpGetChildren          Op = 8
	OpSync                 Op = 9
	OpPing                 Op = 11
	OpGetChildren2         Op = 12
	OpCheck                Op = 13 // inside multi only
	OpMulti                Op = 14
	OpCreate2              Op = 15
	OpReconfig             Op = 16
	OpCheckWatches         Op = 17
	OpRemoveWatches        Op = 18
	OpCreateContainer      Op = 19
	OpCreateTTL            Op = 21
	OpMultiRead            Op = 22 // since 3.6
	OpAuth                 Op = 100
	OpSetWatches           Op = 101
	OpSASL                 Op = 102
	OpGetEphemerals        Op = 103 // since 3.6
	OpGetAllChildrenNumber Op = 104 // since 3.6
	OpSetWatches2          Op = 105 // since 3.6
	OpAddWatch             Op = 106 // since 3.6
	OpWhoAmI               Op = 107 // since 3.7
	OpCloseSession         Op = -11
)

// String returns the verb that error messages use.
func (o Op) String() string {
	switch o {
	case OpCreate, OpCreate2:
		return "create"
	case OpDelete:
		return "delete"
	case OpExists:
		return "exists"
	case OpGetData:
		return "get"
	case OpSetData:
		return "set"
	case OpGetChildren, OpGetChildren2:
		return "children"
	case OpSync:
		return "sync"
	case OpPing:
		return "ping"
	case OpCheck:
		return "check"
	case OpMulti:
		return "multi"
	case OpRemoveWatches:
		return "remove watches"
	case OpCheckWatches:
		return "check watches"
	case OpSASL:
		return "sasl"
	case OpCreateContainer:
		return "create container"
	case OpAuth:
		return "auth"
	case OpSetWatches, OpSetWatches2:
		return "set watches"
	case OpGetACL:
		return "get acl"
	case OpSetACL:
		return "set acl"
	case OpReconfig:
		return "reconfig"
	case OpCreateTTL:
		return "create ttl"
	case OpMultiRead:
		return "multi read"
	case OpGetEphemerals:
		return "ephemerals"
	case OpGetAllChildrenNumber:
		return "all children number"
	case OpAddWatch:
		return "add watch"
	case OpWhoAmI:
		return "who am i"
	case OpCloseSession:
		return "close session"
	}
	return "op " + strconv.Itoa(int(o))
}

// These transaction ids have a special meaning. All others are the client's count; a server echoes
// every id.
const (
	XidNotification int32 = -1
	XidPing         int32 = -2
	XidAuth         int32 = -4
	XidSetWatches   int32 = -8
)

// Create flags (org.apache.zookeeper.CreateMode).
const (
	FlagPersistent           int32 = 0
	FlagEphemeral            int32 = 1
	FlagPersistentSequential int32 = 2
	FlagEphemeralSequential  int32 = 3
	FlagContainer            int32 = 4
	FlagTTL                  int32 = 5 // persistent, in a CreateTTLRequest only
	FlagSequentialTTL        int32 = 6 // persistent sequential, in a CreateTTLRequest only
)

// An EventType says what happened to a watched node (Watcher.Event.EventType).
type EventType int32

// The event types that a server sends.
const (
	EventNone                EventType = -1
	EventNodeCreated         EventType = 1
	EventNodeDeleted         EventType = 2
	EventNodeDataChanged     EventType = 3
	EventNodeChildrenChanged EventType = 4
)

// String returns the name of the type in Apache's documentation.
func (t EventType) String() string {
	switch t {
	case EventNone:
		return "None"
	case EventNodeCreated:
		return "NodeCreated"
	case EventNodeDeleted:
		return "NodeDeleted"
	case EventNodeDataChanged:
		return "NodeDataChanged"
	case EventNodeChildrenChanged:
		return "NodeChildrenChanged"
	}
	return "EventType(" + strconv.Itoa(int(t)) + ")"
}

// StateSyncConnected is the state of every event that a server sends.
const StateSyncConnected int32 = 3

// Kinds of watch in a RemoveWatchesRequest (Watcher.WatcherType).
const (
	WatchChildren int32 = 1
	WatchData     int32 = 2
	WatchAny      int32 = 3

	WatchPersistent          int32 = 4 // since 3.9
	WatchPersistentRecursive int32 = 5 // since 3.9
)

// Modes of an AddWatchRequest (AddWatchMode).
const (
	ModePersistent          int32 = 0
	ModePersistentRecursive int32 = 1
)
