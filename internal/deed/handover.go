package deed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdfast"
	"holdfast/internal/locks"
	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// A HandoverError says why a leader cannot be asked to hand over to a candidate. Nothing was done.
type HandoverError struct {
	Path string // of the election
	Why  string
}

func (e *HandoverError) Error() string { return e.Path + ": " + e.Why }

// LookHandover returns the plan to ask the leader of the election at path to hand over to the candidate with the token
// to. Candidates in between step behind it, so all of them must have a preference, which can be 0. If token is not 0,
// the error is a *ChangedError if the leader has another one. It is a *HandoverError if the candidate cannot lead next.
func LookHandover(ctx context.Context, c *zk.Client, path string, layout *locks.Layout, token, to int64) (*Plan, error) {
	spot, err := locks.At(ctx, c, path)
	if err != nil {
		return nil, err
	}
	l := spot.Lock(layout, time.Now())
	candidate := func(l locks.Lock) int {
		return slices.IndexFunc(l.Queue, func(p locks.Place) bool { return p.Token == to })
	}
	for _, other := range spot.Locks {
		if candidate(l) < 0 && candidate(other) >= 0 {
			l = other
		}
	}
	at, refuse := candidate(l), func(format string, a ...any) (*Plan, error) {
		return nil, &HandoverError{path, fmt.Sprintf(format, a...)}
	}
	switch {
	case l.Unreadable:
		return nil, fmt.Errorf("%w: the lock %s", zk.ErrNoAuth, path)
	case len(l.Queue) == 0 || !l.Queue[0].Held:
		return refuse("nobody leads")
	case token != 0 && l.Queue[0].Token != token:
		return nil, &ChangedError{path, token, l.Queue, nil}
	case at < 0:
		return refuse("nobody in line has the token %d", to)
	case at == 0:
		return refuse("the candidate with the token %d leads already", to)
	}
	if at+1 < len(l.Queue) && (names.Contender{Form: strings.TrimRight(l.Queue[at+1].Name, "0123456789")}).IsLatch() {
		return refuse("a candidate that may be a LeaderLatch of Curator is directly behind the one with the token %d, and the node ahead of a latch must not change", to)
	}
	for i := range l.Queue[:at+1] {
		p := &l.Queue[i]
		if _, ok := p.Preference(); ok {
			continue
		}
		does := "would not step behind others"
		switch i {
		case 0:
			does = "leads, and does not hand over to others"
		case at:
			does = "does not answer a leader that hands over"
		}
		return refuse("%s, token %d, %s: it is no candidate of holdfast elect or of WithPreference", name(p.Entry), p.Token, does)
	}
	return handover(path, l, at), nil
}

// handover is the plan to ask the leader to hand over to the candidate at a place of the queue.
func handover(path string, l locks.Lock, at int) *Plan {
	leader, next := l.Queue[0].Entry, l.Queue[at].Entry
	a := Action{
		Name: "revoke --to", Done: Revoking.Done,
		Does: fmt.Sprintf("It asks the leader to hand over to %s, token %d. Candidates in between step behind.", name(next), next.Token),
		apply: func(ctx context.Context, c *zk.Client, _ string, token int64) error {
			return askToHandOver(ctx, c, path, leader, next)
		},
	}
	return &Plan{Action: a, Path: path, Dir: l.Dirs[0], Token: leader.Token, Queue: l.Queue, Places: []holdfast.Entry{leader, next}}
}

// name returns how a text names a place.
func name(e holdfast.Entry) string {
	if e.Owner == "" {
		return "session " + locks.SessionText(e.Session)
	}
	return cut(e.Owner, MaxText)
}

// askToHandOver writes the request into the leader's node, if both candidates are still in line.
func askToHandOver(ctx context.Context, c *zk.Client, path string, leader, next holdfast.Entry) error {
	for {
		var data []byte
		var stat, behind zk.Stat
		var inLine bool
		err := zk.Retry(ctx, func() (err error) {
			if data, stat, err = c.Get(ctx, leader.Path); err == nil {
				behind, inLine, err = c.Exists(ctx, next.Path)
			}
			return err
		})
		switch {
		case errors.Is(err, zk.ErrNoNode), err == nil && stat.Czxid != leader.Token:
			return fmt.Errorf("%w with the token %d", holdfast.ErrNotHeld, leader.Token)
		case err != nil:
			return err
		case !inLine || behind.Czxid != next.Token:
			return &HandoverError{path, fmt.Sprintf("nobody in line has the token %d any more", next.Token)}
		case queue.IsRequest(data):
			return &HandoverError{path, "somebody has asked the leader to resign at this moment"}
		}
		_, err = c.Multi(ctx, zk.CheckOp(next.Path, zk.AnyVersion), zk.SetOp(leader.Path, queue.WithHandover(data, next.Path[strings.LastIndexByte(next.Path, '/')+1:]), stat.Version))
		// Somebody has written meanwhile, or has left; perhaps we have written. Asking twice does no harm.
		if !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrConnectionLoss) && !errors.Is(err, zk.ErrNoNode) && !zk.SafeToRetry(err) {
			return err
		}
		if !pause(ctx) {
			return err
		}
	}
}
