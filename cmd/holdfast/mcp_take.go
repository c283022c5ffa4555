package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
	"holdfast/internal/mcp"
	"holdfast/layout"
)

// A want is what a call asks for.
type want struct {
	lock, path string // one of the two
	shared     bool
	why        string
	wait       time.Duration
}

func waitOf(seconds *float64) (time.Duration, error) {
	if seconds == nil {
		return 20 * time.Second, nil
	}
	if !(*seconds >= 0 && *seconds <= 3600) {
		return 0, fmt.Errorf("wait_seconds is %v; want 0 to 3600", *seconds)
	}
	return time.Duration(*seconds * float64(time.Second)), nil
}

func (a *agent) acquire(ctx context.Context, c *mcp.Call) (*mcp.Result, error) {
	var args struct {
		Lock        string   `json:"lock"`
		Shared      bool     `json:"shared"`
		WaitSeconds *float64 `json:"wait_seconds"`
		Why         string   `json:"why"`
	}
	if err := c.Arguments(&args); err != nil {
		return nil, err
	}
	wait, err := waitOf(args.WaitSeconds)
	if err != nil {
		return nil, err
	}
	return a.take(ctx, c, want{lock: args.Lock, shared: args.Shared, why: args.Why, wait: wait})
}

func (a *agent) lease(ctx context.Context, c *mcp.Call) (*mcp.Result, error) {
	var args struct {
		Path        string   `json:"path"`
		WaitSeconds *float64 `json:"wait_seconds"`
		Why         string   `json:"why"`
	}
	if err := c.Arguments(&args); err != nil {
		return nil, err
	}
	if args.Path == "" {
		return nil, errors.New("path is empty; give a file or a directory")
	}
	wait, err := waitOf(args.WaitSeconds)
	if err != nil {
		return nil, err
	}
	return a.take(ctx, c, want{path: args.Path, why: args.Why, wait: wait})
}

// maxWhy bounds the reason, which everybody who lists the queue reads.
const maxWhy = 1000

// taken makes a taker for a want.
func (a *agent) taken(w want, client string) (*taker, error) {
	k := &taker{
		Flags: a.Flags, target: a.target, name: w.lock, why: term.Cut(w.why, maxWhy),
		try: w.wait == 0, bounded: w.wait > 0, wait: w.wait, say: a.say,
		kind: kindFlags{shared: w.shared, layout: layoutFlag{layout.Curator}},
	}
	if err := a.who.apply(k); err != nil {
		return nil, err
	}
	if _, chosen := k.labels["agent"]; client != "" && !chosen {
		if k.labels == nil {
			k.labels = make(map[string]string)
		}
		k.labels["agent"] = term.Cut(client, 100)
	}
	if w.path != "" {
		below, err := a.leased(w.path)
		if err != nil {
			return nil, err
		}
		k.name = strings.TrimSuffix(a.tree+"/"+below, "/")
		k.kind.tree = true
	}
	path, err := a.LockPath(k.name)
	if err != nil {
		return nil, err
	}
	k.place, k.path, err = k.kind.place(k.name, path)
	return k, err
}

// take acquires a lock or a lease, and answers.
func (a *agent) take(ctx context.Context, call *mcp.Call, w want) (*mcp.Result, error) {
	k, err := a.taken(w, call.Client)
	if err != nil {
		return nil, told(err)
	}
	if own := a.conflicting(k); own != nil {
		return heldByYou(k, own), nil
	}
	if err := k.deadlock(); err != nil {
		return nil, told(err)
	}
	c, err := a.connected(ctx)
	if err != nil {
		return nil, told(err)
	}
	stop := a.report(ctx, call, k, c)
	h, err := k.enter(ctx, c, w.wait)
	stop()
	if f, ok := errors.AsType[*term.Fault](err); ok && f.Code == term.ExitBusy {
		if own := a.conflicting(k); own != nil { // another call has acquired it during the wait
			return heldByYou(k, own), nil
		}
		text := fmt.Sprintf("NOT HELD: %s. Do not start the work. Do something else, or call again to wait longer; blockers says whom the holder waits for.", term.Escape(f.Error()))
		return answer(text, map[string]any{"held": false, "lock": k.name}), nil
	}
	if err != nil {
		return nil, told(err)
	}
	mine := a.keep(k, h)
	what := map[bool]string{true: "lease", false: "lock"}[mine.lease]
	text := fmt.Sprintf("HELD: %s %s, id %s, fencing token %d. Release it with release as soon as the work is done.", what, term.Escape(k.name), mine.id, k.token(h))
	r := answer(text, map[string]any{"held": true, "id": mine.id, "lock": k.name, "token": strconv.FormatInt(k.token(h), 10)})
	r.Undo = func() {
		a.forget(mine)
		_ = h.Unlock() // if it fails, the session ends
	}
	return r, nil
}

func heldByYou(k *taker, own *agentHold) *mcp.Result {
	return answer(fmt.Sprintf("NOT HELD: you hold %s already, as id %s. If that is for the same work, go on. Otherwise release it first: your wait would never end.", term.Escape(own.name), own.id),
		map[string]any{"held": false, "own_id": own.id, "lock": k.name})
}

// reportEvery is how often a client is told about a wait. Some clients give a call up that they hear nothing of.
const reportEvery = 5 * time.Second

// report tells the client how a wait gets on, until the caller calls stop.
func (a *agent) report(ctx context.Context, call *mcp.Call, k *taker, c *conn.Connection) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for pause := term.NoticeAfter; ; pause = reportEvery {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			text := "waiting for " + term.Escape(k.name)
			for _, path := range k.paths() {
				if queue := k.blocking(path, k.look(ctx, c.Client, path)); len(queue) > 0 && !k.owns(ctx, c.Client, queue[0]) {
					text += ", held by " + holder(queue[0], time.Now())
					break
				}
			}
			if ctx.Err() == nil {
				call.Progress(text)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// conflicting returns what the agent holds that its own call would wait for. A shared lock waits for itself, too, if
// somebody else has asked for the lock in between, so it counts.
func (a *agent) conflicting(k *taker) *agentHold {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range a.holds {
		if h.path == k.path && h.lease == k.kind.tree ||
			h.lease && k.kind.tree && (within(k.below, h.below) || within(h.below, k.below)) {
			return h
		}
	}
	return nil
}
