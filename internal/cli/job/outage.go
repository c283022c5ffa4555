package job

import "time"

// An outage is a time in which no server answers, or an ensemble has no leader. These functions say which outage a command
// survives. TestCommandsSurviveTheseOutages compares them with the client.

// GraceOf returns the default of --term-before.
func GraceOf(timeout time.Duration) time.Duration { return min(DefaultGrace, timeout/3) }

// TermAfter returns how long after the last proof of the session a command gets TERM, see zk.Session.Deadline.
func TermAfter(timeout, grace time.Duration) time.Duration {
	return timeout - timeout/100 - min(500*time.Millisecond, timeout/10) - grace
}

// proofAge returns how old the last proof is at most while the servers answer at once. A server alone gets a ping after a sixth
// of the timeout. An ensemble proves the session with the third of three probes.
func proofAge(timeout, tick time.Duration, alone bool) time.Duration {
	if alone {
		return timeout / 6
	}
	return 3 * max(tick/2+tick/8, timeout/16)
}

// reconnect is how long the client pauses at most between two attempts to connect.
func reconnect(timeout time.Duration) time.Duration { return min(time.Second, timeout/10) * 3 / 2 }

// Survives returns the longest outage that a command survives in any case, in tenths of a second. The servers refuse
// connections in it, or hold all messages up.
func Survives(timeout, grace, tick time.Duration, alone bool) time.Duration {
	left := TermAfter(timeout, grace) - proofAge(timeout, tick, alone) - reconnect(timeout)
	return max(0, left).Truncate(time.Second / 10)
}
