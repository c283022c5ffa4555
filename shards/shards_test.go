package shards_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/layout"
	"holdfast/shards"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

const shardsPath = "/holdfast/shards/orders"

// A board knows which function works on which shard, and whether two ever did.
type board struct {
	t      *testing.T
	srv    *zktest.Server
	shards int

	mu     sync.Mutex // guards the fields below
	inside map[int]*stint
	tokens map[int]int64
	calls  int
	moved  int // stints that ended with ErrMoving
}

// A stint is one call of a worker's function.
type stint struct {
	worker *member
	ctx    context.Context
	shard  shards.Shard
}

// A member is one Run.
type member struct {
	name   string
	board  *board
	cancel context.CancelCauseFunc
	done   chan struct{}
	err    error
	f      func(ctx context.Context, s shards.Shard) error // after the bookkeeping; nil: until ctx ends
}

func newBoard(t *testing.T, srv *zktest.Server, n int) *board {
	return &board{t: t, srv: srv, shards: n, inside: make(map[int]*stint), tokens: make(map[int]int64)}
}

// join starts a worker with its own client.
func (b *board) join(name string, opts ...shards.Option) *member {
	b.t.Helper()
	return b.joinWith(client(b.t, b.srv), name, nil, opts...)
}

func (b *board) joinWith(c *zk.Client, name string, f func(context.Context, shards.Shard) error, opts ...shards.Option) *member {
	w := &member{name: name, board: b, done: make(chan struct{}), f: f}
	ctx, cancel := context.WithCancelCause(b.t.Context())
	w.cancel = cancel
	s := shards.New(c, shardsPath, b.shards, append(opts, shards.WithLock(holdfast.WithOwner(name)))...)
	go func() {
		defer close(w.done)
		w.err = s.Run(ctx, w.work)
	}()
	return w
}

// joinAll starts n workers, and waits until the plan is for all of them.
func (b *board) joinAll(n int) (all []*member) {
	for i := range n {
		all = append(all, b.join(fmt.Sprintf("w%02d", i)))
	}
	b.settle()
	return all
}

// settle waits until joins and leaves have counted and shards have moved.
func (b *board) settle() {
	time.Sleep(5 * time.Second)
	synctest.Wait()
}

func (w *member) work(ctx context.Context, s shards.Shard) error {
	b, me := w.board, &stint{w, ctx, s}
	b.mu.Lock()
	// After a loss the next worker may begin before the former one has returned; else it may not.
	if o := b.inside[s.Number]; o != nil && !errors.Is(context.Cause(o.ctx), holdfast.ErrLost) {
		b.t.Errorf("%s has shard %d, which %s works on (%v)", w.name, s.Number, o.worker.name, context.Cause(o.ctx))
	}
	if s.Token <= b.tokens[s.Number] {
		b.t.Errorf("%s has shard %d with token %d after %d", w.name, s.Number, s.Token, b.tokens[s.Number])
	}
	b.inside[s.Number], b.tokens[s.Number] = me, s.Token
	b.calls++
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.inside[s.Number] == me {
			delete(b.inside, s.Number)
		}
		if errors.Is(context.Cause(ctx), shards.ErrMoving) {
			b.moved++
		}
	}()
	if w.f != nil {
		return w.f(ctx, s)
	}
	<-ctx.Done()
	return ctx.Err()
}

// leave ends the worker.
func (w *member) leave() {
	w.cancel(nil)
	<-w.done
	if !errors.Is(w.err, context.Canceled) {
		w.board.t.Errorf("%s ended with %v; want the end of its context", w.name, w.err)
	}
	w.board.mu.Lock()
	defer w.board.mu.Unlock()
	for i, s := range w.board.inside {
		if s.worker == w {
			w.board.t.Errorf("Run of %s has returned, and its function still works on shard %d", w.name, i)
		}
	}
}

// owners returns the workers of the shards that are being worked on.
func (b *board) owners() map[int]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	owners := make(map[int]string)
	for i, s := range b.inside {
		if s.ctx.Err() == nil {
			owners[i] = s.worker.name
		}
	}
	return owners
}

// wantBalance checks that the workers have all shards, each its share by weight to within one.
func (b *board) wantBalance(weights map[string]int) {
	b.t.Helper()
	has, total := make(map[string]int), 0
	for _, name := range b.owners() {
		has[name]++
	}
	for _, w := range weights {
		total += w
	}
	sum := 0
	for name, w := range weights {
		sum += has[name]
		if d := has[name]*total - b.shards*w; d <= -total || d >= total {
			b.t.Errorf("%s with weight %d of %d has %d of %d shards", name, w, total, has[name], b.shards)
		}
	}
	if sum != b.shards {
		b.t.Errorf("the workers have %d of %d shards: %v", sum, b.shards, has)
	}
}

func evenly(workers []*member) map[string]int {
	weights := make(map[string]int)
	for _, w := range workers {
		weights[w.name] = 1
	}
	return weights
}

