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

func (c candidate) TryLock(context.Context) (*holdfast.Hold, error) { panic("not offered") }

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
			case errors.Is(err, holdfast.ErrNoLeader):
				s.leaders <- "-"
			case err != nil:
				s.leaders <- "error"
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
		wantErr(t, e.Proclaim(t.Context(), m, nil), holdfast.ErrNotHeld)
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
	for _, op := range []zkproto.Op{zkproto.OpSync, zkproto.OpGetData, zkproto.OpGetChildren2, zkproto.OpExists} {
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
		for _, op := range []zkproto.Op{zkproto.OpGetData, zkproto.OpGetChildren2, zkproto.OpExists, zkproto.OpSync} {
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
