package holdfast_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/internal/deed"
	"holdfast/layout"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

const failback = 5 * time.Second

// preferred is a candidate with a preference, whose value is the preference.
func preferred(t *testing.T, srv *zktest.Server, n int, opts ...holdfast.Option) candidate {
	return candidate{election(t, srv, append(opts, holdfast.WithPreference(n, failback))...), fmt.Sprint(n)}
}

// A leader hands over to a preferred candidate that has been in line for the time of the failback, and to no other.
func TestPreferredCandidateLeadsAfterFailback(t *testing.T) {
	for _, l := range []holdfast.Layout{layout.Curator, layout.LeaderLatch, layout.Kazoo} {
		t.Run(l.Name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				with := holdfast.WithLayout(l)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s := observe(ctx, t, election(t, srv, with))
				first := lock(t, preferred(t, srv, 1, with))
				same := wait(t.Context(), preferred(t, srv, 1, with))
				less := wait(t.Context(), preferred(t, srv, 0, with))
				time.Sleep(10 * time.Minute)
				wantSeen(t, s, "-", "1")
				more := wait(t.Context(), preferred(t, srv, 2, with))
				best := wait(t.Context(), preferred(t, srv, 3, with))
				began := time.Now()
				<-first.Revoked()
				if d := time.Since(began); d != failback {
					t.Errorf("asked to hand over after %v; want %v", d, failback)
				}
				if first.Err() != nil {
					t.Error("the term ended before the leader resigned")
				}
				unlock(t, first)
				h := best.got(t)
				wantSeen(t, s, "3")
				time.Sleep(10 * time.Minute)
				unlock(t, h)
				for i, next := range []*waiter{more, same, less} {
					h := next.got(t)
					wantSeen(t, s, fmt.Sprint(2-i))
					unlock(t, h)
				}
				wantSeen(t, s, "-")
			})
		})
	}
}

// Lead ends the context of its function, and campaigns again.
func TestLeadHandsOver(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		ctx, cancel := context.WithCancelCause(t.Context())
		e := preferred(t, srv, 1)
		var terms atomic.Int64
		stopped := make(chan error, 1)
		go func() {
			stopped <- e.Lead(ctx, []byte("1"), func(ctx context.Context) error {
				term := terms.Add(1)
				<-ctx.Done()
				if term == 1 {
					wantErr(t, context.Cause(ctx), holdfast.ErrHandover)
				}
				return context.Cause(ctx)
			})
		}()
		synctest.Wait()
		h := lock(t, preferred(t, srv, 2))
		unlock(t, h)
		time.Sleep(time.Second)
		if l, err := e.Leader(t.Context()); err != nil || string(l.Value) != "1" || terms.Load() != 2 {
			t.Errorf("after the preferred candidate, the leader is %q, %v, in term %d; want the first one again, in its second term", l.Value, err, terms.Load())
		}
		over := errors.New("over")
		cancel(over)
		wantErr(t, <-stopped, over)
	})
}

// A candidate that comes and goes within the time of the failback does not move the leader.
func TestFlappingCandidateDoesNotLead(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		leader := lock(t, preferred(t, srv, 0))
		between := wait(t.Context(), preferred(t, srv, 1))
		e := preferred(t, srv, 2)
		for range 2 { // the one in between leads nevertheless
			time.Sleep(failback / 4)
			ctx, cancel := context.WithTimeout(t.Context(), failback/2)
			if _, err := e.Campaign(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			cancel()
		}
		select {
		case <-leader.Revoked():
		default:
			t.Error("the candidate in between has been in line for long enough, and the leader was not asked to hand over")
		}
		unlock(t, leader)
		h := between.got(t)
		flaps := 0
		for range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), failback-100*time.Millisecond)
			if _, err := e.Campaign(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			cancel()
			flaps++
		}
		synctest.Wait()
		select {
		case <-h.Revoked():
			t.Errorf("the leader was asked to hand over after %d candidacies that were too short", flaps)
		default:
		}
		unlock(t, h)
	})
}

// If the leader dies, the most preferred candidate in line leads at once.
func TestMostPreferredLeadsAfterALoss(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		leader := lock(t, preferred(t, srv, 0))
		var line []*waiter
		for _, n := range []int{1, 3, 2, 0} {
			line = append(line, wait(t.Context(), preferred(t, srv, n)))
			synctest.Wait()
		}
		srv.Expire(leader.SessionID())
		began := time.Now()
		h := line[1].got(t)
		if d := time.Since(began); d > time.Second {
			t.Errorf("after %v", d)
		}
		unlock(t, h)
		unlock(t, line[2].got(t))
		unlock(t, line[0].got(t))
		unlock(t, line[3].got(t))
	})
}