func (b *board) count(n *int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return *n
}

// moves counts the shards that have another owner than before.
func moves(before, after map[int]string) (n int) {
	for i, name := range before {
		if after[i] != name {
			n++
		}
	}
	return n
}

// planVersion is the version of the node with the plan.
func (b *board) planVersion() int32 {
	b.t.Helper()
	c := client(b.t, b.srv)
	_, stat, err := c.Get(b.t.Context(), shardsPath)
	if err != nil {
		b.t.Fatal(err)
	}
	c.Close()
	return stat.Version
}

// session is the session of a worker, by the assignment.
func (b *board) session(name string) int64 {
	b.t.Helper()
	c := client(b.t, b.srv)
	defer c.Close()
	all, err := shards.New(c, shardsPath, b.shards).Assignment(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	for _, w := range all {
		if w.Owner == name {
			return w.Session
		}
	}
	b.t.Fatalf("no worker %s in %+v", name, all)
	return 0
}

// Every shard has one worker, every worker its share, and Assignment tells the same.
func TestShardsAreSpreadEvenly(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		b := newBoard(t, srv, 10)
		all := b.joinAll(3)
		b.wantBalance(evenly(all))
		assigned, err := shards.New(client(t, srv), shardsPath, 10).Assignment(t.Context())
		if err != nil || len(assigned) != 3 {
			t.Fatalf("%+v, %v", assigned, err)
		}
		told := make(map[int]string)
		for _, w := range assigned {
			if w.Session == 0 || w.Weight != 1 || w.ID == "" {
				t.Errorf("%+v", w)
			}
			for _, i := range w.Shards {
				told[i] = w.Owner
			}
		}
		if owners := b.owners(); !maps.Equal(told, owners) {
			t.Errorf("the assignment is %v; the workers have %v", told, owners)
		}
		if b.count(&b.calls) != 10 {
			t.Errorf("%d calls for 10 shards: workers that begin together should not move shards", b.count(&b.calls))
		}
		for _, w := range all {
			w.leave()
		}
	})
}

func TestShardsFollowWeights(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		b := newBoard(t, srv, 100)
		weights := map[string]int{"light": 1, "heavy": 3, "idle": 0}
		var all []*member
		for name, weight := range weights {
			all = append(all, b.join(name, shards.WithWeight(weight)))
		}
		b.settle()
		b.wantBalance(weights)
		for _, w := range all {
			w.leave()
		}
	})
}

// A shard that moves is unlocked when its function has returned, and not before. The next worker waits.
func TestShardMovesWhenItsFunctionHasReturned(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		b := newBoard(t, srv, 4)
		const busy = 20 * time.Second
		var causes []error
		a := b.joinWith(client(t, srv), "a", func(ctx context.Context, s shards.Shard) error {
			<-ctx.Done()
			b.mu.Lock()
			causes = append(causes, context.Cause(ctx))
			b.mu.Unlock()
			time.Sleep(busy)
			if err := s.Hold.Context().Err(); err != nil {
				t.Errorf("the shard was unlocked while its function ran: %v", err)
			}
			return nil
		})
		b.settle()
		c := b.join("b")
		b.settle()
		if owners := b.owners(); len(owners) != 2 {
			t.Errorf("two shards move: %v", owners)
		}
		time.Sleep(busy)
		b.wantBalance(map[string]int{"a": 1, "b": 1})
		if len(causes) != 2 || !errors.Is(causes[0], shards.ErrMoving) || !errors.Is(causes[1], shards.ErrMoving) {
			t.Errorf("causes %v; want ErrMoving twice", causes)
		}
		a.leave()
		c.leave()
	})
}

// A join moves the newcomer's share, a leave the leaver's, and nothing else.
func TestShardsMoveOnlyToANewcomerAndFromALeaver(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		b := newBoard(t, srv, 100)
		all := b.joinAll(4)
		before := b.owners()
		e := b.join("e")
		b.settle()
		after := b.owners()
		b.wantBalance(evenly(append(all, e)))
		if n := moves(before, after); n != 20 || b.count(&b.moved) != 20 {
			t.Errorf("a fifth worker joins, and %d of 100 shards move, with %d told so; want 20", n, b.count(&b.moved))
		}
		before = after
		all[0].leave()
		b.settle()
		after = b.owners()
		b.wantBalance(evenly(append(all[1:], e)))
		if n := moves(before, after); n != 20 {
			t.Errorf("a worker with 20 shards leaves, and %d move", n)
		}
		for _, w := range append(all[1:], e) {
			w.leave()
		}
	})
}

