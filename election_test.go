package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/layout"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

func election(t *testing.T, srv *zktest.Server, opts ...holdfast.Option) *holdfast.Election {
	return holdfast.NewElection(client(t, srv), lockPath, opts...)
}

// candidate is a Campaign as a Locker.
type candidate struct {
	*holdfast.Election
	value string
}

func (c candidate) Lock(ctx context.Context) (*holdfast.Hold, error) {
	return c.Campaign(ctx, []byte(c.value))
}

func (c candidate) TryLock(ctx context.Context) (*holdfast.Hold, error) {
	return c.TryCampaign(ctx, []byte(c.value))
}

// seen collects what an observer is told.
type seen struct {
	leaders chan string
	terms   []int64
}

// observe follows an election: "a", then "-" for no leader, then "error".
func observe(ctx context.Context, t *testing.T, e *holdfast.Election) *seen {
	s := &seen{leaders: make(chan string, 100)}
	go func() {
		defer close(s.leaders)
		for l, err := range e.Leaders(ctx) {
			switch {
			case err != nil:
				s.leaders <- "error"
			case l.Term == 0:
				s.leaders <- "-"
			default:
				s.leaders <- string(l.Value)
				s.terms = append(s.terms, l.Term)
			}
		}
	}()
	synctest.Wait()
	return s
}

// sofar returns what the observer was told up to now.
func (s *seen) sofar() []string {
	synctest.Wait()
	var all []string
	for {
		select {
		case l, ok := <-s.leaders:
			if !ok {
				return all
			}
			all = append(all, l)
		default:
			return all
		}
	}
}

func wantSeen(t *testing.T, s *seen, want ...string) {
	t.Helper()
	if got := s.sofar(); !slices.Equal(got, want) {
		t.Errorf("observed %q; want %q", got, want)
	}
}

func TestElectionHasOneLeaderAndTellsWho(t *testing.T) {
	for _, layout := range layouts {
		t.Run(layout.Name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				use := holdfast.WithLayout(layout)
				observer := election(t, srv, use)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s := observe(ctx, t, observer)
				wantSeen(t, s, "-")
				_, err := observer.Leader(t.Context())
				wantErr(t, err, holdfast.ErrNoLeader)

				// Two candidates share a session, and one has another.
				e := election(t, srv, use)
				a := lock(t, candidate{e, "a"})
				b, c := wait(t.Context(), candidate{e, "b"}), wait(t.Context(), candidate{election(t, srv, use), "c"})
				l, err := observer.Leader(t.Context())
				if err != nil || string(l.Value) != "a" || l.Term != a.Token() || l.Session != a.SessionID() || l.Path != a.Path() {
					t.Errorf("%+v, %v", l, err)
				}
				wantSeen(t, s, "a")
				if err := e.Proclaim(t.Context(), a, []byte("a, moved")); err != nil {
					t.Fatal(err)
				}
				wantSeen(t, s, "a, moved")
				unlock(t, a)
				unlock(t, b.got(t))
				unlock(t, c.got(t))
				if got := s.sofar(); !slices.IsSorted(s.terms) || got[len(got)-1] != "-" {
					t.Errorf("terms %v, at last %q", s.terms, got)
				}
				cancel()
				wantSeen(t, s, "error")
			})
		})
	}
}

