package certmagicholdfast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"holdfast"
	"holdfast/zk"
)

// locks are the named locks of a storage. In one program, a name is locked once at a time, as in the whole cluster.
type locks struct {
	cfg Config

	mu   sync.Mutex
	held map[string]*held // guarded by mu
}

// A held is a lock that calls of this program hold or wait for.
type held struct {
	turn  chan struct{}  // has an element while a tenure, or a call that begins one, lasts
	users int            // tenures and calls; guarded by locks.mu
	hold  *holdfast.Hold // of the tenure; nil without one; guarded by locks.mu
}

func newLocks(cfg Config) (*locks, error) {
	if err := zk.ValidatePath(cfg.Path); err != nil {
		return nil, fmt.Errorf("certmagicholdfast: %w", err)
	}
	if cfg.Path == "/" {
		return nil, fmt.Errorf("certmagicholdfast: %w: the storage needs a node of its own, such as /certmagic", zk.ErrInvalidPath)
	}
	if cfg.Client == nil {
		return nil, fmt.Errorf("certmagicholdfast: %w: Config.Client is nil", zk.ErrBadArguments)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &locks{cfg: cfg, held: make(map[string]*held)}, nil
}

func (l *locks) mutex(name string) *holdfast.Mutex {
	return holdfast.NewMutex(l.cfg.Client, l.cfg.Path+"/locks/"+zk.EscapeName(name), holdfast.WithOwner(l.cfg.Owner), holdfast.WithACL(l.cfg.ACL...))
}

// Lock waits for the lock until ctx ends; the error then wraps the cause of ctx. While this program holds the lock, Lock
// waits for its Unlock, even if the lock was lost meanwhile.
func (l *locks) Lock(ctx context.Context, name string) error {
	e := l.use(name)
	select {
	case e.turn <- struct{}{}:
	case <-ctx.Done():
		l.unuse(name, e)
		return fmt.Errorf("lock %q: %w", name, context.Cause(ctx))
	}
	h, err := l.mutex(name).Lock(ctx)
	return l.begin(name, e, h, err)
}

// TryLock acquires the lock if nobody holds it, in this program or another.
func (l *locks) TryLock(ctx context.Context, name string) (bool, error) {
	e := l.use(name)
	select {
	case e.turn <- struct{}{}:
	default:
		l.unuse(name, e)
		return false, nil
	}
	h, err := l.mutex(name).TryLock(ctx)
	err = l.begin(name, e, h, err)
	if errors.Is(err, holdfast.ErrLocked) {
		return false, nil
	}
	return err == nil, err
}

// Unlock releases the lock, also if ctx has ended. It waits at most until the session ends. The error is
// holdfast.ErrNotHeld if this program does not hold the lock. It is no error if the lock was lost: it is released then.
func (l *locks) Unlock(_ context.Context, name string) error {
	l.mu.Lock()
	e := l.held[name]
	if e == nil || e.hold == nil {
		l.mu.Unlock()
		return fmt.Errorf("unlock %q: %w", name, holdfast.ErrNotHeld)
	}
	h := e.hold
	e.hold = nil
	l.mu.Unlock()
	err := h.Unlock()
	<-e.turn
	l.unuse(name, e)
	if errors.Is(err, holdfast.ErrLost) {
		return nil
	}
	return err
}

// RenewLockLease reports whether the lock is still held. The session is kept alive without it, so the duration has no
// effect. certmagic calls it before each attempt to obtain a certificate.
//
// If the lock was lost, RenewLockLease acquires it again if it is free. certmagic then looks whether the certificate has been
// stored meanwhile. The error is holdfast.ErrLost if another program holds the lock; the attempt fails, and
// certmagic tries again later. The error is holdfast.ErrNotHeld if this program has not locked it.
func (l *locks) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	l.mu.Lock()
	e := l.held[name]
	if e == nil || e.hold == nil {
		l.mu.Unlock()
		return fmt.Errorf("renew the lock %q: %w", name, holdfast.ErrNotHeld)
	}
	old := e.hold
	l.mu.Unlock()
	loss := old.Err()
	if loss == nil {
		return nil
	}
	h, err := l.mutex(name).TryLock(ctx)
	if err != nil {
		return fmt.Errorf("renew the lock %q: %w; acquire it again: %w", name, loss, err)
	}
	l.mu.Lock()
	current := e.hold == old
	if current {
		l.watch(name, e, h)
	}
	l.mu.Unlock()
	if !current { // unlocked meanwhile
		return errors.Join(loss, h.Unlock())
	}
	old.Unlock() // its loss is known
	return nil
}

// use returns the entry of name, which exists until as many calls of unuse.
func (l *locks) use(name string) *held {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.held[name]
	if e == nil {
		e = &held{turn: make(chan struct{}, 1)}
		l.held[name] = e
	}
	e.users++
	return e
}

func (l *locks) unuse(name string, e *held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.users--; e.users == 0 {
		delete(l.held, name)
	}
}

// begin begins the tenure of h, unless err says that there is none. The caller has the turn.
func (l *locks) begin(name string, e *held, h *holdfast.Hold, err error) error {
	if err != nil {
		<-e.turn
		l.unuse(name, e)
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watch(name, e, h)
	return nil
}

// watch makes h the Hold of e, and logs its loss. A program that closes its client means to end its locks. l.mu must be held.
func (l *locks) watch(name string, e *held, h *holdfast.Hold) {
	begun := time.Now()
	e.hold = h
	context.AfterFunc(h.Context(), func() { // it ends with the Hold
		if err := context.Cause(h.Context()); errors.Is(err, holdfast.ErrLost) && !errors.Is(err, zk.ErrClosed) {
			l.cfg.Logger.Error("a lock of certmagic is lost", "lock", name, "node", h.Path(), "held", time.Since(begun), "error", err)
		}
	})
}

// guard returns the Hold of the lock under which certmagic changes key, if this program has acquired it and not yet
// unlocked it. It may be lost.
func (l *locks) guard(key string) *holdfast.Hold {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, e := range l.held {
		if e.hold != nil && guards(name, key) {
			return e.hold
		}
	}
	return nil
}
