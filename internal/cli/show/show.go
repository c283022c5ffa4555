// Package show says in words, and in JSON, who holds a lock and who waits for it.
package show

import (
	"fmt"
	"time"

	"holdfast"
	"holdfast/internal/cli/term"
	"holdfast/internal/locks"
	"holdfast/reserve"
)

// Owner returns the owner of a place and the reason, cut and escaped.
func Owner(e holdfast.Entry) string {
	s := e.Owner
	switch {
	case s == "" && e.Detached:
		s = "id " + e.ID
	case s == "":
		s = "session " + locks.SessionText(e.Session)
	}
	s = term.Escape(term.Cut(s, term.MaxCell))
	if e.Reason != "" {
		s += ` ("` + term.Escape(term.Cut(e.Reason, term.MaxCell)) + `")`
	}
	return s
}

// Session returns the session of a place. No session owns a detached lock.
func Session(e holdfast.Entry) string {
	if e.Detached {
		return "detached"
	}
	return locks.SessionText(e.Session)
}

// Holder describes the first place of a queue.
func Holder(e holdfast.Entry, now time.Time) string {
	s := Owner(e) + " for " + HeldFor(e, now)
	if how := EndOfDetached(e, now); how != "" {
		s += " (" + how + ")"
	}
	return s
}

// HeldBy says who holds a lock, or keeps it. e is the first place of its queue.
func HeldBy(e holdfast.Entry, now time.Time) string {
	if e.Kept {
		return "kept by " + Owner(e) + " for its next use"
	}
	return "held by " + Holder(e, now)
}

// ProcessGone follows the name of a client whose process has ended, although its session lasts.
const ProcessGone = ", process gone"

// Gone returns ProcessGone if it is true of the client of a place, and "" otherwise.
func Gone(p locks.Place) string {
	if p.ProcessGone() {
		return ProcessGone
	}
	return ""
}

// HeldFor returns how long a lock has been held. If the time is not known, it returns an upper bound:
// the time since the holder joined the queue.
func HeldFor(e holdfast.Entry, now time.Time) string {
	if e.HeldSince.IsZero() {
		return "≤" + term.Age(e.Since, now)
	}
	return term.Age(e.HeldSince, now)
}

// EndOfDetached says when a detached lock ends, and "" of others.
func EndOfDetached(e holdfast.Entry, now time.Time) string {
	switch {
	case !e.Detached:
		return ""
	case e.Expires.IsZero():
		return "detached, without expiry"
	case !now.Before(e.Expires):
		return "detached, expired"
	}
	return "detached, expires in " + term.Age(now, e.Expires)
}

// Reservation says until when and for whom a lock is kept.
func Reservation(r *reserve.Reservation) string {
	by := term.Cut(r.Owner, term.MaxCell)
	if by == "" {
		by = fmt.Sprintf("the holder with the token %d", r.Token)
	}
	return fmt.Sprintf("held until %s by %s (--min-hold)", r.Until.UTC().Format(time.RFC3339), by)
}

// For returns how long a holder has held the lock, or how long a waiter has waited. It is empty if the lock is only
// kept.
func For(e holdfast.Entry, now time.Time) string {
	if e.Kept {
		return ""
	}
	if e.Held {
		return HeldFor(e, now)
	}
	return term.Age(e.Since, now)
}