// A function that ignores the end of its context keeps its shard. Run says so, and the others wait.
func TestShardOfAFunctionThatIsStuckStaysLocked(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		b := newBoard(t, srv, 4)
		release := make(chan struct{})
		a := b.joinWith(client(t, srv), "a", func(ctx context.Context, s shards.Shard) error {
			<-ctx.Done()
			if s.Number == b.shards-1 {
				<-release
			}
			return nil
		}, shards.WithMoveLimit(10*time.Second))
		b.settle()
		c := b.join("b")
		<-a.done
		if !errors.Is(a.err, shards.ErrStuck) || !strings.Contains(a.err.Error(), "shard 3") {
			t.Fatalf("Run ended with %v; want ErrStuck of shard 3", a.err)
		}
		b.settle()
		owners := b.owners()
		if len(owners) != 3 || owners[3] != "" {
			t.Errorf("owners %v; want b with all shards but 3", owners)
		}
		time.Sleep(time.Minute)
		if owner := b.owners()[3]; owner != "" {
			t.Errorf("%s has the shard on which a function still works", owner)
		}
		close(release)
		b.settle()
		b.wantBalance(map[string]int{"b": 1})
		c.leave()
	})
}

// If a function returns nil, the worker keeps the shard until it moves, and does not call it again.
func TestFunctionThatReturnsKeepsItsShard(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		b := newBoard(t, srv, 4)
		a := b.joinWith(client(t, srv), "a", func(context.Context, shards.Shard) error { return nil })
		b.settle()
		if b.count(&b.calls) != 4 {
			t.Fatalf("%d calls for 4 shards", b.count(&b.calls))
		}
		s := shards.New(client(t, srv), shardsPath, 4)
		for i := range 4 {
			if _, err := holdfast.NewMutex(client(t, srv), s.Path(i)).TryLock(t.Context()); !errors.Is(err, holdfast.ErrLocked) {
				t.Errorf("shard %d: %v; want ErrLocked", i, err)
			}
		}
		c := b.join("b")
		b.settle()
		if owners := b.owners(); b.count(&b.calls) != 6 || len(owners) != 2 {
			t.Errorf("%d calls, owners %v; want two shards with b", b.count(&b.calls), owners)
		}
		a.leave()
		c.leave()
	})
}

// A worker whose session ends is told that its shards are lost, and has them again in the next session. The
// shards of the others stay.
func TestLostShardsComeBackWithALargerToken(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		b := newBoard(t, srv, 6)
		var lost atomic.Int32
		// After the loss, the client is away for less than the settling time.
		var away atomic.Bool
		cfg := srv.Config()
		dial := cfg.Dial
		cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if away.Load() {
				time.Sleep(300 * time.Millisecond)
			}
			return dial(ctx, network, addr)
		}
		c, err := zk.Dial(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		a := b.joinWith(c, "a", func(ctx context.Context, _ shards.Shard) error {
			<-ctx.Done()
			if errors.Is(context.Cause(ctx), holdfast.ErrLost) {
				lost.Add(1)
			}
			return context.Cause(ctx)
		})
		other := b.join("b")
		b.settle()
		before, version := b.owners(), b.planVersion()
		s, err := c.Session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		away.Store(true)
		srv.Expire(s.ID())
		b.settle()
		if n := lost.Load(); n != 3 {
			t.Errorf("%d functions were told of the loss; want 3", n)
		}
		if after := b.owners(); !maps.Equal(before, after) || b.count(&b.calls) != 9 || b.planVersion() != version {
			t.Errorf("the owners were %v, and are %v after %d calls; plan version %d, then %d", before, after, b.count(&b.calls), version, b.planVersion())
		}
		a.leave()
		other.leave()
	})
}

// A shard that was lost is begun again, even by the same worker, only when the function of the tenure before
// has returned.
func TestLostShardIsBegunAgainWhenItsFunctionHasReturned(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		b := newBoard(t, srv, 3)
		var working atomic.Int32
		a := b.joinWith(client(t, srv), "a", func(ctx context.Context, _ shards.Shard) error {
			if n := working.Add(1); n > 3 {
				t.Errorf("%d functions work on 3 shards", n)
			}
			defer working.Add(-1)
			<-ctx.Done()
			time.Sleep(20 * time.Second)
			return nil
		})
		b.settle()
		srv.Expire(b.session("a"))
		b.settle()
		if b.count(&b.calls) != 3 {
			t.Errorf("%d calls; want 3, since no function has returned", b.count(&b.calls))
		}
		time.Sleep(20 * time.Second)
		if b.wantBalance(map[string]int{"a": 1}); b.count(&b.calls) != 6 {
			t.Errorf("%d calls; want 6", b.count(&b.calls))
		}
		a.leave()
	})
}

// Run returns when its functions have, and not before.
func TestRunWaitsForItsFunctions(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		b := newBoard(t, srv, 3)
		a := b.joinWith(client(t, srv), "a", func(ctx context.Context, _ shards.Shard) error {
			<-ctx.Done()
			time.Sleep(20 * time.Second)
			return nil
		})
		b.settle()
		a.leave()
		if _, err := holdfast.NewMutex(client(t, srv), shards.New(nil, shardsPath, 3).Path(0)).TryLock(t.Context()); err != nil {
			t.Errorf("a shard is not free after Run: %v", err)
		}
	})
}

