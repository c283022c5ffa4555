package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
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

// named is a candidate with a preference and a value.
func named(t *testing.T, srv *zktest.Server, value string, n int, opts ...holdfast.Option) candidate {
	return candidate{election(t, srv, append(opts, holdfast.WithPreference(n, failback))...), value}
}

// handOver asks the leader to hand over to the candidate with the value, as holdfast revoke --to does.
func handOver(ctx context.Context, c *zk.Client, value string, l ...holdfast.Layout) error {
	queue, err := holdfast.List(ctx, c, lockPath, l...)
	if err != nil {
		return err
	}
	to := int64(1)
	if i := slices.IndexFunc(queue, func(e holdfast.Entry) bool { return e.Owner == value }); i >= 0 {
		to = queue[i].Token
	}
	p, err := deed.LookHandover(ctx, c, lockPath, nil, 0, to)
	if err == nil {
		_, err = p.Do(ctx, c, deed.By{Name: "ops"})
	}
	return err
}

// isAsked reports whether a leader was asked to hand over.
func isAsked(h *holdfast.Hold) bool {
	synctest.Wait()
	select {
	case <-h.Revoked():
		return true
	default:
		return false
	}
}

// A leader hands over to the candidate that is named, whatever the preferences are, and only once. Candidates in between
// step behind it.
func TestLeaderHandsOverToANamedCandidate(t *testing.T) {
	for _, l := range []holdfast.Layout{layout.Curator, layout.LeaderLatch, layout.Kazoo} {
		t.Run(l.Name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				with := holdfast.WithLayout(l)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				admin := client(t, srv)
				leader := lock(t, named(t, srv, "leader", 4, with))
				s := observe(ctx, t, election(t, srv, with))
				between := []*waiter{wait(t.Context(), named(t, srv, "a", 3, with)), wait(t.Context(), named(t, srv, "b", 1, with))}
				target := wait(t.Context(), named(t, srv, "target", 0, with))
				behind := wait(t.Context(), named(t, srv, "c", 2, with))
				began := time.Now()
				if err := handOver(t.Context(), admin, "target", l); err != nil {
					t.Fatal(err)
				}
				<-leader.Revoked()
				if d := time.Since(began); d > time.Second {
					t.Errorf("asked to hand over after %v", d)
				}
				if queue, err := holdfast.List(t.Context(), admin, lockPath, l); err != nil || len(queue) != 5 || queue[0].Owner != "leader" || queue[1].Owner != "target" {
					t.Errorf("the line is %+v, %v; want the leader with its value, and then the target", queue, err)
				}
				unlock(t, leader)
				h := target.got(t)
				wantSeen(t, s, "leader", "target")
				back := wait(t.Context(), named(t, srv, "leader", 4, with))
				time.Sleep(10 * time.Minute)
				if isAsked(h) {
					t.Error("the candidate that was named has to hand over again")
				}
				unlock(t, h)
				for i, next := range []*waiter{back, between[0], behind, between[1]} {
					h := next.got(t)
					wantSeen(t, s, []string{"leader", "a", "c", "b"}[i])
					unlock(t, h)
				}
				wantSeen(t, s, "-")
			})
		})
	}
}

// Lead campaigns again after such a handover, whatever the error of its function is.
func TestLeadHandsOverToANamedCandidate(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		ctx, cancel := context.WithCancelCause(t.Context())
		var terms atomic.Int64
		stopped := make(chan error, 1)
		first := named(t, srv, "first", 1)
		go func() {
			stopped <- first.Lead(ctx, []byte("first"), func(ctx context.Context) error {
				terms.Add(1)
				<-ctx.Done()
				return fmt.Errorf("the server was shut down: %v", context.Cause(ctx))
			})
		}()
		synctest.Wait()
		target := wait(t.Context(), named(t, srv, "target", 0))
		if err := handOver(t.Context(), client(t, srv), "target"); err != nil {
			t.Fatal(err)
		}
		unlock(t, target.got(t))
		time.Sleep(time.Second)
		if n := terms.Load(); n != 2 {
			t.Errorf("%d terms; want a second one", n)
		}
		over := errors.New("over")
		cancel(over)
		if err := <-stopped; err == nil {
			t.Error("Lead has returned no error")
		}
	})
}

