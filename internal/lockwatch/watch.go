package lockwatch

import (
	"context"
	"errors"
	"slices"
	"time"

	"holdfast"
	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// A Config says what to watch.
type Config struct {
	Prefix string          // of the paths of the locks; it begins with /
	Layout holdfast.Layout // of their nodes; the zero value is all: the name of each node tells its layout
	// Ready, if not nil, is called when the watch has begun: the package reports every event from then on, or a
	// Gap.
	Ready func(Summary)
	// Every is how often the tree is read on servers without persistent watches; 0 is a second.
	Every time.Duration
}

// A Summary is what there was when the watch began.
type Summary struct {
	Locks, Held, Waiters int  // in use; held; clients that wait
	Polls                bool // the server has no persistent watches
}

// pendingLimit bounds the events that wait to be looked at. Beyond it, the tree is read again.
const pendingLimit = 100_000

// Watch reports what happens to the locks until ctx ends or report fails. It goes on when the connection
// breaks and when the session expires.
func Watch(ctx context.Context, c *zk.Client, cfg Config, report func(Event) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &watcher{client: c, cfg: cfg}
	w.model = newModel(grammar(cfg.Layout), cfg.Prefix, func(e Event) {
		if w.failed == nil {
			w.failed = report(e)
		}
	})
	if cfg.Every == 0 {
		w.cfg.Every = time.Second
	}
	for lacking := 0; ; {
		err := w.follow(ctx)
		if !errors.Is(err, zk.ErrUnimplemented) {
			lacking = 0
		} else if lacking++; lacking >= watchTries {
			err = w.poll(ctx, watchAgain)
		}
		switch {
		case w.failed != nil:
			return w.failed
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil, errors.Is(err, zk.ErrUnimplemented):
			// again; another member may have such watches
		case errors.Is(err, zk.ErrClosed), errors.Is(err, zk.ErrAuthFailed):
			return err
		case errors.Is(err, zk.ErrSessionExpired), errors.Is(err, zk.ErrConnectionLoss):
			// again, in the next session
		default:
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// grammar returns the grammar of a layout, or nil for all layouts.
func grammar(l holdfast.Layout) *names.Grammar {
	if l.Name == "" {
		return nil
	}
	return names.Compile(names.Layout{
		Name: l.Name, Mutex: l.Mutex, Write: l.Write, Read: l.Read,
		Exclusive: l.Exclusive, Shared: l.Shared, Container: l.Parent == zk.Container,
	})
}

// A watcher is one Watch.
type watcher struct {
	client *zk.Client
	cfg    Config
	model  *model
	loaded bool
	failed error // of report

	pump    *pump
	pending []arrival       // events that the model does not have yet
	infos   map[string]info // of nodes that were created, by path
}

// follow watches with a persistent watch until that ends.
func (w *watcher) follow(ctx context.Context) error {
	var watch *zk.PersistentWatch
	err := zk.Retry(ctx, func() (err error) {
		watch, err = w.client.AddWatch(ctx, w.model.base, zk.WatchPersistentRecursive)
		return err
	})
	if err != nil {
		return err
	}
	defer watch.Stop()
	w.pump, w.pending = newPump(watch.C), nil
	if err := w.resync(ctx); err != nil {
		return err
	}
	for w.failed == nil {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-w.pump.more:
		}
		all, over := w.pump.take()
		w.pending = append(w.pending, all...)
		if err := w.handle(ctx); err != nil {
			return err
		}
		if over {
			return zk.ErrSessionExpired
		}
	}
	return nil
}

// resync reads the tree and brings the model up to date. The tree may show an event that came during the read, or
// not. If a node has several events, only the last counts: it tells whether the node is there.
func (w *watcher) resync(ctx context.Context) error {
	for {
		w.drain() // older than the read
		w.pending = nil
		t, err := w.model.read(ctx, w.client)
		if err != nil {
			return err
		}
		now := time.Now()
		w.drain()
		if w.missed() {
			continue
		}
		last, events := make(map[string]int), make(map[string]int)
		for i, a := range w.pending {
			last[a.Path] = i
			events[a.Path]++
		}
		if w.loaded {
			w.model.update(t, now, w.model.unseen(t, events))
		} else {
			w.model.load(t, now)
			w.loaded = true
			if w.cfg.Ready != nil {
				w.cfg.Ready(w.model.summary())
			}
		}
		w.model.veil(t, now)
		for path := range events {
			parent, _ := split(path)
			if d := w.model.dirs[parent]; d != nil {
				d.unsure = true
			}
		}
		kept := w.pending[:0]
		for i, a := range w.pending {
			created := a.Type == zk.EventNodeCreated
			switch {
			case a.Err != nil:
				kept = append(kept, a)
			case last[a.Path] != i:
			case created && events[a.Path] > 1 && w.model.reusable(a.Path): // the model may have the node before
				kept = append(kept, a)
			case created != w.model.knows(a.Path):
				kept = append(kept, a)
			}
		}
		w.pending = kept
		return w.handle(ctx)
	}
}

// drain takes the events that have come. Every change that an earlier answer shows is among them, or was
// before. If there are too many, it keeps the first, which the caller is at, and asks for a resync.
func (w *watcher) drain() {
	all, _ := w.pump.take()
	for _, a := range all {
		if a.Err != nil || a.Type == zk.EventNodeCreated || a.Type == zk.EventNodeDeleted {
			w.pending = append(w.pending, a)
		}
	}
	if len(w.pending) > pendingLimit {
		w.pending = append(w.pending[:1:1], arrival{Event: zk.Event{Err: zk.ErrEventsMissed}, at: time.Now()})
	}
}

func (w *watcher) missed() bool {
	for _, a := range w.pending {
		if errors.Is(a.Err, zk.ErrEventsMissed) {
			return true
		}
	}
	return false
}

// handle gives the pending events to the model.
func (w *watcher) handle(ctx context.Context) error {
	w.infos = make(map[string]info)
	var turn *place // the permits that come now are of this turn, which is gone
	var waited time.Duration
	for len(w.pending) > 0 && w.failed == nil {
		a := w.pending[0]
		switch {
		case errors.Is(a.Err, zk.ErrEventsMissed):
			return w.resync(ctx)
		case a.Err != nil:
			return a.Err
		case a.Type != zk.EventNodeCreated && a.Type != zk.EventNodeDeleted:
			w.pending = w.pending[1:]
			continue
		case !w.model.relevant(a.Path):
			w.model.sibling(a.Path, a.Type == zk.EventNodeCreated)
			w.pending = w.pending[1:]
			continue
		}
		if !w.learned(a) {
			if err := w.learn(ctx); err != nil {
				return err
			}
		}
		if a.Type == zk.EventNodeCreated {
			if err := w.awaitPermits(ctx, a); err != nil {
				return err
			}
			if w.model.replaces(a.Path, w.infos[a.Path]) {
				w.model.deleted(a.Path, a.at, false)
			}
			if turn != nil && !w.model.permitOf(turn, a.Path, w.infos[a.Path]) {
				turn, waited = nil, 0
			}
			w.model.created(a.Path, w.infos[a.Path], a.at, waited, turn != nil, true)
			delete(w.infos, a.Path)
			w.pending = w.pending[1:]
			continue
		}
		// A turn that is gone has its permit in the next event, or has left. All events of its transaction have come
		// before the answers that learn has got.
		turn, waited = nil, 0
		if t := w.model.turnAt(a.Path); t != nil && t.isFirst() && len(w.pending) > 1 {
			next := w.pending[1]
			if next.Err != nil { // the event may be missing: the next reading tells
				w.pending = w.pending[1:]
				continue
			}
			if !w.learned(next) {
				if err := w.learn(ctx); err != nil { // in some layouts, only the node tells
					return err
				}
			}
			if next.Type == zk.EventNodeCreated && w.model.permitOf(t, next.Path, w.infos[next.Path]) {
				turn, waited = t, t.lasted(a.at)
			}
		}
		w.model.deleted(a.Path, a.at, turn != nil)
		w.pending = w.pending[1:]
	}
	return nil
}

// learned reports whether learn has read what is to be read for a pending event.
func (w *watcher) learned(a arrival) bool {
	_, known := w.infos[a.Path]
	return a.looked && (known || a.Type != zk.EventNodeCreated || !w.model.relevant(a.Path))
}

// learn reads the nodes whose creation is pending. It also compares the counts of changes of the directories of all
// pending events: a server reports no event of a node that the watcher may not read.
func (w *watcher) learn(ctx context.Context) error {
	w.drain() // so that the events before the requests are known
	before := w.changes()
	var paths, dirs []string
	for i := range w.pending {
		a := &w.pending[i]
		if a.Err != nil || a.Type != zk.EventNodeCreated && a.Type != zk.EventNodeDeleted {
			continue
		}
		_, known := w.infos[a.Path]
		if a.Type == zk.EventNodeCreated && !known && w.model.relevant(a.Path) {
			w.infos[a.Path] = info{}
			paths = append(paths, a.Path)
		}
		if parent, _ := split(a.Path); !a.looked && w.model.dirs[parent] != nil {
			dirs = append(dirs, parent)
		}
		a.looked = true
	}
	slices.Sort(dirs)
	dirs = slices.Compact(dirs)
	results, err := reads(ctx, w.client, paths, zk.GetOp)
	if err != nil {
		return err
	}
	counts, err := reads(ctx, w.client, dirs, func(path string) zk.Op {
		if w.model.dirs[path].unsure {
			return zk.ChildrenOp(path) // the names tell what the count does not
		}
		return zk.ExistsOp(path)
	})
	if err != nil {
		return err
	}
	w.drain()
	w.compare(dirs, counts, before)
	// A name that comes back may be that of another node by now.
	came, gone := make(map[string]bool), make(map[string]bool)
	inside := make(map[string]int32) // of a directory: the events since it was created
	for _, a := range w.pending {
		if a.Type == zk.EventNodeCreated || a.Type == zk.EventNodeDeleted {
			parent, _ := split(a.Path)
			inside[a.Path] = 0
			inside[parent]++
		}
		switch {
		case a.Type == zk.EventNodeCreated:
			came[a.Path] = true
		case a.Type == zk.EventNodeDeleted && came[a.Path] && w.model.reusable(a.Path):
			gone[a.Path] = true
		}
	}
	for i, r := range results {
		if r.Err != nil {
			w.infos[paths[i]] = info{denied: errors.Is(r.Err, zk.ErrNoAuth)}
			continue
		}
		got := infoOf(r)
		if gone[paths[i]] && got.stat.EphemeralOwner != 0 {
			got = info{stat: zk.Stat{EphemeralOwner: got.stat.EphemeralOwner}} // what it is, and not whose
		}
		got.hidden = got.stat.Cversion - inside[paths[i]]
		w.infos[paths[i]] = got
	}
	return nil
}

// changes counts the pending events of each directory: the nodes that came or went.
func (w *watcher) changes() map[string]int32 {
	events := make(map[string]int32)
	for _, a := range w.pending {
		if a.Err == nil && (a.Type == zk.EventNodeCreated || a.Type == zk.EventNodeDeleted) {
			parent, _ := split(a.Path)
			events[parent]++
		}
	}
	return events
}

// compare looks for changes of directories that no event has reported. w.pending has all events that came before the
// answers, and perhaps later ones. before counts the events that came before the requests.
func (w *watcher) compare(dirs []string, counts []zk.Result, before map[string]int32) {
	touched := make(map[string]bool)
	for _, a := range w.pending {
		if a.Err != nil {
			return // the next reading tells
		}
		touched[a.Path] = touched[a.Path] || a.Type == zk.EventNodeCreated || a.Type == zk.EventNodeDeleted
	}
	events := w.changes()
	for i, path := range dirs {
		d := w.model.dirs[path]
		if d == nil || counts[i].Err != nil || touched[path] || d.czxid != 0 && d.czxid != counts[i].Stat.Czxid {
			continue
		}
		hidden := counts[i].Stat.Cversion - d.cversion - events[path]
		switch {
		case d.unsure:
			// An event between request and answer may be in the count, or not. Then a later comparison decides.
			if events[path] == before[path] {
				d.cversion, d.unsure = d.cversion+hidden, false
			}
			if slices.ContainsFunc(counts[i].Children, func(child string) bool {
				_, known := d.children[child]
				return !known && !touched[join(path, child)]
			}) {
				w.model.hide(path, d, time.Now())
			}
		case hidden > 0:
			d.cversion += hidden
			w.model.hide(path, d, time.Now())
		}
	}
}

// permitPatience is how long the first event of a queue whose directory has the name of a turnstile waits for the
// directory of the permits. It counts from the arrival of the event, so the events behind it wait no longer.
const permitPatience = 300 * time.Millisecond

// awaitPermits waits a moment if the event is of a place below a directory that may be the turnstile of a new
// semaphore. The first permit tells.
func (w *watcher) awaitPermits(ctx context.Context, place arrival) error {
	parent, _ := split(place.Path)
	permits, ok := w.model.permitsFor(parent)
	if !ok || parent == w.model.base || w.model.dirs[permits] != nil {
		return nil
	}
	if r, of, _ := w.model.classify(place.Path, false); r == other || w.model.locks[of] != nil {
		return nil
	}
	for {
		for _, a := range w.pending {
			if a.Err == nil && a.Type == zk.EventNodeCreated && a.Path == permits {
				if !w.learned(a) {
					if err := w.learn(ctx); err != nil {
						return err
					}
				}
				i := w.infos[permits]
				i.known = !i.denied // also if it is gone by now
				w.model.created(permits, i, a.at, 0, false, true)
				return nil
			}
		}
		if time.Since(place.at) >= permitPatience {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
		w.drain()
		if err := w.learn(ctx); err != nil {
			return err
		}
	}
}

// poll reads the tree again and again for some time.
func (w *watcher) poll(ctx context.Context, lasts time.Duration) error {
	var pace Pace
	until := time.Now().Add(lasts)
	for w.failed == nil && time.Now().Before(until) {
		began := time.Now()
		t, err := w.model.read(ctx, w.client)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil && w.loaded:
			w.model.update(t, time.Now(), make(map[string]string))
		case err == nil:
			w.model.load(t, time.Now())
			w.loaded = true
			if w.cfg.Ready != nil {
				s := w.model.summary()
				s.Polls = true
				w.cfg.Ready(s)
			}
		case !errors.Is(err, zk.ErrSessionExpired) && !errors.Is(err, zk.ErrConnectionLoss):
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pace.Pause(w.cfg.Every, time.Since(began))):
		}
	}
	return w.failed
}