// With a handover, a worker that leaves goes on until another takes its shards. No shard is without a worker for
// longer than a move takes. If nobody takes them, the worker stops after the limit.
func TestHandoverLeavesNoShardWithoutAWorker(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		b := newBoard(t, srv, 8)
		a, c := b.join("a", shards.WithHandover(10*time.Second)), b.join("b", shards.WithHandover(10*time.Second))
		b.settle()
		began := time.Now()
		a.cancel(nil)
		time.Sleep(900 * time.Millisecond)
		synctest.Wait()
		b.wantBalance(map[string]int{"a": 1, "b": 1}) // the leave does not count yet
		<-a.done
		if took := time.Since(began); took > 1100*time.Millisecond || !errors.Is(a.err, context.Canceled) {
			t.Errorf("the handover took %v, and Run ended with %v", took, a.err)
		}
		if b.count(&b.moved) != 4 {
			t.Errorf("%d functions were told that their shard moves; want 4", b.count(&b.moved))
		}
		time.Sleep(100 * time.Millisecond)
		b.wantBalance(map[string]int{"b": 1})

		idle := b.join("idle", shards.WithHandover(10*time.Second))
		began = time.Now()
		idle.leave()
		if took := time.Since(began); took > 0 {
			t.Errorf("a worker without shards stopped after %v; want at once", took)
		}
		began = time.Now()
		c.leave()
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("the last worker stopped after %v; want 10s", took)
		}
	})
}

// A plan takes a shard away and gives it back before its function has returned. The function is called again
// when it has, and not before.
func TestShardThatComesBackWhileItsFunctionEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		b := newBoard(t, srv, 4)
		a := b.joinWith(client(t, srv), "a", func(ctx context.Context, _ shards.Shard) error {
			<-ctx.Done()
			time.Sleep(20 * time.Second)
			return nil
		})
		b.settle()
		c := b.join("b")
		time.Sleep(3 * time.Second)
		c.leave()
		b.settle()
		if owners := b.owners(); len(owners) != 2 {
			t.Errorf("owners %v; want two shards with a, whose other functions have not returned", owners)
		}
		time.Sleep(20 * time.Second)
		b.wantBalance(map[string]int{"a": 1})
		a.leave()
	})
}

// A leader whose node was removed while it wrote the plan writes none.
func TestFormerLeaderWritesNoPlan(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		b := newBoard(t, srv, 4)
		all := b.joinAll(2)
		c := client(t, srv)
		version := b.planVersion()
		removed := make(chan struct{})
		srv.Intercept(zkproto.OpMulti, func(path string) zktest.Action {
			if !strings.HasPrefix(path, shardsPath+"/workers/") {
				return zktest.Pass
			}
			srv.Intercept(zkproto.OpMulti, nil)
			if err := c.Delete(t.Context(), path, zk.AnyVersion); err != nil {
				t.Error(err)
			}
			close(removed)
			return zktest.Pass
		})
		all = append(all, b.join("new"))
		<-removed
		synctest.Wait()
		if v := b.planVersion(); v != version {
			t.Errorf("plan version %d, then %d: a worker that leads no more has written it", version, v)
		}
		b.settle()
		b.wantBalance(evenly(all))
		for _, w := range all {
			w.leave()
		}
	})
}

// A worker that has left keeps its shards for a moment, without a session; one that has just joined has none.
func TestAssignmentTellsWhoIsAbsent(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		b := newBoard(t, srv, 4)
		all := b.joinAll(2)
		all[0].leave()
		fresh := b.join("new")
		synctest.Wait()
		assigned, err := shards.New(client(t, srv), shardsPath, 4).Assignment(t.Context())
		if err != nil || len(assigned) != 3 {
			t.Fatalf("%+v, %v", assigned, err)
		}
		for _, w := range assigned {
			want := map[string]string{"w00": "true 2", "w01": "false 2", "new": "false 0"}[w.Owner]
			if got := fmt.Sprint(w.Session == 0, len(w.Shards)); got != want {
				t.Errorf("absent and shards of %s: %s; want %s", w.Owner, got, want)
			}
		}
		if none, err := shards.New(client(t, srv), "/none", 4).Assignment(t.Context()); err != nil || len(none) != 0 {
			t.Errorf("without any worker: %+v, %v", none, err)
		}
		all[1].leave()
		fresh.leave()
	})
}

// The shards of a worker that is cut off are with others when its session has ended and the leave counts.
func TestShardsOfACrashedWorkerAreTaken(t *testing.T) {
	for _, leads := range []bool{true, false} {
		t.Run(fmt.Sprintf("leader %v", leads), func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				b := newBoard(t, srv, 30)
				crashed, cut := cuttable(t, srv)
				var first *member
				if leads {
					first = b.joinWith(crashed, "crashed", nil)
				}
				all := b.joinAll(2)
				if !leads {
					first = b.joinWith(crashed, "crashed", nil)
				}
				b.settle()
				before := b.owners()
				cut()
				began := time.Now()
				// The server hears of the session, at the latest, when it is cut. It checks once in a tick.
				const bound = sessionTimeout + 2*time.Second + 1500*time.Millisecond
				time.Sleep(bound - time.Since(began))
				synctest.Wait()
				b.wantBalance(evenly(all))
				for i, name := range b.owners() {
					if before[i] != "crashed" && before[i] != name {
						t.Errorf("shard %d has moved from %s to %s", i, before[i], name)
					}
				}
				first.cancel(nil)
				for _, w := range all {
					w.leave()
				}
				crashed.Close()
				<-first.done
			})
		})
	}
}

