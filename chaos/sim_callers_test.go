package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"sync"
	"time"

	"holdfast"
	"holdfast/layout"
	"holdfast/once"
	"holdfast/reserve"
	"holdfast/shards"
	"holdfast/zk"
	"holdfast/zk/admin"
)

// runners run a function under a lock, each from another client. Of the runs whose contexts have not
// ended, at most one is active at a time.
type runners struct {
	*world
	path string

	mu     sync.Mutex // guards the field below
	inside map[int]run
}

type run struct {
	held    context.Context
	session int64
}

// run is one of the runners.
func (r *runners) run(ctx context.Context, c *client, rng *rand.Rand) {
	for ctx.Err() == nil && !r.draining.Load() {
		(&worker{}).sleep(ctx, time.Duration(rng.ExpFloat64()*float64(2*r.timeout)))
		of := c.zk.Load()
		var l holdfast.Locker = holdfast.NewMutex(of, r.path, holdfast.WithValue([]byte("runner")))
		if c.number%2 == 0 {
			l = holdfast.NewMultiLock(l)
		}
		once, cancel := context.WithTimeout(ctx, 2*r.timeout)
		err := holdfast.Do(once, l, func(held context.Context) error {
			r.enter(c.number, run{held, c.session.Load()})
			defer r.leave(c.number)
			(&worker{}).sleep(held, time.Duration(rng.ExpFloat64()*float64(300*time.Millisecond)))
			return context.Cause(held)
		})
		if err != nil && !excused(once, err) && !errors.Is(err, holdfast.ErrLost) {
			r.found("runner", r.path, "%v", err)
		}
		cancel()
	}
}

func (r *runners) enter(number int, now run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for other, o := range r.inside {
		if o.held.Err() == nil && now.held.Err() == nil && !r.endedByForce(o.session) && !r.endedByForce(now.session) {
			r.found("runner", r.path, "client %d runs beside client %d", number, other)
		}
	}
	r.inside[number] = now
}

func (r *runners) leave(number int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.inside, number)
}

// A bungler asks for impossible things. It is refused at once, whatever the network does, unless only the
// server can refuse.
type bungler struct{ *guest }

func (b *bungler) work(ctx context.Context) {
	for ctx.Err() == nil && !b.draining.Load() {
		(&worker{}).sleep(ctx, time.Duration(b.rng.ExpFloat64()*float64(b.timeout)))
		c := b.client.zk.Load()
		b.clientRefuses(ctx, c)
		b.lockRefuses(ctx, c)
	}
}

// refused checks an error, and the time that it took.
func (b *bungler) refused(ctx context.Context, what string, call func() error, want ...error) {
	if ctx.Err() != nil {
		return
	}
	began := time.Now()
	err := call()
	if took := time.Since(began); took > 0 && ctx.Err() == nil {
		b.found("bungler", what, "refused after %v: %v", took, err)
	}
	for _, w := range want {
		if errors.Is(err, w) || w == errAny && err != nil {
			return
		}
	}
	if ctx.Err() == nil && !errors.Is(err, zk.ErrClosed) {
		b.found("bungler", what, "%v; want one of %v", err, want)
	}
}

