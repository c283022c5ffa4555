package chaos_test

import (
	"context"

	"holdfast"
)

// An audit checks what the observers of a world's locks are told: for every attempt one end, for every Hold at most one
// loss and one release, and no loss after the release of a Hold that was released alone.
type audit struct {
	*world
	attempts map[*attempt]bool // those that have not ended
	holds    map[*holdfast.Hold]*observed
	told     map[string]int // events by hook
}

// An attempt is the key of what Queued puts into the context.
type attempt struct{ path string }

type attemptKey struct{}

type observed struct {
	path           string
	lost, released int
}

// options returns the options of locks that are observed in half of the worlds. It draws nothing, so the other worlds
// stay as they are.
func (w *world) options(more ...holdfast.Option) []holdfast.Option {
	if w.seed%2 == 1 {
		more = append(more, holdfast.WithObserver(w.audit.observer()))
	}
	return more
}

func newAudit(w *world) *audit {
	return &audit{world: w, attempts: make(map[*attempt]bool), holds: make(map[*holdfast.Hold]*observed), told: make(map[string]int)}
}

func (a *audit) observer() *holdfast.Observer {
	return &holdfast.Observer{
		Queued: func(ctx context.Context, e holdfast.Event) context.Context {
			at := &attempt{e.Path}
			a.mu.Lock()
			defer a.mu.Unlock()
			a.told["queued"]++
			a.attempts[at] = true
			return context.WithValue(ctx, attemptKey{}, at)
		},
		Acquired: func(ctx context.Context, e holdfast.Event) {
			at, _ := ctx.Value(attemptKey{}).(*attempt)
			a.mu.Lock()
			known := a.attempts[at]
			delete(a.attempts, at)
			a.told["acquired"]++
			twice := e.Hold != nil && a.holds[e.Hold] != nil
			if e.Hold != nil {
				a.told["held"]++
				a.holds[e.Hold] = &observed{path: e.Path}
			}
			a.mu.Unlock()
			if !known || twice || (e.Hold == nil) == (e.Err == nil) {
				a.found("observer", e.Path, "acquired: %+v; its attempt is known: %v; the Hold is known already: %v", e, known, twice)
			}
		},
		Lost:     func(_ context.Context, e holdfast.Event) { a.end("lost", e) },
		Released: func(_ context.Context, e holdfast.Event) { a.end("released", e) },
	}
}

func (a *audit) end(what string, e holdfast.Event) {
	a.mu.Lock()
	a.told[what]++
	o := a.holds[e.Hold]
	if o != nil && what == "lost" {
		o.lost++
	} else if o != nil {
		o.released++
	}
	bad := o == nil || o.lost > 1 || o.released > 1
	a.mu.Unlock()
	if bad {
		a.found("observer", e.Path, "%s: %+v; known: %+v", what, e, o)
	}
}

// check finds what was never reported. All holders have released their locks. A Hold that a MultiLock has taken
// over is reported once as well.
func (a *audit) check() {
	a.mu.Lock()
	var missing []string
	for at := range a.attempts {
		missing = append(missing, at.path)
	}
	var kept []string
	for _, o := range a.holds {
		if o.released == 0 {
			kept = append(kept, o.path)
		}
	}
	a.mu.Unlock()
	if len(missing) > 0 {
		a.found("observer", "", "attempts whose end was never reported: %q", missing)
	}
	if len(kept) > 0 {
		a.found("observer", "", "holds whose release was never reported: %q", kept)
	}
}
