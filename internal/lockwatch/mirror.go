package lockwatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/internal/budget"
	"holdfast/internal/queue"
	"holdfast/zk"
)

// A Node is a node of a Mirror.
type Node struct {
	Children map[string]struct{}
	Data     []byte // at most 64 KiB of it
	Stat     zk.Stat
	Denied   bool // there is no permission to read it
	Unread   bool // it was gone before it was read; its removal is the next change
}

const (
	calm     = 100                    // events per second that are read at once
	atOnce   = 32                     // burst of events that are read at once
	gather   = 100 * time.Millisecond // pause between batches
	together = 16                     // nodes per request: with 2 MiB each, the client accepts the answer
	inFlight = 4                      // such requests at a time
)

// mirroredData is how much of a node's data a Mirror keeps.
const mirroredData = budget.MaxData

// A Mirror is a copy of a node and of everything below it, in all layouts. Follow keeps it up to date with one
// persistent recursive watch: a change costs one read, or none, and many changes share requests. Only the functions
// that Follow calls may use it, or code that excludes them.
type Mirror struct {
	Base  string
	Nodes map[string]*Node

	// Reset, if not nil, is called when the mirror has been read anew: at first, after Lost, and once or twice a minute. Changes
	// in between are not reported. polls says that the server has no persistent watches, so each reading is a Reset.
	Reset func(polls bool)
	// Changed, if not nil, is called after each creation, removal and change of data, in order.
	Changed func(path string, at time.Time)
	// Lost, if not nil, is called when the mirror is no longer up to date: the watch has ended or has a gap. A
	// Reset follows.
	Lost func(err error)
	// Hold excludes the users of Nodes while the mirror changes; it is called with the function that changes it.
	Hold func(change func())

	every time.Duration
}

