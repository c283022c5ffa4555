package see

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/cli/term"
	"holdfast/internal/locks"
)

// A Filter is the flags of ls that choose locks and their order.
type Filter struct {
	held, waiting bool
	owner         string
	olderThan     time.Duration
	Sort          string
}

// Register gives a command the flags.
func (f *Filter) Register(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.held, "held", false, "list only locks that somebody holds or keeps")
	cmd.Flags().BoolVar(&f.waiting, "waiting", false, "list only locks that somebody waits for")
	cmd.Flags().StringVar(&f.owner, "owner", "", "list only locks that such an owner holds or waits for; * stands for any text, ? for one character, [a-z] for one of several")
	term.DurationVar(cmd.Flags(), &f.olderThan, "older-than", "", 0, "list only locks that have been held for longer; with --waiting, that somebody has waited for for longer. An upper bound (≤) counts as the time itself")
	cmd.Flags().StringVar(&f.Sort, "sort", "name", "order: name, hold (held longest first) or wait (the longest wait first)")
}

// Check refuses values that mean nothing.
func (f *Filter) Check() error {
	if _, err := path.Match(f.owner, ""); err != nil {
		return term.Usage("* is any text, ? one character, [a-z] one of several, and \\ takes the meaning from the next character",
			"--owner %q is not a pattern", term.Cut(f.owner, 100))
	}
	if f.olderThan < 0 {
		return term.Usage("give a time such as 90s or 1d", "--older-than %v is negative", f.olderThan)
	}
	if !slices.Contains([]string{"name", "hold", "wait"}, f.Sort) {
		return term.Usage("want name, hold or wait", "--sort %q is no order", term.Cut(f.Sort, 100))
	}
	return nil
}

// Apply returns the locks that the flags choose, in their order. It uses the slice.
func (f *Filter) Apply(found []Lock, now time.Time) []Lock {
	found = slices.DeleteFunc(found, func(l Lock) bool { return !f.chooses(l, now) })
	var by func(Lock) time.Duration
	switch f.Sort {
	case "hold":
		by = func(l Lock) time.Duration { return l.held(now) }
	case "wait":
		by = func(l Lock) time.Duration { return l.waited(now) }
	default: // they are sorted
		return found
	}
	slices.SortStableFunc(found, func(a, b Lock) int { return cmp.Compare(by(b), by(a)) })
	return found
}

func (f *Filter) chooses(l Lock, now time.Time) bool {
	age := l.held(now)
	if f.waiting {
		age = l.waited(now)
	}
	switch {
	case f.held && l.held(now) < 0 && l.Reserved == nil, f.waiting && l.waited(now) < 0:
		return false
	case f.olderThan > 0 && age <= f.olderThan:
		return false
	case f.owner == "":
		return true
	}
	return slices.ContainsFunc(l.Queue, func(e locks.Place) bool { return like(f.owner, e.Owner) })
}

// like reports whether text is of the pattern. A slash is a character like others.
func like(pattern, text string) bool {
	flat := strings.NewReplacer("/", "\x00")
	ok, err := path.Match(flat.Replace(pattern), flat.Replace(text))
	return ok && err == nil
}

// held returns how long the lock has been held, or at most that long if the holder does not say. It is
// negative if nobody holds or keeps the lock.
func (l *Lock) held(now time.Time) time.Duration {
	longest := time.Duration(-1)
	for _, e := range l.Queue {
		if !e.Held {
			continue
		}
		since := e.HeldSince
		if since.IsZero() {
			since = e.Since
		}
		longest = max(longest, now.Sub(since), 0)
	}
	return longest
}

// waited returns how long the longest of the waits has lasted. It is negative if nobody waits.
func (l *Lock) waited(now time.Time) time.Duration {
	longest := time.Duration(-1)
	for _, e := range l.Queue {
		if !e.Held && !e.Member {
			longest = max(longest, now.Sub(e.Since), 0)
		}
	}
	return longest
}
