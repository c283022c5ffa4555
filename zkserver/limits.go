package zkserver

import (
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"time"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/tree"
)

// Limits keep clients from harming each other. In each field, 0 is the default and a
// negative number is no limit. The Limit in parentheses is the one that Stats counts under.
type Limits struct {
	// Connections in total (LimitConnections); 0 is 20,000. If there is less room, the limit is lower, and
	// Open logs that: seven eighths of the files that the process may open when the store is open, less those of
	// [Server.SetAside]; and half of BufferBytes at 24 KiB each. Connections of Connect need no file.
	//
	// A quarter of these connections, or 16, may wait for their connect request, and for a required login
	// (LimitNewcomers). If another client connects, the oldest of them is closed.
	Connections int

	// ConnectionsPerAddress (LimitPerAddress); 0 is 1,000. An address is one IPv4 address or a
	// /64 of IPv6, which one customer usually gets. Connections without an address, as on a
	// Unix socket, count in total only: the socket's permissions decide who may connect.
	ConnectionsPerAddress int

	// ConnectionsPerSecond is the rate of new connections of one address (LimitConnectRate); 0 is
	// 1,000. A burst may have twice as many. There is no such limit for all addresses together,
	// because one flood would then lock everybody out.
	ConnectionsPerSecond int

	// HandshakeTime is the time in which a new connection must complete its connect request,
	// including the TLS handshake (LimitHandshake); 0 is 10 s.
	HandshakeTime time.Duration

	// FrameBytes is the longest request (LimitFrame); 0 is 1,048,575, ZooKeeper's jute.maxbuffer. Until a
	// client has a session and has authenticated as required, it is 4 KiB. A transaction that could write
	// more than 24 MiB into the store is refused, however short it is.
	FrameBytes int

	// Outstanding is how many requests a connection may have without an answer
	// (LimitOutstanding); 0 is 256. Further requests stay in the network until there is room. With
	// the defaults of Outstanding and FrameBytes, the waiting requests of one connection take at
	// most 3 MiB of memory, decoded or not.
	Outstanding int

	// BufferBytes bounds the memory for all clients together; 0 is a quarter of Go's memory limit
	// (GOMEMLIMIT) if there is one, but at least 16 MiB and at most 1 GiB; otherwise 1 GiB.
	//
	//   - A quarter is for requests that are read or wait. If there is no room, the server reads no further
	//     ones, except a small one of a client that has none (LimitBuffers). A request of more than 4 KiB has
	//     10 s to arrive, and one second more for each 64 KiB.
	//   - A quarter is for answers that clients do not read. If there are more, clients with more than their
	//     share are dropped (LimitUnread).
	//   - Half is for connections.
	BufferBytes int

	// UnreadBytes is how much unread data may wait for one client (LimitUnread); 0 is 64 MiB.
	UnreadBytes int

	// DataBytes bounds all paths and data, with 300 bytes more for each node (LimitData); 0 is half of Go's
	// memory limit if there is one, otherwise no limit.
	DataBytes int

	// UnreadTime is how long a client may read nothing at all of the data that waits for it
	// (LimitStalled); 0 is 30 s.
	UnreadTime time.Duration

	// Watches is the limit in total (LimitWatches); 0 is 1,000,000. WatchesPerConnection is that of
	// one connection (LimitConnWatches); 0 is 100,000. A watch takes some 400 bytes of memory, so a
	// path counts once more per 256 bytes. A client that reconnects with more watches than there is
	// room for gets an error, and the connection is closed.
	Watches, WatchesPerConnection int

	// MultiOps is the most operations of a transaction or a multi-read (LimitMulti); 0 is
	// 10,000. The answer to more operations would exceed the megabyte that clients accept.
	// FrameBytes limits their bytes. The work of a transaction is limited, too: 10,000
	// checks are allowed, 2,000 deletes or writes of data, or 1,500 creates. Nodes hundreds of
	// levels deep and long ACLs count more. The limit of work grows with MultiOps.
	MultiOps int

	// PathBytes is the longest path of a node or a watch (LimitPath), without the ten digits of a
	// sequential node; 0 is 4,096.
	PathBytes int

	// ChildrenBytes is the total length of the names of a node's children, with four bytes more for
	// each (LimitChildren); 0 is 32 MiB. go-zookeeper's own tests need 20. Java's clients refuse a
	// list of more than 1 MiB. The server sends it nevertheless, and logs and counts it
	// (LimitLargeAnswers): other clients can read it, and remove nodes.
	ChildrenBytes int

	// EphemeralsPerSession is the most ephemeral nodes of a session (LimitEphemerals); 0 is
	// 100,000. Their paths may have 32 MiB. If a session has more than 3,000, several transactions
	// remove them.
	EphemeralsPerSession int
}

