package sched

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// A request is a request of a simulated client.
type request struct {
	client *client
	number int // counts the client's requests
	size   int // the size that the scheduler sees
	work   int // the work that it really causes
	large  bool
}

// A client keeps some requests in flight: as soon as one is applied, it sends another.
type client struct {
	flow            Flow[*request]
	kind            request
	underWay        int
	sent, applied   int
	work            int // applied
	longest         int // most batches that one request has waited for
	arrived         map[int]int
	stalled, silent bool
}

// A server applies requests as the real one does.
type server struct {
	t         *testing.T
	turns     *Scheduler[*request]
	clients   []*client
	batch     int
	work      int // of the current batch
	most      int // greatest work of a batch
	contended int // batches with waiting requests and another client that was heard lately
	alone     int // batches with waiting requests and no such client
}

func newServer(t *testing.T, clients ...*client) *server {
	for _, c := range clients {
		c.arrived = make(map[int]int)
	}
	return &server{t: t, turns: New(func(r *request) bool { return r.client.stalled }), clients: clients}
}

func (s *server) apply(r *request) {
	c := r.client
	if r.number != c.applied {
		s.t.Fatalf("request %d of a client was applied in place of %d", r.number, c.applied)
	}
	c.applied++
	c.work += r.work
	c.longest = max(c.longest, s.batch-c.arrived[r.number])
	delete(c.arrived, r.number)
	s.turns.Charge(&c.flow, r.work)
	s.work += r.work
}

// round lets all clients send as many requests as they may, and fills and hands over one batch.
func (s *server) round() {
	for _, c := range s.clients {
		for c.sent-c.applied < c.underWay && !c.silent {
			r := c.kind
			r.client, r.number = c, c.sent
			c.arrived[r.number] = s.batch
			c.sent++
			if !s.turns.Admit(&c.flow, &r, r.size, r.large) {
				continue
			}
			s.turns.Heard(&c.flow)
			s.apply(&r)
			if c.sent-c.applied < c.underWay && c.applied%c.underWay == 0 {
				break // a client gets its answer when the batch is handed over
			}
		}
	}
	switch {
	case !s.turns.Ready():
	case s.turns.Silence() < recent:
		s.contended++
	default:
		s.alone++
	}
	for r, ok := s.turns.Next(); ok; r, ok = s.turns.Next() {
		s.apply(r)
	}
	s.most = max(s.most, s.work)
	s.turns.HandedOver()
	s.batch++
	s.work = 0
}

const (
	recent = 16 // batches
	small  = 600
	big    = 500 << 10
)

// floods are the floods of docs/contributing/floods.md, as a scheduler sees their requests.
var floods = map[string]struct {
	clients, underWay int
	request           request
}{
	"small requests":                    {20, 256, request{size: small, work: small}},
	"small requests of many":            {2000, 8, request{size: small, work: small}},
	"large writes":                      {4, 256, request{size: 1 << 20, work: 1 << 20, large: true}},
	"large answers":                     {20, 256, request{size: big, work: big, large: true}},
	"large answers, new connections":    {500, 1, request{size: big, work: big, large: true}},
	"large transactions":                {4, 256, request{size: 200 << 10, work: 900 << 10, large: true}},
	"small writes that thousands watch": {4, 256, request{size: small, work: 10_000 << 10}},
	"notifications of 200":              {4, 256, request{size: small, work: 200 << 10}},
	"watches":                           {2, 256, request{size: small, work: 2 * small}},
	"writes just below the limit":       {16, 256, request{size: 4 << 10, work: 5 << 10}},
}