func (b *bungler) clientRefuses(ctx context.Context, c *zk.Client) {
	for _, path := range []string{"", "relative", "/a/", "/a//b", "/a/../b", "/a\x00"} {
		b.refused(ctx, "path", func() error { _, _, err := c.Get(ctx, path); return err }, zk.ErrInvalidPath)
		b.refused(ctx, "path", func() error { _, _, err := c.Create(ctx, path, nil, zk.Persistent); return err }, zk.ErrInvalidPath)
		b.refused(ctx, "path", func() error { _, err := c.Set(ctx, path, nil, 0); return err }, zk.ErrInvalidPath)
		b.refused(ctx, "path", func() error { return c.Delete(ctx, path, 0) }, zk.ErrInvalidPath)
		b.refused(ctx, "path", func() error { _, err := c.Multi(ctx, zk.DeleteOp(path, 0)); return err }, zk.ErrInvalidPath)
		b.refused(ctx, "path", func() error { _, err := c.Pipeline(ctx, zk.GetOp(path)); return err }, zk.ErrInvalidPath)
		b.refused(ctx, "path", func() error { _, err := c.MultiRead(ctx, zk.GetOp(path)); return err }, zk.ErrInvalidPath)
		b.refused(ctx, "path", func() error { _, err := c.AddWatch(ctx, path, zk.WatchPersistent); return err }, zk.ErrInvalidPath)
		b.refused(ctx, "path", func() error { _, err := holdfast.NewMutex(c, path).Lock(ctx); return err }, zk.ErrInvalidPath)
	}
	b.refused(ctx, "prefix", func() error { _, err := c.Ephemerals(ctx, "relative"); return err }, zk.ErrInvalidPath)
	b.refused(ctx, "mode", func() error { _, _, err := c.Create(ctx, "/a", nil, zk.Mode(77)); return err }, zk.ErrBadArguments)
	b.refused(ctx, "mode", func() error { _, err := c.AddWatch(ctx, "/a", 77); return err }, zk.ErrBadArguments)
	b.refused(ctx, "time to live", func() error { _, _, err := c.CreateTTL(ctx, "/a", nil, zk.Persistent, 0); return err }, zk.ErrBadArguments)
	b.refused(ctx, "time to live", func() error { _, _, err := c.CreateTTL(ctx, "/a", nil, zk.Ephemeral, time.Hour); return err }, zk.ErrBadArguments)
	b.refused(ctx, "size", func() error { _, err := c.Set(ctx, "/a", make([]byte, 2<<20), 0); return err }, zk.ErrTooLarge)
	b.refused(ctx, "transaction", func() error { _, err := c.Multi(ctx, zk.GetOp("/a")); return err }, zk.ErrBadArguments)
	b.refused(ctx, "transaction", func() error { _, err := c.MultiRead(ctx, zk.SetOp("/a", nil, 0)); return err }, zk.ErrBadArguments)
	b.refused(ctx, "pipeline", func() error { _, err := c.Pipeline(ctx, zk.CheckOp("/a", 0)); return err }, zk.ErrBadArguments)
	b.refused(ctx, "reconfiguration", func() error { _, _, err := admin.Reconfig(ctx, c, admin.Reconfiguration{}, 0); return err }, zk.ErrBadArguments)
	for _, bad := range []string{
		"host:2181", "http://host", "zk://", "zk://user:pw@host", "zk://host//", "zk://host?timeout=x", "zk://host?x=1s", "zk://host,",
		"zk://host?timeout=-1s", "zk://host?tick=2h", "zk://host/a//b", "zks://host", "unix://relative", "zk://[::1", "zk://:2181", "zk://host?%",
	} {
		if cfg, err := zk.ParseURL(bad); err == nil {
			b.found("bungler", bad, "it was read as %+v", cfg.Servers)
		}
	}
	for _, good := range []string{"zk://host", "zks://host:2281/app", "unix:///run/socket", "zk://[::1]:2181,b?timeout=3s"} {
		if _, err := zk.ParseURL(good); err != nil {
			b.found("bungler", good, "%v", err)
		}
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	b.refused(ctx, "context", func() error { _, err := c.Pipeline(done, zk.GetOp("/a")); return err }, context.Canceled)
	b.refused(ctx, "context", func() error { _, _, err := c.Get(done, "/a"); return err }, context.Canceled)
	var zkErr *zk.Error
	if err := func() error { _, _, err := c.Get(ctx, "relative"); return err }(); !errors.As(err, &zkErr) || errors.Is(err, fs.ErrNotExist) {
		b.found("bungler", "relative", "%v is not a zk.Error", err)
	}
}

func (b *bungler) lockRefuses(ctx context.Context, c *zk.Client) {
	const path = "/bungler"
	b.refused(ctx, "root", func() error { _, err := holdfast.NewMutex(c, "/").Lock(ctx); return err }, zk.ErrInvalidPath)
	b.refused(ctx, "limit", func() error { return holdfast.NewSemaphore(c, path, 1).SetLimit(ctx, 0) }, holdfast.ErrLimit)
	b.refused(ctx, "permits", func() error { _, err := holdfast.NewSemaphore(c, path, 1).Acquire(ctx, 0); return err }, holdfast.ErrLimit)
	b.refused(ctx, "permits", func() error { _, err := holdfast.NewSemaphore(c, path, -1).Acquire(ctx, 1); return err }, holdfast.ErrLimit)
	b.refused(ctx, "layout", func() error {
		_, err := holdfast.NewSemaphore(c, path, 1, holdfast.WithLayout(layout.WriteLock)).Acquire(ctx, 1)
		return err
	}, holdfast.ErrLayout)
	b.refused(ctx, "path", func() error { _, err := holdfast.Foreign(ctx, c, "relative"); return err }, zk.ErrInvalidPath)
	b.refused(ctx, "time", func() error { _, err := once.New(c, path).Every(0).Do(ctx, nil); return err }, zk.ErrBadArguments)
	b.refused(ctx, "path", func() error { return once.New(c, "relative").Key("key").ForgetRun(ctx, 7) }, zk.ErrInvalidPath)
	b.refused(ctx, "path", func() error { return once.New(c, "relative").Every(time.Hour).ForgetRun(ctx, 7) }, zk.ErrInvalidPath)
	b.refused(ctx, "path", func() error {
		_, err := shards.New(c, "relative", 1).Assignment(ctx)
		return err
	}, zk.ErrInvalidPath)
	b.refused(ctx, "token", func() error { return holdfast.Break(ctx, c, path, 0) }, holdfast.ErrNotHeld)
	b.refused(ctx, "path", func() error { return holdfast.Revoke(ctx, c, "relative", 1) }, zk.ErrInvalidPath)
	b.refused(ctx, "path", func() error { _, err := holdfast.List(ctx, c, "relative"); return err }, zk.ErrInvalidPath)
	for _, opt := range []holdfast.Option{
		holdfast.Reentrant(), holdfast.WithLocalHandoff(1), holdfast.WithKeep(1), holdfast.WithValue(nil),
		holdfast.WithLayout(layout.Kazoo),
	} {
		b.refused(ctx, "once", func() error {
			_, err := once.New(c, path, once.WithLock(opt)).Key("key").Do(ctx, nil)
			return err
		}, zk.ErrBadArguments, holdfast.ErrLayout)
	}
	b.refused(ctx, "once", func() error { return once.New(c, path, once.ForgetAfter(-1)).Key("key").Forget(ctx) }, zk.ErrBadArguments)
	m, tree := holdfast.NewMutex(c, path), holdfast.NewTree(c, path)
	for _, parts := range [][]holdfast.Locker{{m, tree.Path("a")}, {nil}} {
		b.refused(ctx, "several", func() error { _, err := holdfast.NewMultiLock(parts...).Lock(ctx); return err }, zk.ErrBadArguments)
	}
	b.refused(ctx, "several", func() error { _, err := holdfast.NewMultiLock().Lock(ctx); return err }, errAny)
	b.refused(ctx, "several", func() error { _, err := holdfast.NewMultiLock(foreign{}).TryLock(ctx); return err }, errAny)
	for _, name := range []string{"", "nonsense", "named:", "named:a/b", "named:a_lock_b"} {
		if l, err := holdfast.ParseLayout(name); !errors.Is(err, holdfast.ErrLayout) {
			b.found("bungler", name, "it is the layout %v (%v)", l.Name, err)
		}
	}
	for _, name := range []string{"curator", "kazoo", "named:a"} {
		if l, err := holdfast.ParseLayout(name); err != nil || !l.Contends(anyPlace[name]) || l.Contends("else") {
			b.found("bungler", name, "%v, or %s is not in its queue", err, anyPlace[name])
		}
	}
	// These look for the session first, so they wait if there is none.
	s, err := c.Session(ctx)
	if err != nil || s.Context().Err() != nil {
		return
	}
	if s.Context().Err() == nil {
		for _, l := range []holdfast.Layout{
			layout.Named("a_lock_b"), {Name: "empty"}, {Name: "other", Mutex: "a-", Exclusive: []string{"b-"}},
		} {
			_, err := holdfast.NewMutex(c, path, holdfast.WithLayout(l)).Lock(ctx)
			if !errors.Is(err, holdfast.ErrLayout) && !excused(ctx, err) {
				b.found("bungler", l.Name, "%v; want %v", err, holdfast.ErrLayout)
			}
		}
		_, err := holdfast.NewMutex(c, path, holdfast.WithLayout(layout.Named("a")), holdfast.WithValue([]byte("x"))).TryLock(ctx)
		if !errors.Is(err, holdfast.ErrLayout) && !excused(ctx, err) {
			b.found("bungler", "value", "%v; want %v", err, holdfast.ErrLayout)
		}
	}
	for name, err := range map[string]error{
		"break":  holdfast.Break(ctx, c, path, 7),
		"revoke": holdfast.Revoke(ctx, c, path, 7),
	} {
		if !errors.Is(err, holdfast.ErrNotHeld) && !excused(ctx, err) {
			b.found("bungler", name, "%v; want %v", err, holdfast.ErrNotHeld)
		}
	}
	if all, err := holdfast.List(ctx, c, path); len(all) > 0 || err != nil && !excused(ctx, err) {
		b.found("bungler", path, "its queue is %v (%v)", all, err)
	}
	b.held(ctx, c)
}

// held misuses a lock that it holds.
func (b *bungler) held(ctx context.Context, c *zk.Client) {
	path := fmt.Sprintf("/bungler-%d", b.number)
	m := holdfast.NewMutex(c, path)
	soon, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	h, err := m.Lock(soon)
	if err != nil {
		return
	}
	_, err = m.Lock(h.Context())
	if !errors.Is(err, holdfast.ErrDeadlock) && h.Context().Err() == nil && !excused(soon, err) {
		b.found("bungler", path, "locked again: %v", err)
	}
	e := holdfast.NewElection(c, path+"-other")
	if err := e.Proclaim(soon, h, nil); !errors.Is(err, zk.ErrBadArguments) {
		b.found("bungler", path, "proclaimed without an office: %v", err)
	}
	if _, _, err := once.New(c, path+"-once").Key("key").Turn(soon, nil); !errors.Is(err, zk.ErrBadArguments) {
		b.found("bungler", path, "a turn without a Hold: %v", err)
	}
	others := map[string]func(context.Context) (*holdfast.Hold, error){
		"permit": holdfast.NewSemaphore(c, path+"-permits", 2).Locker(1).Lock,
		"slot":   holdfast.NewSlots(c, path+"-slots", 2).Locker(1).Lock,
		"reader": holdfast.NewRWMutex(c, path+"-read").RLock,
		"kept":   holdfast.NewMutex(c, path+"-kept", holdfast.WithKeep(time.Nanosecond)).Lock,
		"node":   holdfast.NewNodeLock(c, path+"-node").Lock,
		"two":    holdfast.NewMultiLock(holdfast.NewMutex(c, path+"-1"), holdfast.NewMutex(c, path+"-2")).Lock,
	}
	for kind, lock := range others {
		wrong, err := lock(soon)
		if err != nil {
			continue
		}
		if kind == "node" {
			err = reserve.For(soon, wrong, time.Second)
		} else {
			_, _, err = once.New(c, path+"-once").Key("key").Turn(soon, wrong)
		}
		if !errors.Is(err, zk.ErrBadArguments) {
			b.found("bungler", path, "a Hold of the kind %s is taken: %v", kind, err)
		}
		wrong.Unlock()
	}
	if outer, ok := holdfast.FromContext(h.Context()); !ok || outer != h {
		b.found("bungler", path, "the context of the Hold has another one: %v", ok)
	}
	select {
	case <-h.Lost():
	default:
		if d := time.Until(h.Deadline()); d < 0 && h.Context().Err() == nil {
			b.found("bungler", path, "held %v beyond its deadline", -d)
		}
	}
	first := h.Unlock()
	if again := h.Unlock(); !errors.Is(again, holdfast.ErrNotHeld) {
		b.found("bungler", path, "unlocked twice: %v, %v", first, again)
	}
	if _, err := h.Commit(soon); !errors.Is(err, holdfast.ErrNotHeld) && !errors.Is(err, holdfast.ErrLost) {
		b.found("bungler", path, "committed after the end: %v", err)
	}
}

// anyPlace has a name from the queue of some layouts.
var anyPlace = map[string]string{
	"curator": "_c_0-lock-0000000001", "kazoo": "0__lock__0000000002", "named:a": "a_lock_0000000003",
}

// foreign is a Locker of another package.
type foreign struct{ holdfast.Locker }

// errAny stands for errors that have no name.
var errAny = errors.New("some error")