// A request that cannot be met is refused, and nothing happens.
func TestHandoverIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		admin := client(t, srv)
		refused := func(value, why string) {
			t.Helper()
			err := handOver(t.Context(), admin, value)
			if _, ok := errors.AsType[*deed.HandoverError](err); !ok || !strings.Contains(err.Error(), why) {
				t.Errorf("hand over to %q: %v; want an error with %q", value, err, why)
			}
		}
		refused("nobody", "nobody leads")
		leader := lock(t, named(t, srv, "leader", 0))
		next := wait(t.Context(), named(t, srv, "next", 1))
		plain := wait(t.Context(), candidate{election(t, srv), "plain"})
		last := wait(t.Context(), named(t, srv, "last", 0))
		refused("nobody", "nobody in line has the token 1")
		refused("leader", "leads already")
		refused("plain", "plain, token")
		refused("plain", "does not answer a leader that hands over")
		refused("last", "would not step behind others")
		if isAsked(leader) {
			t.Error("the leader was asked nevertheless")
		}
		unlock(t, leader)
		unlock(t, next.got(t))
		h := plain.got(t)
		refused("last", "leads, and does not hand over to others")
		unlock(t, h)
		unlock(t, last.got(t))
	})
}

// If the candidate leaves before it is next, the leader goes on, and its node has its own data again. A later request
// replaces an earlier one. A leader that changes its value meanwhile hands over nevertheless.
func TestHandoverToACandidateThatLeaves(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		admin := client(t, srv)
		first := named(t, srv, "leader", 0)
		leader := lock(t, first)
		l := newLine(t, srv)
		ctx, cancel := context.WithCancel(t.Context())
		between := wait(ctx, candidate{holdfast.NewElection(l.Client, lockPath, holdfast.WithPreference(0, failback)), "between"})
		ctx2, cancel2 := context.WithCancel(t.Context())
		leaves := wait(ctx2, named(t, srv, "leaves", 0))
		stays := wait(t.Context(), named(t, srv, "stays", 0))
		time.Sleep(time.Second)
		l.cut() // it cannot step behind
		if err := handOver(t.Context(), admin, "leaves"); err != nil {
			t.Fatal(err)
		}
		if isAsked(leader) {
			t.Fatal("asked to hand over, and the candidate in between is next")
		}
		if err := first.Proclaim(t.Context(), leader, []byte("new")); err != nil {
			t.Fatal(err)
		}
		cancel2()
		<-leaves.done
		synctest.Wait()
		for _, name := range queued(t, admin) {
			if data, _, err := admin.Get(t.Context(), lockPath+"/"+name); err != nil || strings.Contains(string(data), "__HANDOVER__") {
				t.Errorf("the node %s has %q, %v", name, data, err)
			}
		}
		if got, err := first.Leader(t.Context()); err != nil || string(got.Value) != "new" {
			t.Errorf("the leader is %q, %v; want its new value", got.Value, err)
		}
		if err := handOver(t.Context(), admin, "stays"); err != nil {
			t.Fatal(err)
		}
		l.connect()
		<-leader.Revoked()
		unlock(t, leader)
		unlock(t, stays.got(t))
		cancel()
		<-between.done
		if between.hold != nil {
			unlock(t, between.hold)
		}
	})
}

// Whichever request of the candidates is lost, the one that is named leads next.
func TestNamedHandoverSurvivesLostConnections(t *testing.T) {
	for _, op := range []zkproto.Op{zkproto.OpMulti, zkproto.OpSetData, zkproto.OpGetData, zkproto.OpGetChildren2} {
		for nth := range 8 {
			for _, fault := range faults {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					admin := client(t, srv)
					leader := lock(t, named(t, srv, "leader", 1))
					between := wait(t.Context(), named(t, srv, "between", 0))
					target := wait(t.Context(), named(t, srv, "target", 0))
					time.Sleep(time.Second)
					var seen atomic.Int64
					srv.Intercept(op, func(string) zktest.Action {
						if seen.Add(1) == int64(nth)+1 {
							return fault
						}
						return zktest.Pass
					})
					if err := handOver(t.Context(), admin, "target"); err != nil {
						t.Fatal(err)
					}
					<-leader.Revoked()
					unlock(t, leader)
					unlock(t, target.got(t))
					unlock(t, between.got(t))
				})
			}
		}
	}
}