// Follow keeps the mirror up to date until ctx ends. It goes on when the connection breaks and when the session
// expires. Other errors, such as a missing permission for Base, end it.
func (m *Mirror) Follow(ctx context.Context, c *zk.Client) error {
	if m.every == 0 {
		m.every = time.Second
	}
	for lacking := 0; ; {
		err := m.follow(ctx, c)
		if !errors.Is(err, zk.ErrUnimplemented) {
			lacking = 0
		} else if lacking++; lacking >= watchTries && ctx.Err() == nil {
			err = m.pollAll(ctx, c, watchAgain)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil { // it is up to date
			continue
		}
		lacks := errors.Is(err, zk.ErrUnimplemented) // another member may have such watches
		if !lacks || m.Nodes != nil {
			m.Lost(err)
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case lacks:
		case errors.Is(err, zk.ErrSessionExpired), errors.Is(err, zk.ErrConnectionLoss):
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

func (m *Mirror) follow(ctx context.Context, c *zk.Client) error {
	var watch *zk.PersistentWatch
	err := zk.Retry(ctx, func() (err error) {
		watch, err = c.AddWatch(ctx, m.Base, zk.WatchPersistentRecursive)
		return err
	})
	if err != nil {
		return err
	}
	defer watch.Stop()
	p := newPump(watch.C)
	if err := m.reset(ctx, c, p); err != nil {
		return err
	}
	credit, last := float64(atOnce), time.Now() // events that are read at once
	var pace Pace
	again := time.NewTimer(queue.LookAgain())
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-p.more:
		case began := <-again.C: // no event tells of a node that has become unreadable
			if err := m.reset(ctx, c, p); err != nil {
				return err
			}
			again.Reset(pace.Pause(queue.LookAgain(), time.Since(began)))
			continue
		}
		events, over := p.take()
		missed := false
		for _, e := range events {
			switch {
			case errors.Is(e.Err, zk.ErrEventsMissed):
				missed = true
			case e.Err != nil:
				return e.Err
			}
		}
		switch {
		case over:
			return zk.ErrSessionExpired
		case missed:
			m.Lost(zk.ErrEventsMissed)
			err = m.reset(ctx, c, p)
		default:
			err = m.apply(ctx, c, events, true)
		}
		if err != nil {
			return err
		}
		// Few changes are read at once. Many wait for each other, and share requests.
		now := time.Now()
		credit = min(credit+now.Sub(last).Seconds()*calm, atOnce) - float64(len(events))
		credit, last = max(credit, -1), now
		if credit >= 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(gather):
		}
	}
}

// reset reads all nodes. Nodes with events during the reading are read again.
func (m *Mirror) reset(ctx context.Context, c *zk.Client, p *pump) error {
	for {
		_, _ = p.take() // older than the reading
		nodes, err := m.readAll(ctx, c)
		if err != nil {
			return err
		}
		events, over := p.take()
		if over {
			return zk.ErrSessionExpired
		}
		again := false
		for _, e := range events {
			switch {
			case errors.Is(e.Err, zk.ErrEventsMissed):
				again = true
			case e.Err != nil:
				return e.Err
			}
		}
		if again {
			continue
		}
		m.Hold(func() { m.Nodes = nodes })
		if err := m.apply(ctx, c, events, false); err != nil {
			return err
		}
		m.Hold(func() { m.Reset(false) })
		return nil
	}
}

// apply brings the nodes of the events up to date, one event after the other. During a reading, the order of events
// and of the reading is unknown: then all nodes are read, and tell whether they are there.
func (m *Mirror) apply(ctx context.Context, c *zk.Client, events []arrival, ordered bool) error {
	var paths []string
	asked := make(map[string]int)
	for _, e := range events {
		read := e.Type == zk.EventNodeCreated || e.Type == zk.EventNodeDataChanged || e.Type == zk.EventNodeDeleted && !ordered
		if _, again := asked[e.Path]; read && !again && m.within(e.Path) {
			asked[e.Path] = len(paths)
			paths = append(paths, e.Path)
		}
	}
	results, err := readTogether(ctx, c, paths)
	if err != nil {
		return err
	}
	m.Hold(func() {
		for _, e := range events {
			if e.Err != nil || !m.within(e.Path) || m.Nodes[m.parent(e.Path)] == nil && e.Path != m.Base {
				continue
			}
			gone := e.Type == zk.EventNodeDeleted
			i, wasRead := asked[e.Path]
			if !ordered {
				gone = wasRead && errors.Is(results[i].Err, zk.ErrNoNode)
			}
			switch {
			case gone:
				m.remove(e.Path)
			case wasRead:
				m.put(e.Path, results[i], e.Type == zk.EventNodeCreated)
			default:
				continue
			}
			if ordered {
				m.Changed(e.Path, e.at)
			}
		}
	})
	if n := int64(len(m.Nodes)); n > budget.MaxNodes {
		return fmt.Errorf("%w: more than %d", budget.ErrTooMuch, budget.MaxNodes)
	}
	return nil
}

// readTogether reads nodes, several with one request. If a request fails, it reads its nodes one by one: an answer
// with large nodes can be too long.
func readTogether(ctx context.Context, c *zk.Client, paths []string) ([]zk.Result, error) {
	all := make([]zk.Result, len(paths))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(inFlight)
	for from := 0; from < len(paths); from += together {
		some := paths[from:min(from+together, len(paths))]
		group.Go(func() error {
			ops := make([]zk.Op, len(some))
			for i, path := range some {
				ops[i] = zk.GetOp(path)
			}
			results, _ := c.MultiRead(ctx, ops...) // what has no answer is read again below
			if results == nil || slices.ContainsFunc(results, unanswered) {
				var err error
				if results, err = reads(ctx, c, some, zk.GetOp); err != nil {
					return err
				}
			}
			copy(all[from:], results)
			return nil
		})
	}
	return all, group.Wait()
}

// unanswered reports whether a result says nothing about its node.
func unanswered(r zk.Result) bool {
	return r.Err != nil && !errors.Is(r.Err, zk.ErrNoNode) && !errors.Is(r.Err, zk.ErrNoAuth)
}

func (m *Mirror) within(path string) bool {
	return path == m.Base || strings.HasPrefix(path, strings.TrimSuffix(m.Base, "/")+"/") && !strings.HasPrefix(path, "/zookeeper/") && path != "/zookeeper"
}

func (m *Mirror) parent(path string) string {
	if path == "/" {
		return ""
	}
	parent, _ := split(path)
	return parent
}

func (m *Mirror) put(path string, r zk.Result, created bool) {
	n := m.Nodes[path]
	if n == nil {
		if r.Err != nil && !created {
			return
		}
		n = &Node{}
		m.Nodes[path] = n
		if parent := m.Nodes[m.parent(path)]; parent != nil && path != m.Base {
			if parent.Children == nil {
				parent.Children = make(map[string]struct{})
			}
			_, name := split(path)
			parent.Children[name] = struct{}{}
		}
	}
	switch {
	case errors.Is(r.Err, zk.ErrNoAuth):
		n.Denied = true
	case r.Err != nil:
		n.Unread = true
	default:
		data := r.Data
		if len(data) > mirroredData {
			data = bytes.Clone(data[:mirroredData]) // a part would keep the whole in memory
		}
		n.Data, n.Stat, n.Denied, n.Unread = data, r.Stat, false, false
	}
}

func (m *Mirror) remove(path string) {
	n := m.Nodes[path]
	if n == nil {
		return
	}
	for child := range n.Children {
		m.remove(join(path, child))
	}
	delete(m.Nodes, path)
	if parent := m.Nodes[m.parent(path)]; parent != nil {
		_, name := split(path)
		delete(parent.Children, name)
	}
}

func (m *Mirror) readAll(ctx context.Context, c *zk.Client) (map[string]*Node, error) {
	if err := zk.Retry(ctx, func() error { return c.Sync(ctx, m.Base) }); err != nil {
		return nil, err
	}
	next := &Mirror{Base: m.Base, Nodes: make(map[string]*Node)}
	var kept budget.Budget
	for level := []string{m.Base}; len(level) > 0; {
		var parents []string
		err := readsEach(ctx, c, level, zk.GetOp, func(i int, r zk.Result) error {
			switch {
			case errors.Is(r.Err, zk.ErrNoNode):
				return nil
			case r.Err != nil && level[i] == m.Base:
				return fmt.Errorf("read %s: %w", m.Base, r.Err)
			}
			next.put(level[i], r, true)
			// A node without children may get some before it is listed; their events come.
			if r.Err == nil && r.Stat.NumChildren > 0 {
				parents = append(parents, level[i])
			}
			return kept.Keep(0, min(len(r.Data), mirroredData))
		})
		if err != nil {
			return nil, err
		}
		level = nil
		err = readsEach(ctx, c, parents, zk.ChildrenOp, func(i int, r zk.Result) error {
			for _, child := range r.Children {
				if path := join(parents[i], child); m.within(path) {
					level = append(level, path)
				}
			}
			return kept.KeepNames(parents[i], r.Children)
		})
		if err != nil {
			return nil, err
		}
	}
	return next.Nodes, nil
}

// pollAll reads all nodes again and again for some time.
func (m *Mirror) pollAll(ctx context.Context, c *zk.Client, lasts time.Duration) error {
	var pace Pace
	for until := time.Now().Add(lasts); time.Now().Before(until); {
		began := time.Now()
		nodes, err := m.readAll(ctx, c)
		if err != nil {
			return err
		}
		m.Hold(func() {
			m.Nodes = nodes
			m.Reset(true)
		})
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pace.Pause(m.every, time.Since(began))):
		}
	}
	return nil
}
