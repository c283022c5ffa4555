package main

import (
	"time"

	"holdfast/internal/cli/job"
	"holdfast/internal/duration"
)

// An outage is a time in which no server answers, or an ensemble has no leader. These functions say which outage a command
// survives. TestCommandsSurviveTheseOutages compares them with the client.

// graceOf returns the default of --term-before.
func graceOf(timeout time.Duration) time.Duration { return min(job.DefaultGrace, timeout/3) }

// termAfter returns how long after the last proof of the session a command gets TERM, see zk.Session.Deadline.
func termAfter(timeout, grace time.Duration) time.Duration {
	return timeout - timeout/100 - min(500*time.Millisecond, timeout/10) - grace
}

// proofAge returns how old the last proof is at most while the servers answer at once. A server alone gets a ping after a sixth
// of the timeout. An ensemble proves the session with the third of three probes.
func proofAge(timeout, tick time.Duration, alone bool) time.Duration {
	if alone {
		return timeout / 6
	}
	return 3 * max(tick/2+tick/8, timeout/10)
}

// reconnect is how long the client pauses at most between two attempts to connect.
func reconnect(timeout time.Duration) time.Duration { return min(time.Second, timeout/10) * 3 / 2 }

// survives returns the longest outage that a command survives in any case, in tenths of a second. The servers refuse
// connections in it, or hold all messages up.
func survives(timeout, grace, tick time.Duration, alone bool) time.Duration {
	left := termAfter(timeout, grace) - proofAge(timeout, tick, alone) - reconnect(timeout)
	return max(0, left).Truncate(time.Second / 10)
}

// judgeOutages says which outage a command survives on this server.
func (e *examined) judgeOutages(timeout, tick time.Duration) {
	alone := e.mode == "standalone" || e.network == ""
	grace := graceOf(timeout)
	longest := survives(timeout, grace, tick, alone)
	const text = "%s: a command of run survives any outage of up to %v: without contact, it gets TERM %v after the last proof that its session lives (--term-before %v)"
	if longest < time.Second {
		e.warning("session", "give a longer --session-timeout, or a shorter --term-before", text, e.name, longest, duration.Measured(termAfter(timeout, grace)), duration.Measured(grace))
		return
	}
	e.ok("session", text, e.name, longest, duration.Measured(termAfter(timeout, grace)), duration.Measured(grace))
}