// A worker that comes and goes within the settling time changes no plan and moves no shard.
func TestWorkerThatFlapsMovesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		b := newBoard(t, srv, 20)
		all := b.joinAll(3)
		version, calls := b.planVersion(), b.count(&b.calls)
		c := client(t, srv)
		for range 20 {
			w := b.joinWith(c, "flapper", nil)
			time.Sleep(900 * time.Millisecond)
			w.leave()
			time.Sleep(100 * time.Millisecond)
		}
		b.settle()
		if v := b.planVersion(); v != version || b.count(&b.calls) != calls || b.count(&b.moved) != 0 {
			t.Errorf("plan version %d, then %d; %d more calls; %d moves", version, v, b.count(&b.calls)-calls, b.count(&b.moved))
		}
		for _, w := range all {
			w.leave()
		}
	})
}

func TestProgramsThatDisagreeAboutTheNumberOfShardsAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		b := newBoard(t, srv, 5)
		a := b.join("a")
		b.settle()
		c := client(t, srv)
		never := func(context.Context, shards.Shard) error {
			t.Error("a shard of another number")
			return nil
		}
		other := shards.New(c, shardsPath, 6)
		wantErr(t, other.Run(t.Context(), never), shards.ErrCount)
		_, err := other.Assignment(t.Context())
		wantErr(t, err, shards.ErrCount)
		b.settle()
		b.wantBalance(map[string]int{"a": 1})

		// Workers of other numbers that come at the same time.
		var refused atomic.Int32
		var wg sync.WaitGroup
		for n := range 5 {
			c := client(t, srv)
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				err := shards.New(c, "/other", n+1).Run(ctx, func(ctx context.Context, _ shards.Shard) error { <-ctx.Done(); return nil })
				if errors.Is(err, shards.ErrCount) {
					refused.Add(1)
				}
			})
		}
		wg.Wait()
		if n := refused.Load(); n != 4 {
			t.Errorf("%d of 5 workers with different numbers were refused; want 4", n)
		}

		// A NodeLock.
		held := lock(t, holdfast.NewNodeLock(c, "/node"))
		wantErr(t, shards.New(c, "/node", 3).Run(t.Context(), never), holdfast.ErrKind)
		unlock(t, held)

		// Data that are no plan.
		if _, _, err := c.Create(t.Context(), "/note", []byte("hello"), zk.Persistent); err != nil {
			t.Fatal(err)
		}
		wantErr(t, shards.New(c, "/note", 3).Run(t.Context(), never), shards.ErrCount)
		a.leave()
	})
}

func TestRunRefusesWrongSettings(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		for _, tt := range []struct {
			name string
			s    *shards.Shards
			want error
			says string
		}{
			{"no shards", shards.New(c, shardsPath, 0), shards.ErrCount, "0: want 1 to 65536"},
			{"too many", shards.New(c, shardsPath, 65537), shards.ErrCount, "65537: want 1 to 65536"},
			{"layout", shards.New(c, shardsPath, 1, shards.WithLock(holdfast.WithLayout(layout.Kazoo))), zk.ErrBadArguments, "a Shards cannot honour WithLayout: make it without"},
			{"two that do not fit", shards.New(c, shardsPath, 1, shards.WithSettle(-1), shards.WithLock(holdfast.Reentrant()), shards.WithLock(holdfast.WithKeep(1))), zk.ErrBadArguments, "a Shards cannot honour Reentrant, WithKeep: make it without"},
			{"weight", shards.New(c, shardsPath, 1, shards.WithWeight(-1)), zk.ErrBadArguments, "WithWeight(-1) is negative"},
			{"heavy", shards.New(c, shardsPath, 1, shards.WithWeight(1<<20+1)), zk.ErrBadArguments, "WithWeight(1048577): want 0 to 1048576"},
			{"settle", shards.New(c, shardsPath, 1, shards.WithSettle(-1)), zk.ErrBadArguments, "WithSettle(-1ns) is negative"},
			{"limit", shards.New(c, shardsPath, 1, shards.WithMoveLimit(-1)), zk.ErrBadArguments, "WithMoveLimit(-1ns) is negative"},
			{"handover", shards.New(c, shardsPath, 1, shards.WithHandover(-1)), zk.ErrBadArguments, "WithHandover(-1ns) is negative"},
			{"path", shards.New(c, "x", 1), zk.ErrInvalidPath, ""},
			{"root", shards.New(c, "/", 1), zk.ErrInvalidPath, "the root cannot be a lock"},
		} {
			err := tt.s.Run(t.Context(), func(context.Context, shards.Shard) error { return nil })
			if !errors.Is(err, tt.want) || !strings.HasPrefix(err.Error(), "holdfast: run shards ") || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%s: %v; want %v that says %q", tt.name, err, tt.want, tt.says)
			}
		}
		for _, wrong := range []shards.Option{shards.WithSettle(-1), shards.WithLock(holdfast.Reentrant())} {
			_, err := shards.New(c, shardsPath, 1, wrong).Assignment(t.Context())
			wantErr(t, err, zk.ErrBadArguments)
		}
		if names, _, err := c.Children(t.Context(), "/"); err != nil || slices.Contains(names, "holdfast") {
			t.Errorf("something was created: %q, %v", names, err)
		}
	})
}