// The leader dies, and the next in line leads. The dead candidate campaigns again in its
// next session, and observers see terms that grow.
// TryCampaign leads at once or not at all, and a candidate that does not lead leaves nothing behind.
func TestTryCampaign(t *testing.T) {
	for _, layout := range []holdfast.Layout{layout.Curator, layout.LeaderLatch, layout.Kazoo} {
		t.Run(layout.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.NewServer()
				defer srv.Close()
				e, other := election(t, srv, holdfast.WithLayout(layout)), election(t, srv, holdfast.WithLayout(layout))
				h, err := e.TryCampaign(t.Context(), []byte("a"))
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if _, err := other.TryCampaign(ctx, []byte("b")); !errors.Is(err, holdfast.ErrLocked) || time.Since(began) > time.Second {
					t.Errorf("under a leader, after %v: %v; want ErrLocked at once", time.Since(began), err)
				}
				if l, err := other.Leader(t.Context()); err != nil || string(l.Value) != "a" || l.Term != h.Token() {
					t.Errorf("the leader is %q, %v; want a", l.Value, err)
				}
				if queue, err := holdfast.List(t.Context(), client(t, srv), lockPath, layout); err != nil || len(queue) != 1 {
					t.Errorf("the queue is %v, %v; want the leader only", queue, err)
				}
				if err := h.Unlock(); err != nil {
					t.Fatal(err)
				}
				next, err := other.TryCampaign(t.Context(), []byte("b"))
				if err != nil || next.Token() <= h.Token() {
					t.Fatalf("after the leader: %v", err)
				}
				if err := next.Unlock(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

func TestElectionSurvivesTheEndOfSessions(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		observing := client(t, srv)
		s := observe(ctx, t, holdfast.NewElection(observing, lockPath))
		ea, eb := election(t, srv), client(t, srv)
		a := lock(t, candidate{ea, "a"})
		b := wait(t.Context(), candidate{holdfast.NewElection(eb, lockPath), "b"})
		wantSeen(t, s, "-", "a")

		// A waiting candidate loses its session and queues again by itself.
		bs, err := eb.Session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		srv.Expire(bs.ID())
		<-bs.Context().Done()
		// The observer's session ends, too. It is told nothing twice.
		os, err := observing.Session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		srv.Expire(os.ID())
		<-os.Context().Done()
		wantSeen(t, s)

		srv.Expire(a.SessionID())
		<-a.Context().Done()
		wantErr(t, context.Cause(a.Context()), holdfast.ErrLost)
		h := b.got(t)
		again := wait(t.Context(), candidate{ea, "a again"})
		wantSeen(t, s, "b")
		wantErr(t, ea.Proclaim(t.Context(), a, []byte("still me")), holdfast.ErrLost)
		unlock(t, h)
		next := again.got(t)
		wantSeen(t, s, "a again")
		unlock(t, next)
		wantSeen(t, s, "-")
		if !slices.IsSorted(s.terms) {
			t.Errorf("terms %v; want them to grow", s.terms)
		}
	})
}

// Two leaders of different sessions never overlap: the old leader's term ends, by its own
// clock, before the new one's begins (CURATOR-460, CURATOR-696).
func TestLeaderIsToldBeforeTheNextLeads(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a := lock(t, candidate{election(t, srv), "a"})
		other := client(t, srv)
		w := wait(t.Context(), candidate{holdfast.NewElection(other, lockPath), "b"})
		resume := srv.Stall()
		<-a.Context().Done()
		if !w.waiting() {
			t.Error("two leaders")
		}
		resume()
		unlock(t, w.got(t))
	})
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		mustBeToldBeforeTheNext(t, srv, func(c *zk.Client) holdfast.Locker {
			return candidate{holdfast.NewElection(c, lockPath), "a"}
		})
	})
}

// A Proclaim of a lost term changes nothing, even if its Hold has not been told.
func TestProclaimOfALostTermChangesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		e, admin := election(t, srv), client(t, srv)
		a := lock(t, candidate{e, "a"})
		srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
			srv.Intercept(zkproto.OpMulti, nil)
			if err := holdfast.Break(t.Context(), admin, lockPath, a.Token()); err != nil {
				t.Error(err)
			}
			return zktest.Pass
		})
		wantErr(t, e.Proclaim(t.Context(), a, []byte("late")), holdfast.ErrLost)
		_, err := e.Leader(t.Context())
		wantErr(t, err, holdfast.ErrNoLeader)
		m := lock(t, holdfast.NewMutex(client(t, srv), lockPath+"/other"))
		wantErr(t, e.Proclaim(t.Context(), m, nil), zk.ErrBadArguments)
		unlock(t, m)
	})
}

func TestProclaimSurvivesALostConnection(t *testing.T) {
	for _, fault := range faults {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			e := election(t, srv)
			a := lock(t, candidate{e, "a"})
			var hit atomic.Bool
			srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
				if hit.CompareAndSwap(false, true) {
					return fault
				}
				return zktest.Pass
			})
			if err := e.Proclaim(t.Context(), a, []byte("b")); err != nil {
				t.Error(err)
			}
			if l, err := e.Leader(t.Context()); err != nil || string(l.Value) != "b" || l.Term != a.Token() {
				t.Errorf("%+v, %v", l, err)
			}
			unlock(t, a)
		})
	}
}