func (l Limits) withDefaults() Limits {
	memory := debug.SetMemoryLimit(-1) // this only asks
	for _, f := range [...]struct {
		field     *int
		byDefault int
	}{
		{&l.Connections, 20_000}, {&l.ConnectionsPerAddress, 1000}, {&l.ConnectionsPerSecond, 1000},
		{&l.FrameBytes, zkproto.MaxFrame}, {&l.Outstanding, 256},
		{&l.BufferBytes, bufferBytes(memory)}, {&l.UnreadBytes, 64 << 20}, {&l.DataBytes, dataBytes(memory)},
		{&l.Watches, 1_000_000}, {&l.WatchesPerConnection, 100_000},
		{&l.MultiOps, 10_000}, {&l.PathBytes, 4096}, {&l.ChildrenBytes, 32 << 20}, {&l.EphemeralsPerSession, 100_000},
	} {
		switch {
		case *f.field == 0:
			*f.field = f.byDefault
		case *f.field < 0:
			*f.field = math.MaxInt32
			if f.field == &l.BufferBytes || f.field == &l.DataBytes {
				*f.field = math.MaxInt
			}
		}
	}
	for _, f := range [...]struct {
		field     *time.Duration
		byDefault time.Duration
	}{{&l.HandshakeTime, 10 * time.Second}, {&l.UnreadTime, 30 * time.Second}} {
		switch {
		case *f.field == 0:
			*f.field = f.byDefault
		case *f.field < 0:
			*f.field = math.MaxInt64 / 4 // 70 years, and no overflow
		}
	}
	return l
}

// connectionBytes is about the memory of a connection: its goroutines, its buffers, and a small request.
const connectionBytes = 24 << 10

// bufferBytes returns the default of BufferBytes, for a limit of memory.
func bufferBytes(memory int64) int { return int(min(max(memory/4, 16<<20), 1<<30)) }

// dataBytes returns the default of DataBytes.
func dataBytes(memory int64) int {
	if memory == math.MaxInt64 {
		return math.MaxInt // no limit
	}
	return int(min(memory/2, math.MaxInt))
}

// queueBytes is how many bytes of requests may wait for the owner. Readers wait for room. It is
// no Limit of a client: the owner empties the queue each time it looks.
const queueBytes = 32 << 20

// maxAnswer is the longest answer to a multi-read or to getEphemerals. Clients take 1 MiB by
// default.
const maxAnswer = 2 << 20

// multiWork returns the most work of a transaction or a multi-read, in steps of the tree.
func (s *Server) multiWork() int { return 80 * min(s.limits().MultiOps, 1<<20) }

// limits returns the limits in force. Any goroutine may call it, and its result never
// changes.
func (s *Server) limits() *Limits { return s.limited.Load() }

