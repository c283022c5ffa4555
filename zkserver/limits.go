package zkserver

import (
	"fmt"
	"log/slog"
	"math"
	"time"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/tree"
)

// Limits keep clients from harming each other. In each field 0 is the default and a
// negative number is no limit. Stats counts under the Limit that is named.
type Limits struct {
	// Connections in total (LimitConnections); 0 is 20,000. If the process may not have so many
	// files open, the limit is lower, and Open logs that. It is the number of files that are free
	// when the store is open, less a reserve for the store and the rest of the process. The reserve
	// is 64, or half of the files where that is less. But 16 connections are always allowed, or a
	// quarter of the files where that is less. Connections of Connect have no file and need none.
	Connections int

	// ConnectionsPerAddress (LimitPerAddress); 0 is 1,000. An address is one of IPv4 or a
	// /64 of IPv6, which is what one customer gets. Connections without an address, as by a
	// Unix socket, count in total only: the socket's permissions say who may.
	ConnectionsPerAddress int

	// ConnectionsPerSecond is how many new ones an address may make in the long run
	// (LimitConnectRate), and twice that at once; 0 is 1,000. There is none for all
	// addresses together: with it, one flood would keep everybody out.
	ConnectionsPerSecond int

	// HandshakeTime is what a connection has until its connect request is complete, with
	// TLS before it (LimitHandshake); 0 is 10 s.
	HandshakeTime time.Duration

	// FrameBytes is the longest request (LimitFrame); 0 is 1,048,575, ZooKeeper's
	// jute.maxbuffer.
	FrameBytes int

	// Outstanding is how many requests a connection may have without an answer
	// (LimitOutstanding); 0 is 256. More are left in the network until there is room. With the
	// defaults of Outstanding and FrameBytes, the requests of one connection that wait take at
	// most 5 MiB of memory, decoded or not.
	Outstanding int

	// UnreadBytes is how much may wait for one client to take it (LimitUnread); 0 is 64 MiB.
	// UnreadBytesTotal is for all clients together; 0 is 512 MiB. Above it, those with more
	// than their share are dropped.
	UnreadBytes, UnreadBytesTotal int

	// UnreadTime is how long a client may take nothing at all of what waits for it
	// (LimitStalled); 0 is 30 s.
	UnreadTime time.Duration

	// Watches in total (LimitWatches), 0 is 1,000,000; and of one connection
	// (LimitConnWatches), 0 is 100,000. A path counts once more per 256 bytes, since it is
	// memory that is limited: some 400 bytes a watch. A client that connects again with
	// more watches than there is room for is told so and dropped.
	Watches, WatchesPerConnection int

	// MultiOps is the most operations of a transaction or a multi-read (LimitMulti); 0 is
	// 10,000. The answer to more of them would not fit into the megabyte that clients take.
	// Their bytes are limited by FrameBytes. The work of a transaction is limited, too: 10,000
	// checks are allowed, 2,000 deletes or writes of data, or 1,500 creates. Nodes hundreds of
	// levels deep and long ACLs count more. The limit of work grows with MultiOps.
	MultiOps int

	// PathBytes is the longest path that a node can have or a watch can be on (LimitPath),
	// without the ten digits of a sequential node; 0 is 4,096.
	PathBytes int

	// ChildrenBytes is how long the names of a node's children may be together, with four
	// bytes each (LimitChildren); 0 is 32 MiB: go-zookeeper's own tests make 20. Java's
	// clients give up on a list of more than 1 MiB, which is sent, logged and counted all the
	// same (LimitLargeAnswers): others can read it, and remove what is too much.
	ChildrenBytes int

	// EphemeralsPerSession is the most nodes that go with a session (LimitEphemerals); 0 is
	// 100,000. Their paths may have 32 MiB. If a session has more than 3,000, they go in several
	// transactions.
	EphemeralsPerSession int
}

func (l Limits) withDefaults() Limits {
	for _, f := range [...]struct {
		field     *int
		byDefault int
	}{
		{&l.Connections, 20_000}, {&l.ConnectionsPerAddress, 1000}, {&l.ConnectionsPerSecond, 1000},
		{&l.FrameBytes, zkproto.MaxFrame}, {&l.Outstanding, 256},
		{&l.UnreadBytes, 64 << 20}, {&l.UnreadBytesTotal, 512 << 20},
		{&l.Watches, 1_000_000}, {&l.WatchesPerConnection, 100_000},
		{&l.MultiOps, 10_000}, {&l.PathBytes, 4096}, {&l.ChildrenBytes, 32 << 20}, {&l.EphemeralsPerSession, 100_000},
	} {
		switch {
		case *f.field == 0:
			*f.field = f.byDefault
		case *f.field < 0:
			*f.field = math.MaxInt32
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

// queueBytes is how many bytes of requests may wait for the owner; readers wait for room.
// It is no Limit of a client: the owner empties the queue each time it looks.
const queueBytes = 32 << 20

// maxAnswer is the greatest length of the answer to a multi-read or to getEphemerals. Clients take
// 1 MiB by default.
const maxAnswer = 2 << 20

// multiWork is how much work a transaction or a multi-read may take, in steps of the tree.
func (s *Server) multiWork() int { return 80 * min(s.limits().MultiOps, 1<<20) }

// limits returns the limits that are in force. Any goroutine may call it, and its result never
// changes.
func (s *Server) limits() *Limits { return s.limited.Load() }

// checkLimits returns the limit that a request exceeds, if any, and the answer to it.
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
		return "", zkproto.CodeOK // it is there already
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

// overLimit answers a request that is over a limit and reports whether it was.
func (s *Server) overLimit(c *conn, r *request) bool {
	limit, code := s.checkLimits(c, r)
	if code == zkproto.CodeOK {
		return false
	}
	s.refused(limit, "remote", c.nc.RemoteAddr(), "session", hexID(c.owned.session.id), "op", r.op)
	c.penalties.Add(1)
	s.reply(c, r.xid, s.owner.zxid, code)
	if r.op == zkproto.OpSetWatches || r.op == zkproto.OpSetWatches2 {
		// Clients do not look at the answer: they would believe that they are watching.
		s.finish(c)
	}
	return true
}

// hexID is a session in a log. It is formatted if it is logged, which is seldom.
type hexID int64

func (id hexID) LogValue() slog.Value { return slog.StringValue(fmt.Sprintf("0x%x", int64(id))) }

// bounds are the limits that the tree keeps, since a transaction may meet them half way.
func (s *Server) bounds() tree.Bounds {
	return tree.Bounds{
		ChildrenBytes: s.limits().ChildrenBytes, Ephemerals: s.limits().EphemeralsPerSession, Work: s.multiWork(),
		Quotas: s.cfg.EnforceQuota, QuotasBySuper: !s.cfg.QuotaWritable, NoTTL: s.cfg.NoTTLNodes,
		Exceeded: func(by tree.Bound) {
			s.refused(map[tree.Bound]Limit{
				tree.BoundChildren: LimitChildren, tree.BoundEphemerals: LimitEphemerals, tree.BoundQuota: LimitQuota,
				tree.BoundACL: LimitACL, tree.BoundWork: LimitMulti,
			}[by])
		},
		OverQuota: func(subtree string) { s.refused(LimitSoftQuota, "path", subtree) },
	}
}