// A preferred candidate that comes just before the loss leads, too: the next in line hears of both at the same time.
func TestPreferredCandidateThatComesWithTheLoss(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		leader := lock(t, preferred(t, srv, 0))
		l := newLine(t, srv)
		next := wait(t.Context(), candidate{holdfast.NewElection(l.Client, lockPath, holdfast.WithPreference(0, failback)), "0"})
		gate := make(chan struct{})
		l.deaf.Store(&gate)
		best := wait(t.Context(), preferred(t, srv, 1))
		unlock(t, leader)
		l.deaf.Store(nil)
		close(gate)
		h := best.got(t)
		if !next.waiting() {
			t.Error("the candidate that is not preferred has led")
		}
		unlock(t, h)
		unlock(t, next.got(t))
	})
}

// If the server's clock is set forward, a preferred candidate is in line for as long as the leader has seen it.
func TestFailbackUnderAClockThatMoves(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		leader := lock(t, preferred(t, srv, 0))
		srv.MoveClock(time.Hour)
		best := wait(t.Context(), preferred(t, srv, 1))
		began := time.Now()
		<-leader.Revoked()
		if d := time.Since(began); d != failback {
			t.Errorf("asked to hand over after %v; want %v", d, failback)
		}
		unlock(t, leader)
		unlock(t, best.got(t))
	})
}

// The leader does not resign before the next candidate can lead.
func TestHandoverWaitsForAConnectedCandidate(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		leader := lock(t, preferred(t, srv, 0))
		l := newLine(t, srv)
		next := wait(t.Context(), candidate{holdfast.NewElection(l.Client, lockPath, holdfast.WithPreference(1, failback)), "1"})
		time.Sleep(failback - time.Second)
		l.cut()
		time.Sleep(4 * time.Second) // its session lives on
		select {
		case <-leader.Revoked():
			t.Error("asked to hand over to a candidate without a connection")
		default:
		}
		l.connect()
		<-leader.Revoked()
		unlock(t, leader)
		unlock(t, next.got(t))
	})
}

// A candidate of another library stays where it is, and the preferred one waits for it.
func TestPreferenceBesideCandidatesWithout(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		leader := lock(t, preferred(t, srv, 0))
		plain := wait(t.Context(), candidate{election(t, srv), "plain"})
		between := wait(t.Context(), preferred(t, srv, 1))
		best := wait(t.Context(), preferred(t, srv, 2))
		time.Sleep(time.Minute)
		select {
		case <-leader.Revoked():
			t.Fatal("asked to hand over, and the next in line is a candidate without a preference")
		default:
		}
		unlock(t, leader)
		h := plain.got(t)
		time.Sleep(time.Minute)
		unlock(t, h)
		unlock(t, best.got(t))
		unlock(t, between.got(t))
	})
}

// A program that asks too much is refused.
func TestPreferenceIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		for _, o := range []holdfast.Option{holdfast.WithPreference(-1, 0), holdfast.WithPreference(1, -1), holdfast.WithPreference(1_000_001, 0)} {
			_, err := holdfast.NewElection(c, lockPath, o).Campaign(t.Context(), nil)
			wantErr(t, err, zk.ErrBadArguments)
		}
		for _, name := range []string{"sessionid", "writelock", "named:db"} {
			l, err := holdfast.ParseLayout(name)
			if err != nil {
				t.Fatal(err)
			}
			_, err = holdfast.NewElection(c, lockPath, holdfast.WithLayout(l), holdfast.WithPreference(1, 0)).Campaign(t.Context(), nil)
			wantErr(t, err, holdfast.ErrLayout)
			h, err := holdfast.NewElection(c, lockPath, holdfast.WithLayout(l), holdfast.WithPreference(0, 0)).Campaign(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			unlock(t, h)
		}
		_, err := holdfast.NewMutex(c, lockPath, holdfast.WithPreference(0, 0)).Lock(t.Context())
		wantErr(t, err, zk.ErrBadArguments)
	})
}

// Whichever request of the candidates is lost, the preferred one leads.
func TestHandoverSurvivesLostConnections(t *testing.T) {
	for _, op := range []zkproto.Op{zkproto.OpMulti, zkproto.OpSetData, zkproto.OpGetData, zkproto.OpGetChildren2} {
		for nth := range 6 {
			for _, fault := range faults {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					leader := lock(t, preferred(t, srv, 0))
					between := wait(t.Context(), preferred(t, srv, 1))
					var seen atomic.Int64
					srv.Intercept(op, func(string) zktest.Action {
						if seen.Add(1) == int64(nth)+1 {
							return fault
						}
						return zktest.Pass
					})
					best := wait(t.Context(), preferred(t, srv, 2))
					<-leader.Revoked()
					unlock(t, leader)
					unlock(t, best.got(t))
					unlock(t, between.got(t))
				})
			}
		}
	}
}

