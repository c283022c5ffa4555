package zkserver

import "holdfast/zkproto"

// An operation has the properties of an opcode that do not depend on the request.
type operation struct {
	name  string // in the field lop of the word cons
	write bool   // it takes a zxid, even if it fails
	looks bool   // it changes nothing but watches, which end with the connection

	// answer returns a bound of the length of the data or names that r asks for. It is nil if
	// they are always short. A request for a long answer is large, see large.
	answer func(s *Server, r *request) int
}

// operations has every operation that clients can ask for. The comments name what bounds the
// operation's time and memory, besides its frame (Limits.FrameBytes).
//
// The bounds of an ACL check are the length of the ACL, see tree.MaxACLEntries, and the number of the
// client's identities, see login.Add. The bound of a walk to the root is Limits.PathBytes.
//
// One operation takes the owner at most 5 ms of processor time. TestNoOperationIsUnbounded
// measures that in a run of -operations 1000000. There are three exceptions:
//
//   - A write also takes 2 µs for each notification. It sends at most 130,000, and then drops the
//     other watchers (LimitNotifications): 0.5 s at most.
//   - getChildren takes 3 ms for each MiB of names. Limits.ChildrenBytes is 32 MiB by default. With
//     1 MiB, which is as much as clients can read, there is no exception.
//   - A check of the clock takes 0.1 µs for each session. The four-letter words that list all
//     sessions or watches take 1 µs for each. They are not allowed by default.
var operations = map[zkproto.Op]operation{
	// Writes: one node, its ACL, the nodes above it, the text of one quota, and the watches on the
	// node and above it.
	zkproto.OpCreate:          {name: "CREA", write: true},
	zkproto.OpCreate2:         {name: "CREA", write: true},
	zkproto.OpCreateContainer: {name: "CREA", write: true},
	zkproto.OpCreateTTL:       {name: "CREA", write: true},
	zkproto.OpDelete:          {name: "DELE", write: true},
	zkproto.OpSetData:         {name: "SETD", write: true},
	zkproto.OpSetACL:          {name: "SETA", write: true},
	zkproto.OpMulti:           {name: "MULT", write: true}, // the same for each operation; Limits.MultiOps, Server.multiWork, and 1 MiB of ACLs by auth
	zkproto.OpReconfig:        {name: "RECO", write: true}, // nothing

	// Reads: one node and its ACL, and the answer.
	zkproto.OpExists:               {name: "EXIS", looks: true},
	zkproto.OpGetData:              {name: "GETD", looks: true, answer: dataAnswer},       // Limits.FrameBytes
	zkproto.OpGetChildren:          {name: "GETC", looks: true, answer: childrenAnswer},   // Limits.ChildrenBytes
	zkproto.OpGetChildren2:         {name: "GETC", looks: true, answer: childrenAnswer},   // the same
	zkproto.OpGetACL:               {name: "GETA", looks: true, answer: aclAnswer},        // an ACL
	zkproto.OpGetEphemerals:        {name: "GETE", looks: true, answer: ephemeralsAnswer}, // maxAnswer
	zkproto.OpGetAllChildrenNumber: {name: "GETACN", looks: true},                         // a stored number
	zkproto.OpMultiRead:            {name: "MLTR", looks: true, answer: multiReadAnswer},  // Limits.MultiOps, Server.multiWork, and maxAnswer
	zkproto.OpWhoAmI:               {name: "HOMI", looks: true},                           // the identities, see login.Add

	// Watches.
	zkproto.OpAddWatch:      {name: "ADDW"}, // Limits.WatchesPerConnection, as for all of them
	zkproto.OpCheckWatches:  {name: "CHKW"},
	zkproto.OpRemoveWatches: {name: "REMW"},
	zkproto.OpSetWatches:    {name: "SETW"}, // a node and its ACL for each path, watchPortion of them in one turn
	zkproto.OpSetWatches2:   {name: "STW2"}, // the same

	// The session.
	zkproto.OpPing: {name: "PING"}, // nothing
	zkproto.OpSync: {name: "SYNC"}, // nothing
	zkproto.OpAuth: {},             // a hash of the frame, and maxConnIdentitiesSize
	zkproto.OpSASL: {},             // the same

	// A delete for each node of the session, 3,000 at a time, see Server.endSession.
	zkproto.OpCloseSession: {},
}

// isWrite reports whether op takes a zxid, even if it fails.
func isWrite(op zkproto.Op) bool { return operations[op].write }

// looks reports whether op changes nothing but watches, which end with the connection.
func looks(op zkproto.Op) bool { return operations[op].looks }

// These constants weigh the work of a request, as package sched counts it. A byte of the request or
// of its answers counts as 1, and so does a byte that it writes beyond its own. Everything else counts as
// the bytes that take the same time.
const (
	requestWork = 512
	notifyWork  = 1024 // each notified watcher
	multiWork   = 32   // each operation of a transaction
	stepWork    = 1    // each step of the tree, see tree.TakeSteps
)

// A request is large if it or its answer exceeds the buffers that are reserved for small ones, or if it
// may write much.
const (
	largeRequest = 4096
	largeAnswer  = maxStage
	largeWrite   = 64 << 10
)

// large returns the least work of r, and whether r is large.
func (s *Server) large(r *request) (work int, large bool) {
	answer, written := 0, 0
	if r.kind == kindOperation {
		written = s.worst(r)
		if !r.conn.gone.Load() {
			answer = s.answerSize(r)
		}
	}
	return requestWork + max(len(r.frame), written) + answer,
		len(r.frame) > largeRequest || answer > largeAnswer || written > largeWrite
}

// worst returns a bound of the bytes that r will write into the store. An undecoded transaction has none
// yet; it is large in any case.
func (s *Server) worst(r *request) (size int) {
	switch t := s.owner.tree; r.op {
	case zkproto.OpMulti:
		for i := range r.multi.Ops {
			size += t.Worst(&r.multi.Ops[i])
		}
	case zkproto.OpCloseSession:
		if sess := r.conn.owned.session; sess != nil {
			return t.WorstEnd(sess.id)
		}
	default:
		return t.Worst(&r.write)
	}
	return size
}

// answerSize returns a bound of the length of the data or names that r asks for; 0 if they are
// always short.
func (s *Server) answerSize(r *request) int {
	if answer := operations[r.op].answer; answer != nil {
		return answer(s, r)
	}
	return 0
}

func dataAnswer(s *Server, r *request) int     { return s.owner.tree.DataSize(r.read.Path) }
func childrenAnswer(s *Server, r *request) int { return s.owner.tree.NamesSize(r.read.Path) }
func aclAnswer(s *Server, r *request) int      { return s.owner.tree.ACLSize(r.read.Path) }

func ephemeralsAnswer(s *Server, r *request) int {
	if sess := r.conn.owned.session; sess != nil {
		return s.owner.tree.EphemeralsSize(sess.id)
	}
	return 0
}

func multiReadAnswer(s *Server, r *request) (n int) {
	t := s.owner.tree
	for i := range r.multiRead.Ops {
		if o := &r.multiRead.Ops[i]; o.Op == zkproto.OpGetData {
			n += t.DataSize(o.Path)
		} else {
			n += t.NamesSize(o.Path)
		}
		if n > maxAnswer {
			break
		}
	}
	return n
}