// checkLimits returns the limit that a request exceeds, if any, and the code that answers it.
func (s *Server) checkLimits(c *conn, r *request) (Limit, zkproto.Code) {
	l := s.limits()
	if len(r.write.Path) > l.PathBytes || len(r.read.Path) > l.PathBytes || len(r.addWatch.Path) > l.PathBytes {
		return LimitPath, zkproto.CodeBadArguments
	}
	switch r.op {
	case zkproto.OpExists, zkproto.OpGetData:
		if r.read.Watch {
			return s.checkWatch(c, r.read.Path, zkproto.WatchData)
		}
	case zkproto.OpGetChildren, zkproto.OpGetChildren2:
		if r.read.Watch {
			return s.checkWatch(c, r.read.Path, zkproto.WatchChildren)
		}
	case zkproto.OpAddWatch:
		return s.checkWatch(c, r.addWatch.Path, zkproto.WatchAny)
	case zkproto.OpSetWatches, zkproto.OpSetWatches2:
		return s.checkSetWatches(c, r)
	case zkproto.OpMulti:
		if len(r.multi.Ops) > l.MultiOps {
			return LimitMulti, zkproto.CodeBadArguments
		}
		for i := range r.multi.Ops {
			if len(r.multi.Ops[i].Path) > l.PathBytes {
				return LimitPath, zkproto.CodeBadArguments
			}
		}
		if s.worst(r) > maxWrite {
			return LimitFrame, zkproto.CodeBadArguments
		}
	case zkproto.OpCreate, zkproto.OpCreate2, zkproto.OpCreateContainer, zkproto.OpCreateTTL, zkproto.OpSetData, zkproto.OpSetACL, zkproto.OpDelete:
		if s.worst(r) > maxWrite {
			return LimitFrame, zkproto.CodeBadArguments
		}
	case zkproto.OpMultiRead:
		if len(r.multiRead.Ops) > l.MultiOps {
			return LimitMulti, zkproto.CodeBadArguments
		}
	}
	return "", zkproto.CodeOK
}

func (s *Server) checkWatch(c *conn, path string, kind int32) (Limit, zkproto.Code) {
	limit, code := s.roomForWatches(c, tree.WatchWeight(path))
	if code != zkproto.CodeOK && kind != zkproto.WatchAny && s.owner.tree.CheckWatches(c.id, path, kind) == zkproto.CodeOK {
		return "", zkproto.CodeOK // it exists already
	}
	return limit, code
}

func (s *Server) checkSetWatches(c *conn, r *request) (Limit, zkproto.Code) {
	weight := 0
	for _, paths := range [...][]string{r.setWatches.Data, r.setWatches.Exist, r.setWatches.Child, r.setWatches.Persistent, r.setWatches.PersistentRecursive} {
		for _, path := range paths {
			if len(path) > s.limits().PathBytes {
				return LimitPath, zkproto.CodeBadArguments
			}
			weight += tree.WatchWeight(path)
		}
	}
	return s.roomForWatches(c, weight)
}

func (s *Server) roomForWatches(c *conn, weight int) (Limit, zkproto.Code) {
	own, all := s.owner.tree.WatchWeights(c.id)
	switch {
	case own+weight > s.limits().WatchesPerConnection:
		return LimitConnWatches, zkproto.CodeQuotaExceeded
	case all+weight > s.limits().Watches:
		return LimitWatches, zkproto.CodeQuotaExceeded
	}
	return "", zkproto.CodeOK
}

// hexID is a session in a log line. It is formatted only if it is logged, which is rare.
type hexID int64

func (id hexID) LogValue() slog.Value { return slog.StringValue(fmt.Sprintf("0x%x", int64(id))) }

// bounds returns the limits that the tree enforces, since a transaction may reach them half-way.
func (s *Server) bounds() tree.Bounds {
	return tree.Bounds{
		ChildrenBytes: s.limits().ChildrenBytes, Ephemerals: s.limits().EphemeralsPerSession, Work: s.multiWork(),
		Data: int64(s.limits().DataBytes), Quotas: s.cfg.EnforceQuota, QuotasBySuper: !s.cfg.QuotaWritable, NoTTL: s.cfg.NoTTLNodes,
		Exceeded: func(by tree.Bound) {
			s.refused(map[tree.Bound]Limit{
				tree.BoundChildren: LimitChildren, tree.BoundEphemerals: LimitEphemerals, tree.BoundQuota: LimitQuota,
				tree.BoundACL: LimitACL, tree.BoundWork: LimitMulti, tree.BoundData: LimitData,
			}[by])
		},
		OverQuota: func(subtree string) { s.refused(LimitSoftQuota, "path", subtree) },
	}
}