// Whichever request of an observer is lost, it reports the next leader.
func TestObserverMissesNothingThroughLostConnections(t *testing.T) {
	for _, op := range []zkproto.Op{zkproto.OpMulti, zkproto.OpGetData, zkproto.OpGetChildren2, zkproto.OpExists} {
		for _, fault := range faults {
			t.Run(fmt.Sprintf("%v/%v", op, fault), func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					var n atomic.Int32
					srv.Intercept(op, func(path string) zktest.Action {
						if strings.HasPrefix(path, lockPath) && n.Add(1) < 4 {
							return fault
						}
						return zktest.Pass
					})
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					s := observe(ctx, t, election(t, srv))
					time.Sleep(time.Minute)
					e := election(t, srv)
					a := lock(t, candidate{e, "a"})
					time.Sleep(time.Minute)
					srv.CloseClientConnections()
					unlock(t, a)
					time.Sleep(time.Minute)
					unlock(t, lock(t, candidate{e, "b"}))
					srv.Restart()
					time.Sleep(time.Minute)
					got := s.sofar()
					if got[len(got)-1] != "-" || slices.Contains(got, "error") || !slices.Contains(got, "a") {
						t.Errorf("observed %q", got)
					}
					if n.Load() == 0 {
						t.Error("the fault never struck")
					}
				})
			})
		}
	}
}

// Observers do not hear of candidates that come and go behind the leader.
func TestObserverCostsOneWatch(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		e := election(t, srv)
		a := lock(t, candidate{e, "a"})
		s := observe(ctx, t, election(t, srv))
		wantSeen(t, s, "a")
		time.Sleep(time.Second)
		c := client(t, srv)
		synctest.Wait()
		var requests atomic.Int32
		for _, op := range []zkproto.Op{zkproto.OpGetData, zkproto.OpGetChildren2, zkproto.OpExists, zkproto.OpMulti} {
			srv.Intercept(op, func(string) zktest.Action {
				requests.Add(1)
				return zktest.Pass
			})
		}
		for range 20 {
			if _, _, err := c.Create(t.Context(), lockPath+"/_c_6266cbe9-453b-4a50-8718-b39f57879b6e-lock-", nil, zk.EphemeralSequential); err != nil {
				t.Fatal(err)
			}
		}
		wantSeen(t, s)
		if n := requests.Load(); n != 0 {
			t.Errorf("20 more candidates cost %d requests of the observer; want none", n)
		}
		unlock(t, a)
	})
}

func TestObserverCanBreakOff(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		e := election(t, srv)
		a := lock(t, candidate{e, "a"})
		for l, err := range e.Leaders(t.Context()) {
			if err != nil || string(l.Value) != "a" {
				t.Errorf("%+v, %v", l, err)
			}
			break
		}
		unlock(t, a)
		_, err := holdfast.NewElection(client(t, srv), "/a//b").Leader(t.Context())
		wantErr(t, err, zk.ErrInvalidPath)
	})
}

func TestCampaignUnderOnesOwnTermIsADeadlock(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		e := election(t, srv)
		a := lock(t, candidate{e, "a"})
		_, err := e.Campaign(a.Context(), nil)
		wantErr(t, err, holdfast.ErrDeadlock)
		unlock(t, a)
	})
}

// leading is a call of Lead. Each term waits for the next element of end and returns it; if the term is
// lost first, it returns the cause, joined with errWork.
type leading struct {
	terms  chan *term
	result chan error
}

type term struct {
	ctx context.Context
	end chan error
}

var errWork = errors.New("the work has failed")

func lead(ctx context.Context, e *holdfast.Election, value string) *leading {
	l := &leading{terms: make(chan *term, 100), result: make(chan error, 1)}
	go func() {
		l.result <- e.Lead(ctx, []byte(value), func(ctx context.Context) error {
			t := &term{ctx, make(chan error, 1)}
			l.terms <- t
			select {
			case err := <-t.end:
				return err
			case <-ctx.Done():
				return errors.Join(context.Cause(ctx), errWork)
			}
		})
	}()
	synctest.Wait()
	return l
}

