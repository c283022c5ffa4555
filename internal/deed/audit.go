package deed

import (
	"context"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdfast"
	"holdfast/zk"
)

// Path is the node that keeps the audit lines of a server. It is outside the default namespace of locks. A user
// can still name a lock /holdfast/audit. That does no harm: the places of the lock are children of the node, and the
// audit lines are its data.
const (
	Path   = parent + "/audit"
	parent = "/holdfast"
)

// Lines and maxBytes bound the audit. The oldest lines go first.
const (
	Lines    = 500
	maxBytes = 256 << 10 // servers refuse a node of 1 MiB
)

// MaxText is the longest text of a user in an audit line, in bytes. Longer ones are cut.
const MaxText = 200

// logKind and apiVersion are in the JSON text of the node.
const (
	logKind    = "AuditLog"
	apiVersion = "holdfast/v1"
)

// By says who does a deed, and why.
type By struct {
	Name   string // USER@HOST:PID for a command, the login for the page
	Remote string // address from which the page was asked; "" for a command
	Reason string
}

// An Entry is one audit line: what somebody has done to locks of others.
type Entry struct {
	ID      string    `json:"id"`
	At      time.Time `json:"at"` // by the clock of By
	Action  string    `json:"action"`
	Session string    `json:"session,omitempty"` // of sessions end
	Places  []Place   `json:"places"`
	By      string    `json:"by"`
	Remote  string    `json:"remote,omitempty"` // address of By, if By used the page
	Reason  string    `json:"reason,omitempty"`
	// Outcome is "begun" until the outcome is known, then "done" or the error.
	Outcome string `json:"outcome"`
}

// A Place is a place in a queue that was taken away, or asked for.
type Place struct {
	Path  string `json:"path"`
	Owner string `json:"owner"`
	Why   string `json:"why,omitempty"`
	Token string `json:"token"`
	Held  bool   `json:"held"`
}

// Of returns e with places of the lock at path added. Long texts are cut.
func (e Entry) Of(path string, places ...holdfast.Entry) Entry {
	for _, p := range places {
		e.Places = append(e.Places, Place{cut(path, MaxText), cut(p.Owner, MaxText), cut(p.Reason, MaxText), strconv.FormatInt(p.Token, 10), p.Held})
	}
	return e
}

// A Log is the content of the node.
type Log struct {
	APIVersion string  `json:"apiVersion"`
	Kind       string  `json:"kind"`
	Items      []Entry `json:"items"` // the oldest first
}

// ParseLog reads the content of the node. An empty node has no lines.
func ParseLog(data []byte) (Log, error) {
	var log Log
	if len(data) == 0 {
		return Log{APIVersion: apiVersion, Kind: logKind}, nil
	}
	if json.Unmarshal(data, &log) != nil || log.Kind != logKind {
		return Log{}, errors.New("the node has other data")
	}
	return log, nil
}

// A Record is what is left of a deed.
type Record struct {
	Entry
	Missing error // why the line is not in the audit; nil if it is
}

// Audited does something to locks of others, and leaves an audit line: before, with the outcome "begun", and after,
// with the outcome. So a process that dies in between leaves a trace. If the line cannot be written, Audited goes on
// and says so in the Record: a client that may remove a lock must be able to, also where it may not write the audit.
// The error is that of act.
func Audited(ctx context.Context, c *zk.Client, e Entry, by By, act func() error) (Record, error) {
	e.ID, e.At, e.By, e.Remote, e.Outcome = crand.Text(), time.Now().UTC().Truncate(time.Millisecond), cut(by.Name, MaxText), cut(by.Remote, MaxText), "begun"
	e.Reason = cut(by.Reason, MaxText)
	missing := write(ctx, c, e)
	err := act()
	e.Outcome = "done"
	if err != nil {
		e.Outcome = cut(err.Error(), MaxText)
	}
	if missing == nil {
		missing = write(context.WithoutCancel(ctx), c, e) // the outcome is known, also if the user has left
	}
	return Record{e, missing}, err
}

// patience limits the attempts to write an audit line.
const patience = 5 * time.Second

// write writes the line, in place of an earlier line with its id.
func write(ctx context.Context, c *zk.Client, e Entry) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		var data []byte
		var stat zk.Stat
		err := zk.Retry(ctx, func() (err error) {
			data, stat, err = c.Get(ctx, Path)
			return err
		})
		switch {
		case errors.Is(err, zk.ErrNoNode):
			if err := c.CreateAll(ctx, Path); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		next, err := withLine(data, e)
		if err != nil {
			return err
		}
		_, err = c.Set(ctx, Path, next, stat.Version)
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

// withLine adds a line to the content of the node, and drops lines that are too many.
func withLine(data []byte, e Entry) ([]byte, error) {
	log, err := ParseLog(data)
	if err != nil {
		return nil, fmt.Errorf("%w, which stay", err)
	}
	log.APIVersion = apiVersion
	found := false
	for i := range log.Items {
		if log.Items[i].ID == e.ID {
			log.Items[i], found = e, true
		}
	}
	if !found {
		log.Items = append(log.Items, e)
	}
	if extra := len(log.Items) - Lines; extra > 0 {
		log.Items = log.Items[extra:]
	}
	for {
		text, err := json.Marshal(log)
		if err != nil || len(text) <= maxBytes {
			return text, err
		}
		// The oldest lines go first, and our own last: it fits once it has few places.
		i := slices.IndexFunc(log.Items, func(line Entry) bool { return line.ID != e.ID })
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

// cut shortens text to at most n bytes.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}