// The session ends while Run looks at the number of shards, and while the leader looks at the plan. Run goes on
// in the next session.
func TestRunSurvivesTheEndOfItsSessionAtAnyRead(t *testing.T) {
	for read := range 5 {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			b := newBoard(t, srv, 3)
			c := client(t, srv)
			reads := 0
			for _, op := range []zkproto.Op{zkproto.OpGetData, zkproto.OpSync, zkproto.OpGetChildren2} {
				srv.Intercept(op, func(string) zktest.Action {
					if reads++; reads == read+1 {
						s, err := c.Session(t.Context())
						if err != nil {
							t.Error(err)
							return zktest.Pass
						}
						srv.Expire(s.ID())
					}
					return zktest.Pass
				})
			}
			a := b.joinWith(c, "a", nil)
			b.settle()
			b.settle()
			b.wantBalance(map[string]int{"a": 1})
			a.leave()
		})
	}
}

// A function's error ends Run, which unlocks everything. The others take the shards.
func TestErrorOfAFunctionEndsRun(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		b := newBoard(t, srv, 6)
		broken := errors.New("broken")
		fail := make(chan struct{})
		var failing atomic.Int32
		c := client(t, srv)
		a := b.joinWith(c, "a", func(ctx context.Context, _ shards.Shard) error {
			select {
			case <-fail:
				if failing.Add(1) <= 2 {
					return fmt.Errorf("work: %w", broken)
				}
				<-ctx.Done()
			case <-ctx.Done():
			}
			return ctx.Err()
		})
		other := b.join("b")
		b.settle()
		close(fail)
		<-a.done
		if !errors.Is(a.err, broken) {
			t.Errorf("Run ended with %v; want the function's error", a.err)
		}
		synctest.Wait()
		if left, err := c.Ephemerals(t.Context(), "/"); err != nil || len(left) > 0 {
			t.Errorf("the worker has left %q, %v", left, err)
		}
		b.settle()
		b.wantBalance(map[string]int{"b": 1})
		other.leave()
	})
}

// When all workers have left, nothing is left but containers, which the server removes: no node of a session,
// no watch.
func TestRunLeavesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		b := newBoard(t, srv, 8)
		var clients []*zk.Client
		var all []*member
		for i := range 4 {
			c := client(t, srv)
			clients = append(clients, c)
			all = append(all, b.joinWith(c, fmt.Sprint(i), nil))
		}
		b.settle()
		for _, w := range all {
			w.leave()
		}
		time.Sleep(time.Second)
		for _, c := range clients {
			if left, err := c.Ephemerals(t.Context(), "/"); err != nil || len(left) > 0 {
				t.Errorf("left are %q, %v", left, err)
			}
		}
		time.Sleep(10 * time.Minute)
		if names, _, err := clients[0].Children(t.Context(), "/"); err != nil || slices.Contains(names, "holdfast") {
			t.Errorf("the containers are still there: %q, %v", names, err)
		}
	})
}

// If somebody removes the plan, or all nodes of the workers, the shards stay where they are.
func TestPlanThatWasRemovedIsWrittenAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		b := newBoard(t, srv, 9)
		all := b.joinAll(2)
		all = append(all, b.join("later")) // no plan from nothing would be this one
		b.settle()
		before, calls := b.owners(), b.count(&b.calls)
		c := client(t, srv)
		if _, err := c.Set(t.Context(), shardsPath, nil, zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		b.settle()
		names, _, err := c.Children(t.Context(), shardsPath+"/workers")
		if err != nil || len(names) != 3 {
			t.Fatal(names, err)
		}
		for _, name := range names {
			if err := c.Delete(t.Context(), shardsPath+"/workers/"+name, zk.AnyVersion); err != nil {
				t.Fatal(err)
			}
		}
		b.settle()
		if after := b.owners(); !maps.Equal(before, after) || b.count(&b.calls) != calls {
			t.Errorf("the owners were %v, and are %v; %d more calls", before, after, b.count(&b.calls)-calls)
		}
		fresh := b.join("new")
		b.settle()
		b.wantBalance(evenly(append(all, fresh)))
		for _, w := range append(all, fresh) {
			w.leave()
		}
	})
}