// next returns the next term.
func (l *leading) next(t *testing.T) *term {
	t.Helper()
	select {
	case now := <-l.terms:
		return now
	case err := <-l.result:
		t.Fatalf("Lead has returned %v", err)
		return nil
	}
}

// wantReturned checks whether Lead has returned.
func (l *leading) wantReturned(t *testing.T, want bool) {
	t.Helper()
	synctest.Wait()
	if len(l.result) == 1 != want {
		t.Errorf("Lead has returned: %v; want %v", !want, want)
	}
}

// expire ends the session of a client.
func expire(t *testing.T, srv *zktest.Server, c *zk.Client) {
	t.Helper()
	s, err := c.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	srv.Expire(s.ID())
}

func TestLeadCampaignsAgainAfterALoss(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, admin := client(t, srv), client(t, srv)
		l := lead(t.Context(), holdfast.NewElection(c, lockPath), "a")
		losses := map[string]func(token int64){
			"the session ends": func(int64) { expire(t, srv, c) },
			"the node is removed": func(token int64) {
				if err := holdfast.Break(t.Context(), admin, lockPath, token); err != nil {
					t.Error(err)
				}
			},
		}
		last := int64(0)
		for name, lose := range losses {
			now := l.next(t)
			leader, err := holdfast.NewElection(admin, lockPath).Leader(t.Context())
			if err != nil || string(leader.Value) != "a" || leader.Term <= last {
				t.Fatalf("%s: %+v, %v; want a term after %d", name, leader, err, last)
			}
			if h, ok := holdfast.FromContext(now.ctx); !ok || h.Token() != leader.Term {
				t.Errorf("%s: the function's context has no Hold of term %d", name, leader.Term)
			}
			last = leader.Term
			lose(leader.Term)
			<-now.ctx.Done()
			wantErr(t, context.Cause(now.ctx), holdfast.ErrLost)
			l.wantReturned(t, false) // though the function has returned an error
		}
		now := l.next(t)
		now.end <- errWork
		if err := <-l.result; !errors.Is(err, errWork) || errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Lead: %v; want %v alone", err, errWork)
		}
		wantErr(t, context.Cause(now.ctx), holdfast.ErrNotHeld)
		wantQueued(t, admin, 0)
	})
}

// A function that goes on after the loss keeps Lead from campaigning, and nobody else from leading.
func TestLeadWaitsForItsFunction(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		calls, lost, goOn, result := 0, make(chan struct{}), make(chan struct{}), make(chan error)
		go func() {
			result <- holdfast.NewElection(c, lockPath).Lead(t.Context(), nil, func(ctx context.Context) error {
				if calls++; calls == 1 {
					<-ctx.Done()
					close(lost)
					<-goOn
				}
				return nil
			})
		}()
		synctest.Wait()
		expire(t, srv, c)
		<-lost
		other := client(t, srv)
		h := lock(t, candidate{holdfast.NewElection(other, lockPath), "b"})
		time.Sleep(time.Minute)
		wantQueued(t, other, 1)
		close(goOn)
		synctest.Wait()
		wantQueued(t, other, 2) // Lead has campaigned behind it
		unlock(t, h)
		if err := <-result; err != nil || calls != 2 {
			t.Errorf("%v after %d calls; want no error and two calls", err, calls)
		}
		wantQueued(t, other, 0)
	})
}

func TestLeadEndsWithItsContext(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, enough := client(t, srv), errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		l := lead(ctx, holdfast.NewElection(c, lockPath), "a")
		now := l.next(t)
		behind, cancelBehind := context.WithCancelCause(t.Context())
		other := lead(behind, holdfast.NewElection(c, lockPath), "b")
		synctest.Wait()
		cancelBehind(enough) // while it campaigns
		wantErr(t, <-other.result, enough)
		if len(other.terms) > 0 {
			t.Error("two led at once")
		}
		cancel(enough) // while it leads
		err := <-l.result
		wantErr(t, err, enough)
		wantErr(t, err, errWork)
		wantErr(t, context.Cause(now.ctx), enough)
		synctest.Wait() // a client that gives up removes its node in the background
		wantQueued(t, c, 0)

		ctx, cancel = context.WithCancelCause(t.Context())
		err = holdfast.NewElection(c, lockPath).Lead(ctx, nil, func(held context.Context) error {
			expire(t, srv, c)
			<-held.Done()
			cancel(enough) // after a loss
			return errWork
		})
		wantErr(t, err, holdfast.ErrLost)
		wantErr(t, err, errWork)
	})
}