// Whatever the other clients do, a client that asks for little is served at once. A batch has a
// bounded size, and all other clients make progress.
func TestFloods(t *testing.T) {
	const batches = 1000
	for name, flood := range floods {
		t.Run(name, func(t *testing.T) {
			honest := &client{kind: request{size: small, work: small}, underWay: 1}
			reader := &client{kind: request{size: 100 << 10, work: 100 << 10, large: true}, underWay: 1}
			var attackers []*client
			for range flood.clients {
				attackers = append(attackers, &client{kind: flood.request, underWay: flood.underWay})
			}
			s := newServer(t, append(slices.Clone(attackers), honest, reader)...)
			for range batches {
				s.round()
			}
			if honest.longest > 0 || honest.applied < batches {
				t.Errorf("the honest client: %d requests in %d batches; one waited for %d", honest.applied, batches, honest.longest)
			}
			// Each other client has one turn before its request, and half of a batch is for turns.
			turn := max(min(Share, flood.underWay*flood.request.work), flood.request.work)
			fair := flood.clients*turn/max(Full/2, flood.request.work) + flood.clients*turn/Full + 3
			if reader.longest > fair || reader.applied == 0 {
				t.Errorf("the reader: %d requests; one waited for %d batches, want at most %d", reader.applied, reader.longest, fair)
			}
			// One request may exceed the rest of the batch, since its work is known afterwards.
			// Small requests are applied at once, and some of them cause more work than their size
			// shows.
			most := Full + max(flood.request.work, 100<<10) + small
			if !flood.request.large {
				most += flood.clients * flood.request.work
			}
			if s.most > most {
				t.Errorf("a batch of %d; want at most %d", s.most, most)
			}
			least, best := attackers[0].work, attackers[0].work
			for _, c := range attackers {
				least, best = min(least, c.work), max(best, c.work)
			}
			if apart := best - least; apart > 2*max(flood.request.work, Share) {
				t.Errorf("one of the other clients got %d more than another", apart)
			}
			if s.alone > 1 {
				t.Errorf("the other clients were alone in %d batches", s.alone)
			}
		})
	}
}

// A client that is alone fills its batches, even while the batch before is committed.
func TestAlone(t *testing.T) {
	const batches = 1000
	for _, kind := range []request{
		{size: small, work: small},
		{size: 3 << 10, work: 4 << 10},
		{size: 8 << 10, work: 9 << 10, large: true},
		{size: 100 << 10, work: 101 << 10, large: true},
		{size: 1 << 20, work: 1 << 20, large: true},
		{size: small, work: 3 << 20}, // it pays its debts at once, since no other client waits
	} {
		t.Run(fmt.Sprint(kind.size, "/", kind.work), func(t *testing.T) {
			c := &client{kind: kind, underWay: 256}
			s := newServer(t, c)
			for range batches {
				s.round()
			}
			if want := batches * min(Full/kind.work*3/4, 200); c.applied < max(want, batches) {
				t.Errorf("%d requests in %d batches; want %d", c.applied, batches, want)
			}
			if s.contended > recent {
				t.Errorf("contended in %d batches", s.contended)
			}
			// The scheduler notices a second client as soon as it hears it.
			other := &client{kind: request{size: small, work: small}, underWay: 1, arrived: make(map[int]int)}
			s.clients = slices.Insert(s.clients, 0, other) // it was not the last client heard
			s.round()
			before := s.alone
			for range recent {
				s.round()
			}
			if s.alone != before {
				t.Errorf("alone in %d of %d batches beside another client", s.alone-before, recent)
			}
			other.silent = true
			for range recent {
				s.round()
			}
			before = s.contended
			s.round()
			if s.contended != before {
				t.Error("contended although the other client is silent")
			}
		})
	}
}

// Later shares pay for a request that exceeds its share.
func TestDebts(t *testing.T) {
	for name, tt := range map[string]struct{ work, turns int }{
		"half a share":  {Share / 2, 1},
		"one share":     {Share, 1},
		"three shares":  {3 * Share, 3},
		"beyond all":    {100 * maxDebt, maxDebt / Share},
		"a little more": {Share + 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			// Both clients always have a request in flight, so each share of the other is a turn.
			c := &client{kind: request{size: small, work: tt.work, large: true}, underWay: 4}
			other := &client{kind: request{size: Share, work: Share, large: true}, underWay: 4}
			s := newServer(t, c, other)
			for range 2000 {
				s.round()
			}
			if ratio := float64(other.applied) / float64(c.applied); ratio > float64(tt.turns)*1.1 || ratio < float64(tt.turns)*0.4 {
				t.Errorf("%.2f requests of the other client for each; want about %d", ratio, tt.turns)
			}
		})
	}
}