// A change of the workers costs requests for each worker and for each shard that moves, and not for each
// worker and shard.
func TestRequestsOfAJoinAndALeave(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		const number, workers = 200, 20
		b := newBoard(t, srv, number)
		all := b.joinAll(workers)
		var requests atomic.Int64
		for _, op := range []zkproto.Op{zkproto.OpCreate2, zkproto.OpCreateContainer, zkproto.OpDelete, zkproto.OpGetData, zkproto.OpSetData,
			zkproto.OpGetChildren2, zkproto.OpExists, zkproto.OpMulti, zkproto.OpSync, zkproto.OpRemoveWatches} {
			srv.Intercept(op, func(string) zktest.Action { requests.Add(1); return zktest.Pass })
		}
		b.settle()
		if n := requests.Swap(0); n > 0 {
			t.Errorf("%d requests while nobody joins or leaves", n)
		}
		calls := b.count(&b.calls)
		w := b.join("new")
		b.settle()
		moved := b.count(&b.calls) - calls
		join := requests.Swap(0)
		t.Logf("figure: a worker joins %d others with %d shards: %d shards move, %d requests", workers, number, moved, join)
		// For each worker the plan. For each shard create, list, watch, look at the nearer, the holder's
		// look and note, delete.
		if bound := int64(2*workers + 10*moved + 30); join > bound {
			t.Errorf("%d requests; want at most %d", join, bound)
		}
		calls = b.count(&b.calls)
		w.leave()
		b.settle()
		moved = b.count(&b.calls) - calls
		leave := requests.Swap(0)
		t.Logf("figure: it leaves again: %d shards move, %d requests", moved, leave)
		if bound := int64(2*workers + 10*moved + 30); leave > bound {
			t.Errorf("%d requests; want at most %d", leave, bound)
		}
		for _, w := range all {
			w.leave()
		}
	})
}

// A thousand shards, and up to thirty workers that join, leave and lose their sessions at random. No shard
// has two workers at a time, and in the end each worker has its share.
func TestThousandShardsUnderJoinsAndLeaves(t *testing.T) {
	number, rounds := 1000, 40
	if testing.Short() {
		number, rounds = 100, 20
	}
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		rng := rand.New(rand.NewPCG(16, 1))
		b := newBoard(t, srv, number)
		all := []*member{b.join("first")}
		clients := map[*member]*zk.Client{}
		for i := range rounds {
			switch n := rng.IntN(10); {
			case n < 5 && len(all) < 30 || len(all) < 2:
				c := client(t, srv)
				w := b.joinWith(c, fmt.Sprint("w", i), nil)
				clients[w] = c
				all = append(all, w)
			case n < 8:
				i := rng.IntN(len(all))
				w := all[i]
				all = slices.Delete(all, i, i+1)
				w.leave()
				if c := clients[w]; c != nil {
					c.Close()
				}
			default:
				if c := clients[all[rng.IntN(len(all))]]; c != nil {
					if s, err := c.Session(t.Context()); err == nil {
						srv.Expire(s.ID())
					}
				}
			}
			time.Sleep(time.Duration(rng.ExpFloat64() * float64(time.Second)))
		}
		b.settle()
		b.settle()
		b.wantBalance(evenly(all))
		t.Logf("figure: %d shards, %d joins, leaves and expiries, %d workers left: %d calls", number, rounds, len(all), b.count(&b.calls))
		for _, w := range all {
			w.leave()
		}
	})
}

var manyShards = flag.Bool("many-shards", false, "run TestTenThousandShards")

// Ten thousand shards and a thousand workers: all join, some leave, some lose their sessions.
func TestTenThousandShards(t *testing.T) {
	if !*manyShards {
		t.Skip("takes two minutes: go test -run '^TestTenThousandShards$' -v ./shards -many-shards")
	}
	const number, workers = 10_000, 1000
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		b := newBoard(t, srv, number)
		began := time.Now()
		all := b.joinAll(workers)
		b.settle()
		b.wantBalance(evenly(all))
		rng := rand.New(rand.NewPCG(16, 3))
		calls, changes := b.count(&b.calls), 0
		for range 30 {
			i := rng.IntN(len(all))
			all[i].leave()
			all = slices.Delete(all, i, i+1)
			all = append(all, b.join(fmt.Sprintf("n%d", changes)))
			changes += 2
			b.settle()
			b.wantBalance(evenly(all))
		}
		t.Logf("figure: %d shards, %d workers: %d joins and leaves begin %d functions; %v of virtual time", number, workers, changes, b.count(&b.calls)-calls, time.Since(began).Round(time.Second))
		for _, w := range all {
			w.cancel(nil)
		}
		for _, w := range all {
			<-w.done
		}
	})
}

