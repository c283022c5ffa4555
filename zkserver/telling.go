package zkserver

import "holdfast/zkproto"

// later calls f when the present batch is on disk, behind the requests that wait by then. So a batch has
// one portion of long operations, and clients with answers in it wait for no other. Portions take turns.
func (s *Server) later(f func()) {
	o := &s.owner
	if o.portions = append(o.portions, f); len(o.portions) == 1 {
		s.nextPortion()
	}
}

func (s *Server) nextPortion() {
	o := &s.owner
	o.batch.released = append(o.batch.released, func() {
		s.queue.push(&request{kind: kindCall, call: func() {
			if len(o.portions) == 0 {
				return // see stopPortions
			}
			o.portions[0]()
			o.portions[0] = nil
			if o.portions = o.portions[1:]; len(o.portions) > 0 {
				s.nextPortion()
			}
		}})
	})
}

// notify stages the notifications of a change. If there are too many for one batch, it stages those for c, which the
// caller may answer next, and makes portions of the others. c may be nil.
func (s *Server) notify(c *conn) {
	if o := &s.owner; o.tree.Telling() {
		if c != nil {
			o.tree.CatchUp(c.id)
		}
		if !o.telling {
			o.telling = true
			s.later(s.tellPortion)
		}
	}
	s.stageEvents()
}

// tellPortion stages some of the notifications that are left.
func (s *Server) tellPortion() {
	if s.owner.telling = s.owner.tree.TellMore(); s.owner.telling {
		s.later(s.tellPortion)
	}
	s.stageEvents()
}

// tellAll stages all notifications that are left.
func (s *Server) tellAll() {
	for s.owner.tree.Telling() {
		s.owner.tree.TellMore()
		s.stageEvents()
	}
}

// mostUntold is the notifications from which nothing is applied that may cause others.
const mostUntold = 1_000_000

func (s *Server) tooMuchToTell() bool { return s.owner.tree.Untold() > mostUntold }

// fewTold is how many watchers a write may have that is applied before the notifications of others.
const fewTold = 8

// waitsForTelling reports whether r waits until the notifications of earlier writes are staged: if its client must
// have many of them first, or if it may cause many. Otherwise its client gets those that it must have.
func (s *Server) waitsForTelling(c *conn, r *request) bool {
	t := s.owner.tree
	if !t.Telling() || r.kind != kindOperation {
		return false
	}
	if t.Behind(c.id) {
		return true
	}
	t.CatchUp(c.id)
	s.stageEvents()
	switch {
	case r.op == zkproto.OpMulti:
		watchers := 0
		for i := range r.multi.Ops {
			watchers += t.Watchers(r.multi.Ops[i].Path)
		}
		return r.undecoded || watchers > fewTold || s.tooMuchToTell()
	case isWrite(r.op):
		return t.Watchers(r.write.Path) > fewTold || s.tooMuchToTell()
	}
	return r.op == zkproto.OpCloseSession && s.tooMuchToTell()
}
