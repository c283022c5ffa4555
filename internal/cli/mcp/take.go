package mcp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
)

func waitOf(seconds *float64) (time.Duration, error) {
	if seconds == nil {
		return 20 * time.Second, nil
	}
	if !(*seconds >= 0 && *seconds <= 3600) {
		return 0, fmt.Errorf("wait_seconds is %v; want 0 to 3600", *seconds)
	}
	return time.Duration(*seconds * float64(time.Second)), nil
}

func (a *agent) acquire(ctx context.Context, c *toolCall) (*toolResult, error) {
	var args struct {
		Lock        string   `json:"lock"`
		Shared      bool     `json:"shared"`
		WaitSeconds *float64 `json:"wait_seconds"`
		Why         string   `json:"why"`
	}
	if err := c.arguments(&args); err != nil {
		return nil, err
	}
	wait, err := waitOf(args.WaitSeconds)
	if err != nil {
		return nil, err
	}
	k, err := a.claimLock(args.Lock)
	if err != nil {
		return nil, told(err)
	}
	k.shared, k.why, k.wait = args.Shared, args.Why, wait
	return a.take(ctx, c, k)
}

func (a *agent) lease(ctx context.Context, c *toolCall) (*toolResult, error) {
	var args struct {
		Path        string   `json:"path"`
		WaitSeconds *float64 `json:"wait_seconds"`
		Why         string   `json:"why"`
	}
	if err := c.arguments(&args); err != nil {
		return nil, err
	}
	if args.Path == "" {
		return nil, errors.New("path is empty; give a file or a directory")
	}
	wait, err := waitOf(args.WaitSeconds)
	if err != nil {
		return nil, err
	}
	k, err := a.claimPath(args.Path)
	if err != nil {
		return nil, told(err)
	}
	k.why, k.wait = args.Why, wait
	return a.take(ctx, c, k)
}

// maxWhy bounds the reason, which everybody who lists the queue reads.
const maxWhy = 1000

// take acquires a lock or a lease, and answers.
func (a *agent) take(ctx context.Context, call *toolCall, k *claim) (*toolResult, error) {
	k.why = term.Cut(k.why, maxWhy)
	if _, chosen := k.labels["agent"]; call.client() != "" && !chosen {
		k.labels = maps.Clone(k.labels)
		if k.labels == nil {
			k.labels = make(map[string]string)
		}
		k.labels["agent"] = term.Cut(call.client(), 100)
	}
	if own := a.holds.conflicting(k); own != nil {
		return heldByYou(k, own), nil
	}
	if err := k.deadlock(); err != nil {
		return nil, told(err)
	}
	c, err := a.link.connected(ctx)
	if err != nil {
		return nil, told(err)
	}
	stop := report(ctx, call, k, c, a.holds.withToken)
	h, err := k.acquire(ctx, c)
	stop()
	if f, ok := errors.AsType[*term.Fault](err); ok && f.Code == term.ExitDeadlock {
		data := map[string]any{"held": false, "lock": k.name}
		k.stuck.answered(data, a.holds.withToken)
		return answer("NOT HELD: "+k.stuck.text(a.holds.withToken)+" This call has given up, so that the others can go on.", data), nil
	}
	if f, ok := errors.AsType[*term.Fault](err); ok && f.Code == term.ExitBusy {
		if own := a.holds.conflicting(k); own != nil { // another call has acquired it during the wait
			return heldByYou(k, own), nil
		}
		text := fmt.Sprintf("NOT HELD: %s. Do not start the work. Do something else, or call again to wait longer; blockers says whom the holder waits for.", term.Escape(f.Error()))
		if cycle := k.stuck.text(a.holds.withToken); cycle != "" {
			text = fmt.Sprintf("NOT HELD: %s. Do not start the work. %s", term.Escape(f.Error()), cycle)
		}
		data := map[string]any{"held": false, "lock": k.name}
		k.stuck.answered(data, a.holds.withToken)
		return answer(text, data), nil
	}
	if err != nil {
		return nil, told(err)
	}
	mine := a.holds.keep(k, h, call.logger(ctx))
	what := map[bool]string{true: "lease", false: "lock"}[k.isLease]
	text := fmt.Sprintf("HELD: %s %s, id %s, fencing token %d. Release it with release as soon as the work is done.", what, term.Escape(k.name), mine.id, h.Token())
	r := answer(text, map[string]any{"held": true, "id": mine.id, "lock": k.name, "token": strconv.FormatInt(h.Token(), 10)})
	r.undo = func() {
		a.holds.forget(mine)
		_ = h.Unlock() // if it fails, the session ends
	}
	return r, nil
}

func heldByYou(k *claim, own *agentHold) *toolResult {
	return answer(fmt.Sprintf("NOT HELD: you hold %s already, as id %s. If that is for the same work, go on. Otherwise release it first: your wait would never end.", term.Escape(own.name), own.id),
		map[string]any{"held": false, "own_id": own.id, "lock": k.name})
}

// reportEvery is how often a client is told about a wait. Some clients give a call up that they hear nothing of.
const reportEvery = 5 * time.Second

// report tells the client how a wait gets on, until the caller calls stop.
func report(ctx context.Context, call *toolCall, k *claim, c *conn.Connection, hold own) (stop func()) {
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
			if _, why := k.blocker(ctx, c.Client); why != "" {
				text += ", " + why
			}
			if cycle := k.stuck.text(hold); cycle != "" {
				text += ". " + cycle
			}
			if ctx.Err() == nil {
				call.progress(ctx, text)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