// The node is removed while Lead resigns. The function has ended in its own time, so Lead returns.
func TestLeadThatCannotResignSaysSo(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, admin, terms := client(t, srv), client(t, srv), 0
		e := holdfast.NewElection(c, lockPath)
		err := e.Lead(t.Context(), nil, func(ctx context.Context) error {
			if terms++; terms > 1 {
				return nil
			}
			leader, err := e.Leader(ctx)
			if err != nil {
				t.Error(err)
			}
			srv.Intercept(zkproto.OpDelete, func(string) zktest.Action {
				srv.Intercept(zkproto.OpDelete, nil)
				if err := holdfast.Break(t.Context(), admin, lockPath, leader.Term); err != nil {
					t.Error(err)
				}
				return zktest.Pass
			})
			return errWork
		})
		wantErr(t, err, holdfast.ErrLost)
		wantErr(t, err, errWork)
		if terms != 1 {
			t.Errorf("%d terms; want one", terms)
		}
	})
}

func TestLeadReturnsWhatCampaignSays(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		e := holdfast.NewElection(c, lockPath)
		never := func(context.Context) error { t.Error("it leads"); return nil }
		var failed *holdfast.Error
		err := holdfast.NewElection(c, "/a//b").Lead(t.Context(), nil, never)
		wantErr(t, err, zk.ErrInvalidPath)
		if !errors.As(err, &failed) || failed.Op != "lead" {
			t.Errorf("%v; want the operation lead", err)
		}
		err = e.Lead(t.Context(), nil, func(ctx context.Context) error { return e.Lead(ctx, nil, never) })
		wantErr(t, err, holdfast.ErrDeadlock)
		func() {
			defer func() {
				if r := recover(); r != errWork {
					t.Errorf("recovered %v; want the function's panic", r)
				}
			}()
			e.Lead(t.Context(), nil, func(context.Context) error { panic(errWork) })
		}()
		wantQueued(t, c, 0) // it has resigned
		// A client that is closed can lead no more.
		l := lead(t.Context(), e, "a")
		now := l.next(t)
		c.Close()
		<-now.ctx.Done()
		wantErr(t, <-l.result, zk.ErrClosed)
	})
}

// A name comes back when the directory is removed and made again, and its new node need not lead. A follower that was away
// meanwhile does not take it for the leader that it knows.
func TestFollowerKnowsTheLeaderByItsTermAndNotByItsName(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		layout := holdfast.WithLayout(layout.SessionID)
		a, b, away := client(t, srv), client(t, srv), newLine(t, srv)
		candidateOf := func(c *zk.Client, value string) holdfast.Locker {
			return candidate{holdfast.NewElection(c, lockPath, layout), value}
		}
		unlock(t, lock(t, candidateOf(a, "first"))) // so that a's next number is not the first
		h := lock(t, candidateOf(a, "a"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var told []string
		followed := make(chan struct{})
		go func() {
			defer close(followed)
			for l, err := range holdfast.NewElection(away.Client, lockPath, layout).Leaders(ctx) {
				if err != nil {
					return
				}
				told = append(told, string(l.Value))
			}
		}()
		time.Sleep(time.Second)
		away.cut()
		name := h.Path()
		unlock(t, h)
		if err := a.Delete(t.Context(), lockPath, zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		leader := lock(t, candidateOf(b, "b"))
		again := wait(t.Context(), candidateOf(a, "a again"))
		if _, ok, err := a.Exists(t.Context(), name); !ok || err != nil {
			t.Fatalf("the name has not come back: %v", err)
		}
		away.mend()
		time.Sleep(time.Second)
		unlock(t, leader)
		h = again.got(t)
		time.Sleep(time.Second) // a shorter term need not be told of
		unlock(t, h)
		cancel()
		<-followed
		if got := strings.Join(slices.DeleteFunc(told, func(s string) bool { return s == "" }), ", "); got != "a, b, a again" {
			t.Errorf("the follower was told of %s", got)
		}
	})
}