// Five candidates with preferences die, are cut off, and come and go. Nobody leads beside another one, each handover has
// an arrival of its own, and when all is quiet the most preferred one leads after the failback and a handoff.
func TestPreferredLeadersInTheLongRun(t *testing.T) {
	worlds := 200
	if testing.Short() {
		worlds = 20
	}
	var all candidacies
	for seed := range worlds {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			c := &candidacies{rng: rand.New(rand.NewPCG(uint64(seed), 1620)), seed: seed}
			c.play(t, srv)
			all.add(c)
		})
	}
	t.Logf("figure: %d worlds: %d terms, %d arrivals, %d handovers; the most preferred candidate led at most %v after the last arrival or loss", worlds, all.terms, all.arrivals, all.handovers, all.latest)
	if all.handovers < worlds/2 || all.terms < 5*worlds {
		t.Error("too few to tell anything")
	}
}

// candidacies are what five candidates do in one world.
type candidacies struct {
	seed  int
	rng   *rand.Rand
	admin *zk.Client // asks for handovers; nil: nobody does

	mu        sync.Mutex // guards the fields below
	leads     map[int]context.Context
	forced    map[int64]bool // sessions that were ended by force: their holders are told too late
	terms     int
	arrivals  int // calls of Lead, and sessions after the first of a client
	handovers int
	asks      int       // requests for a handover
	began     time.Time // of the latest term
	disturbed time.Time // the latest arrival or loss
	latest    time.Duration
}

// handoff is what a leader takes at most to stop and the next one to begin, with what its view of the time in line may be
// late by: a lost connection delays the answer to the creation of its node.
const handoff = time.Second

func (c *candidacies) add(o *candidacies) {
	c.terms += o.terms
	c.arrivals += o.arrivals
	c.handovers += o.handovers
	c.latest = max(c.latest, o.latest)
}

// play has a wild time, and then a quiet one.
func (c *candidacies) play(t *testing.T, srv *zktest.Server) {
	c.leads, c.forced = make(map[int]context.Context), make(map[int64]bool)
	preferences := c.rng.Perm(5)
	if c.rng.IntN(2) == 0 {
		preferences[c.rng.IntN(5)] = 2 // a tie, or nobody is preferred to the others
	}
	ctx, cancel := context.WithCancel(t.Context())
	var lines []*line
	var running sync.WaitGroup
	wild := time.Duration(20+c.rng.IntN(60)) * time.Second
	quiet := time.Now().Add(wild)
	for i, n := range preferences {
		l := newLine(t, srv)
		lines = append(lines, l)
		rng := rand.New(rand.NewPCG(c.rng.Uint64(), uint64(i)))
		running.Go(func() { c.sessions(ctx, l) })
		running.Go(func() { c.candidate(ctx, t, l, i, n, rng, quiet) })
	}
	for time.Now().Before(quiet) {
		time.Sleep(time.Duration(c.rng.IntN(4000)) * time.Millisecond)
		l := lines[c.rng.IntN(5)]
		if c.admin != nil && c.rng.IntN(3) == 0 {
			c.ask(t, preferences[c.rng.IntN(5)])
		}
		switch c.rng.IntN(4) {
		case 0:
			l.cut()
		case 1:
			l.connect()
		case 2:
			srv.CloseClientConnections()
		case 3:
			c.mu.Lock()
			if h, ok := holdfast.FromContext(cmp.Or(c.leads[c.rng.IntN(5)], ctx)); ok {
				c.forced[h.SessionID()] = true
				srv.Expire(h.SessionID())
			}
			c.mu.Unlock()
		}
	}
	for _, l := range lines {
		l.connect()
	}
	time.Sleep(time.Minute) // sessions end, late candidates come, and one handover
	c.mu.Lock()
	terms, last := c.terms, c.disturbed
	c.latest = max(0, c.began.Sub(last))
	c.mu.Unlock()
	if c.admin != nil {
		c.choose(t, preferences)
		c.mu.Lock()
		terms = c.terms
		c.mu.Unlock()
	} else if most := []int{slices.Max(preferences)}; !slices.Equal(c.now(preferences), most) {
		t.Errorf("seed %d: %v leads, %v after the last disturbance; want %v of %v", c.seed, c.now(preferences), time.Since(last), most, preferences)
	}
	if c.admin == nil && c.latest > failback+handoff {
		t.Errorf("seed %d: the most preferred candidate led only %v after the last disturbance; want %v and a handoff", c.seed, c.latest, failback)
	}
	time.Sleep(10 * failback)
	c.mu.Lock()
	if c.terms != terms {
		t.Errorf("seed %d: the leader has changed in quiet times", c.seed)
	}
	if c.handovers > c.arrivals+c.asks {
		t.Errorf("seed %d: %d handovers, and %d arrivals", c.seed, c.handovers, c.arrivals)
	}
	c.mu.Unlock()
	cancel()
	running.Wait()
}

