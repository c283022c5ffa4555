package main

import (
	"context"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"holdfast"
	"holdfast/zk"
)

// auditPath is the node that keeps the audit lines of a server. It is outside the default namespace of locks. A user
// can still name a lock /holdfast/audit. That does no harm: the places of the lock are children of the node, and the
// audit lines are its data.
const (
	auditParent = "/holdfast"
	auditPath   = auditParent + "/audit"
)

// auditLines and auditBytes bound the audit. The oldest lines go first.
const (
	auditLines = 500
	auditBytes = 256 << 10 // servers refuse a node of 1 MiB
)

// auditText is the longest text of a user in an audit line, in bytes.
const auditText = 200

// An auditEntry is one audit line: what somebody has done to locks of others.
type auditEntry struct {
	ID      string       `json:"id"`
	At      time.Time    `json:"at"` // by the clock of By
	Action  string       `json:"action"`
	Session string       `json:"session,omitempty"` // of sessions end
	Places  []auditPlace `json:"places"`
	By      string       `json:"by"`
	Reason  string       `json:"reason,omitempty"`
	// Outcome is "begun" until the outcome is known, then "done" or the error.
	Outcome string `json:"outcome"`
}

// An auditPlace is a place in a queue that was taken away, or asked for.
type auditPlace struct {
	Path  string `json:"path"`
	Owner string `json:"owner"`
	Why   string `json:"why,omitempty"`
	Token string `json:"token"`
	Held  bool   `json:"held"`
}

// of adds places of the lock at path.
func (e auditEntry) of(path string, places []holdfast.Entry) auditEntry {
	for _, p := range places {
		e.Places = append(e.Places, auditPlace{cut(path, auditText), cut(p.Owner, auditText), cut(p.Reason, auditText), strconv.FormatInt(p.Token, 10), p.Held})
	}
	return e
}

// auditLog is the content of the node.
type auditLog struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"`
	Items      []auditEntry `json:"items"` // the oldest first
}

// audited does something to locks of others, and leaves an audit line: before, with the outcome "begun", and after,
// with the outcome. So a process that dies in between leaves a trace. If the line cannot be written, audited says so
// and goes on: a client that may remove a lock must be able to, also where it may not write the audit.
func (g *globals) audited(ctx context.Context, cmd *cobra.Command, c *zk.Client, e auditEntry, act func() error) error {
	e.ID, e.At, e.By, e.Outcome = crand.Text(), time.Now().UTC().Truncate(time.Millisecond), owner(), "begun"
	e.Reason = cut(e.Reason, auditText)
	before := writeAudit(ctx, c, e)
	err := act()
	e.Outcome = "done"
	if err != nil {
		e.Outcome = cut(err.Error(), auditText)
	}
	failure := before
	if before == nil {
		failure = writeAudit(ctx, c, e)
	}
	for _, p := range e.Places {
		outcome := ""
		if err != nil {
			outcome = " (failed)"
		}
		g.info(cmd, "audit: %s %s %s: %s, token %s%s", e.At.Format(time.RFC3339), escape(e.By), escape(e.Action), escape(p.Path), p.Token, outcome)
	}
	if failure != nil {
		g.warn(cmd, "the audit line is not in %s: %s", auditPath, escape(cut(failure.Error(), auditText)))
	}
	return err
}

// auditPatience limits the attempts to write an audit line.
const auditPatience = 5 * time.Second

// writeAudit writes the line, in place of an earlier line with its id.
func writeAudit(ctx context.Context, c *zk.Client, e auditEntry) error {
	ctx, cancel := context.WithTimeout(ctx, auditPatience)
	defer cancel()
	for {
		data, stat, err := c.Get(ctx, auditPath)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			if _, _, err := c.Create(ctx, auditParent, nil, zk.Persistent); err != nil && !errors.Is(err, zk.ErrNodeExists) && !zk.MayHaveHappened(err) {
				return err
			}
			if _, _, err := c.Create(ctx, auditPath, nil, zk.Persistent); err != nil && !errors.Is(err, zk.ErrNodeExists) && !zk.MayHaveHappened(err) {
				return err
			}
			continue
		case zk.SafeToRetry(err) && pause(ctx):
			continue
		case err != nil:
			return err
		}
		next, err := withAudit(data, e)
		if err != nil {
			return err
		}
		_, err = c.Set(ctx, auditPath, next, stat.Version)
		// Somebody else has written a line, or we have: a line with our id is replaced.
		if again := errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrConnectionLoss) || zk.SafeToRetry(err); !again || !pause(ctx) {
			return err
		}
	}
}

// pause waits for a short time before another attempt. It returns false if ctx has ended.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(10*time.Millisecond + rand.N(40*time.Millisecond)):
		return true
	}
}

// withAudit adds a line to the content of the node, and drops lines that are too many.
func withAudit(data []byte, e auditEntry) ([]byte, error) {
	log := auditLog{}
	if len(data) > 0 {
		if err := json.Unmarshal(data, &log); err != nil || log.Kind != "AuditLog" {
			return nil, fmt.Errorf("the node has other data, which stay")
		}
	}
	log.APIVersion, log.Kind = apiVersion, "AuditLog"
	found := false
	for i := range log.Items {
		if log.Items[i].ID == e.ID {
			log.Items[i], found = e, true
		}
	}
	if !found {
		log.Items = append(log.Items, e)
	}
	if extra := len(log.Items) - auditLines; extra > 0 {
		log.Items = log.Items[extra:]
	}
	for {
		text, err := json.Marshal(log)
		if err != nil || len(text) <= auditBytes {
			return text, err
		}
		// The oldest lines go first, and our own last: it fits once it has few places.
		i := slices.IndexFunc(log.Items, func(line auditEntry) bool { return line.ID != e.ID })
		switch ours := &log.Items[0]; {
		case i >= 0 || len(log.Items) > 1:
			log.Items = slices.Delete(log.Items, max(i, 0), max(i, 0)+1)
		case len(ours.Places) == 0:
			return nil, fmt.Errorf("the line is too long: %d bytes", len(text))
		default:
			ours.Places = ours.Places[:len(ours.Places)/2]
		}
	}
}