// Only the leader and the next candidate list the line when others join. Each of the others has one watch, as without
// preferences.
func TestIdleCandidatesWithPreferencesCostNoMore(t *testing.T) {
	const candidates = 100
	cost := func(opts ...holdfast.Option) (joined, idle int64) {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			var lines []*line
			requests := func() (n int64) {
				synctest.Wait()
				for _, l := range lines {
					n += l.requests.Load()
				}
				return n
			}
			ctx, cancel := context.WithCancel(t.Context())
			var all []*waiter
			for i := range candidates {
				l := newLine(t, srv)
				lines = append(lines, l)
				all = append(all, wait(ctx, candidate{holdfast.NewElection(l.Client, lockPath, opts...), fmt.Sprint(i)}))
			}
			joined = requests()
			time.Sleep(10 * time.Minute)
			idle = requests() - joined
			cancel()
			for _, w := range all {
				<-w.done
			}
		})
		return joined, idle
	}
	joined, idle := cost()
	with, still := cost(holdfast.WithPreference(0, failback))
	t.Logf("figure: %d candidates: %d requests to join and %d in ten idle minutes; with preferences %d and %d", candidates, joined, idle, with, still)
	// For each that joins, the next in line and the leader list once, and the newcomer looks once more at the one ahead.
	if extra := with - joined; extra > 3*candidates+20 {
		t.Errorf("%d more requests to join", extra)
	}
	if extra := still - idle; extra > idle+100 { // one small read more, once a minute
		t.Errorf("%d more requests in ten idle minutes", extra)
	}
}

// In a world of candidates that die, are cut off, and come and go, a candidate that is named leads next, and stays.
func TestNamedHandoversInTheLongRun(t *testing.T) {
	worlds := 100
	if testing.Short() {
		worlds = 10
	}
	asks := 0
	for seed := range worlds {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			c := &candidacies{rng: rand.New(rand.NewPCG(uint64(seed), 1650)), seed: seed, admin: client(t, srv)}
			c.play(t, srv)
			asks += c.asks
		})
	}
	t.Logf("figure: %d worlds: %d requests for a handover", worlds, asks)
	if asks < worlds {
		t.Error("too few to tell anything")
	}
}

// The data of a node that is directly ahead of a LeaderLatch of Curator do not change: it would not watch again, and wait
// for ever.
func TestNodeAheadOfALatchDoesNotChange(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		with := holdfast.WithLayout(layout.LeaderLatch)
		admin := client(t, srv)
		leader := lock(t, named(t, srv, "leader", 0, with))
		next := wait(t.Context(), named(t, srv, "next", 1, with))
		latch := wait(t.Context(), candidate{election(t, srv, with), "latch"})
		synctest.Wait()
		versions := func() map[string]int32 {
			all := make(map[string]int32)
			for _, name := range queued(t, admin) {
				data, stat, err := admin.Get(t.Context(), lockPath+"/"+name)
				if err != nil {
					t.Fatal(err)
				}
				all[string(data)] = stat.Version
			}
			return all
		}
		before := versions()["next"]
		same := func() {
			t.Helper()
			time.Sleep(10 * time.Minute)
			if now := versions()["next"]; now != before {
				t.Errorf("the node ahead of a latch had the version %d, and has %d", before, now)
			}
		}
		same()
		err := handOver(t.Context(), admin, "next", layout.LeaderLatch)
		if _, ok := errors.AsType[*deed.HandoverError](err); !ok {
			t.Errorf("hand over to the candidate ahead of a latch: %v; want a refusal", err)
		}
		unlock(t, leader)
		h := next.got(t)
		same()
		unlock(t, h)
		unlock(t, latch.got(t))
	})
}