// Requests and answers are lost at random while workers join. Nothing fails, and every shard has a worker.
func TestShardsUnderLostConnections(t *testing.T) {
	for seed := range uint64(20) {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			rng := rand.New(rand.NewPCG(seed, 2))
			var mu sync.Mutex
			lose := func(string) zktest.Action {
				mu.Lock()
				defer mu.Unlock()
				switch n := rng.IntN(60); n {
				case 0:
					return zktest.DropRequest
				case 1:
					return zktest.DropReply
				case 2:
					return zktest.Throttle
				}
				return zktest.Pass
			}
			ops := []zkproto.Op{zkproto.OpCreate2, zkproto.OpDelete, zkproto.OpGetData, zkproto.OpSetData, zkproto.OpGetChildren2, zkproto.OpMulti, zkproto.OpSync}
			for _, op := range ops {
				srv.Intercept(op, lose)
			}
			b := newBoard(t, srv, 12)
			all := b.joinAll(4)
			time.Sleep(2 * time.Minute)
			all[0].leave()
			time.Sleep(2 * time.Minute)
			for _, op := range ops {
				srv.Intercept(op, nil)
			}
			b.settle()
			b.wantBalance(evenly(all[1:]))
			for _, w := range all[1:] {
				w.leave()
			}
		})
	}
}

// A lock that is tried at the path of shards withdraws, and the workers go on.
func TestShardsOutlastALockThatIsTriedAtTheirPath(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		b := newBoard(t, srv, 4)
		a := b.join("a")
		b.settle()
		c := client(t, srv)
		tried := false
		srv.Intercept(zkproto.OpCreate2, func(path string) zktest.Action {
			if strings.HasPrefix(path, shardsPath+"/shards/") && !tried { // a shard moves to the newcomer
				tried = true
				var node string
				if node, _, _ = c.Create(t.Context(), shardsPath+"/_c_x-lock-", nil, zk.EphemeralSequential); node == "" {
					t.Error("no lock was tried")
				}
				time.AfterFunc(300*time.Millisecond, func() { c.Delete(context.Background(), node, zk.AnyVersion) })
			}
			return zktest.Pass
		})
		other := b.join("b")
		time.Sleep(5 * time.Second)
		b.settle()
		b.wantBalance(map[string]int{"a": 1, "b": 1})
		if !tried {
			t.Error("no shard has moved: the test shows nothing")
		}
		other.leave()
		a.leave()
	})
}

// Somebody takes a shard away again and again. Its function is not called hundreds of times a second.
func TestShardsPauseWhenTheyAreTakenAway(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, admin := client(t, srv), client(t, srv)
		var calls atomic.Int32
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s := shards.New(c, shardsPath, 2)
		err := s.Run(ctx, func(ctx context.Context, shard shards.Shard) error {
			if shard.Number == 0 {
				calls.Add(1)
				if err := holdfast.Break(context.Background(), admin, s.Path(0), shard.Token); err != nil {
					t.Error(err)
				}
			}
			<-ctx.Done()
			return nil
		})
		wantErr(t, err, context.DeadlineExceeded)
		if n := calls.Load(); n < 40 || n > 140 {
			t.Errorf("%d calls in a minute", n)
		}
	})
}

// wantBegun waits for the function of a shard to be called.
func wantBegun(t *testing.T, began <-chan int) {
	t.Helper()
	select {
	case <-began:
	case <-time.After(time.Minute):
		t.Fatal("no shard was begun")
	}
}

// The number of shards changes when there is neither a worker nor a locked shard. The data of a semaphore that nobody
// uses do not keep shards out, nor those of shards a semaphore.
func TestNumberOfShardsThatNobodyUsesCanBeReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		run := func(n int) (stop func() error, began chan int) {
			began = make(chan int, n)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				done <- shards.New(client(t, srv), shardsPath, n).Run(ctx, func(ctx context.Context, s shards.Shard) error {
					began <- s.Number
					<-ctx.Done()
					return nil
				})
			}()
			return func() error { cancel(); return <-done }, began
		}
		for _, n := range []int{3, 5, 2} {
			stop, began := run(n)
			for range n {
				wantBegun(t, began)
			}
			other, _ := run(n + 1)
			time.Sleep(3 * time.Second)
			if err := other(); !errors.Is(err, shards.ErrCount) || !strings.Contains(fmt.Sprint(err), fmt.Sprintf("it is %d, not %d, and the session of %s/workers/", n, n+1, shardsPath)) {
				t.Errorf("%v; want ErrCount, and who uses the number", err)
			}
			wantErr(t, stop(), context.Canceled)
		}
		// A shard whose function is stuck.
		stuck := lock(t, holdfast.NewMutex(client(t, srv), shardsPath+"/shards/0001"))
		other, _ := run(4)
		time.Sleep(3 * time.Second)
		wantErr(t, other(), shards.ErrCount)
		unlock(t, stuck)
		unlock(t, lock(t, holdfast.NewSemaphore(client(t, srv), shardsPath, 2).Locker(1)))
		stop, began := run(4)
		wantBegun(t, began)
		wantErr(t, stop(), context.Canceled)
	})
}