// ask asks for a handover to a candidate with the preference, which may be refused.
func (c *candidacies) ask(t *testing.T, preference int) error {
	c.mu.Lock()
	c.asks++
	c.mu.Unlock()
	err := handOver(t.Context(), c.admin, fmt.Sprint(preference))
	if _, ok := errors.AsType[*deed.HandoverError](err); err != nil && !ok && !errors.Is(err, holdfast.ErrNotHeld) {
		t.Errorf("seed %d: hand over to %d: %v", c.seed, preference, err)
	}
	return err
}

// choose asks for a handover to a candidate that does not lead. It leads soon.
func (c *candidacies) choose(t *testing.T, preferences []int) {
	leads := c.now(preferences)
	others := slices.DeleteFunc(slices.Clone(preferences), func(n int) bool { return slices.Contains(leads, n) })
	if len(leads) != 1 || len(others) == 0 {
		t.Fatalf("seed %d: %v lead of %v", c.seed, leads, preferences)
	}
	want := others[c.rng.IntN(len(others))]
	if err := c.ask(t, want); err != nil {
		t.Errorf("seed %d: hand over from %v to %d: %v", c.seed, leads, want, err)
	}
	time.Sleep(5 * handoff)
	if got := c.now(preferences); !slices.Equal(got, []int{want}) {
		t.Errorf("seed %d: %v leads after a handover from %v to %d", c.seed, got, leads, want)
	}
}

// sessions counts the sessions of a client. All but the first are arrivals.
func (c *candidacies) sessions(ctx context.Context, l *line) {
	for first := true; ; first = false {
		s, err := l.Session(ctx)
		if err != nil {
			return
		}
		if !first {
			c.arrived()
		}
		select {
		case <-s.Context().Done():
		case <-ctx.Done():
			return
		}
	}
}

func (c *candidacies) arrived() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.arrivals++
	c.disturbed = time.Now()
}

// enter is the beginning of a term.
func (c *candidacies) enter(t *testing.T, i int, ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.terms++
	for other, o := range c.leads {
		h, _ := holdfast.FromContext(o)
		if h.Err() == nil && ctx.Err() == nil && !c.forced[h.SessionID()] {
			t.Errorf("seed %d: %d and %d lead at the same time", c.seed, i, other)
		}
	}
	c.leads[i], c.began = ctx, time.Now()
}

func (c *candidacies) leave(i int, handover bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.leads, i)
	if handover {
		c.handovers++
	} else {
		c.disturbed = time.Now()
	}
}

// now returns the preferences of those that lead.
func (c *candidacies) now(preferences []int) (all []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, ctx := range c.leads {
		if ctx.Err() == nil {
			all = append(all, preferences[i])
		}
	}
	return all
}

// candidate joins and leaves until the quiet time, and then stays.
func (c *candidacies) candidate(ctx context.Context, t *testing.T, l *line, i, preference int, rng *rand.Rand, quiet time.Time) {
	e := holdfast.NewElection(l.Client, lockPath, holdfast.WithPreference(preference, failback))
	for ctx.Err() == nil {
		once, leave := ctx, context.CancelFunc(func() {})
		if stay := time.Duration(rng.ExpFloat64() * float64(3*failback)); time.Now().Add(stay).Before(quiet) && rng.IntN(3) > 0 {
			once, leave = context.WithTimeout(ctx, stay)
		}
		c.arrived()
		err := e.Lead(once, []byte(fmt.Sprint(preference)), func(ctx context.Context) error {
			c.enter(t, i, ctx)
			<-ctx.Done()
			time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
			c.leave(i, errors.Is(context.Cause(ctx), holdfast.ErrHandover))
			return context.Cause(ctx)
		})
		if once.Err() == nil {
			t.Errorf("seed %d: Lead of %d: %v", c.seed, i, err)
		}
		leave()
		time.Sleep(time.Duration(rng.ExpFloat64() * float64(time.Second)))
	}
}