// The requests of a client that does not read wait until it does. Other requests do not.
func TestStalled(t *testing.T) {
	lazy := &client{kind: request{size: small, work: small}, underWay: 10, stalled: true}
	other := &client{kind: request{size: big, work: big, large: true}, underWay: 10}
	s := newServer(t, lazy, other)
	for range 100 {
		s.round()
	}
	if lazy.applied > 0 || lazy.flow.Waiting() != 10 || other.applied < 100 {
		t.Errorf("%d and %d requests were applied, %d wait", lazy.applied, other.applied, lazy.flow.Waiting())
	}
	other.silent = true
	for range 10 {
		s.round()
	}
	if s.turns.Ready() {
		t.Error("a request is ready although its client does not read")
	}
	lazy.stalled = false
	s.turns.Resume(&lazy.flow)
	s.turns.Resume(&lazy.flow)
	s.round()
	if lazy.applied < 10 {
		t.Errorf("%d requests were applied after the client had read", lazy.applied)
	}
}

func TestDrain(t *testing.T) {
	lazy := &client{kind: request{size: small, work: small}, underWay: 3, stalled: true}
	greedy := &client{kind: request{size: big, work: big, large: true}, underWay: 200}
	s := newServer(t, lazy, greedy)
	s.round()
	rounds := 1
	for n := 0; !s.turns.Drain(func(r *request) bool { s.apply(r); n++; return n%50 != 0 }); {
		rounds++
	}
	if rounds != 5 {
		t.Errorf("%d rounds for 203 requests, 50 in each", rounds)
	}
	if lazy.applied != 3 || greedy.applied != 200 || s.turns.Ready() {
		t.Errorf("%d and %d requests were applied", lazy.applied, greedy.applied)
	}
	s.turns.Drain(func(*request) bool { t.Error("a request was applied twice"); return true })
}

// In any traffic, no request is lost, applied twice, or overtakes another request of its
// client. While requests wait, one of them always has the turn.
func TestAnyTraffic(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		var clients []*client
		for range 1 + r.IntN(8) {
			clients = append(clients, &client{underWay: 1 + r.IntN(300)})
		}
		s := newServer(t, clients...)
		for range 300 {
			for _, c := range clients {
				work := 1 << r.IntN(23)
				c.kind = request{size: min(work, 1+r.IntN(1<<20)), work: work, large: r.IntN(2) == 0}
				if c.silent = r.IntN(3) == 0; r.IntN(10) == 0 {
					if c.stalled = !c.stalled; !c.stalled {
						s.turns.Resume(&c.flow)
					}
				}
			}
			before, ready := 0, s.turns.Ready()
			for _, c := range clients {
				before += c.applied
				ready = ready && !c.stalled
			}
			s.round()
			after := 0
			for _, c := range clients {
				after += c.applied
			}
			if ready && after == before {
				t.Fatalf("seed %d: nothing was applied", seed)
			}
		}
		for _, c := range clients {
			c.silent, c.stalled = true, false
			s.turns.Resume(&c.flow)
		}
		for s.turns.Ready() {
			s.round()
		}
		for i, c := range clients {
			if c.applied != c.sent || c.flow.Waiting() > 0 {
				t.Fatalf("seed %d: %d of %d requests of client %d were applied", seed, c.applied, c.sent, i)
			}
		}
		if waited, turns := s.turns.Waited(); turns < 0 || waited < 0 {
			t.Errorf("%d requests waited for %d batches", waited, turns)
		}
	}
}
