// Package spec says what a lock is, as a small state machine in the terms of docs/explanation/guarantees.md, and uses it twice.
//
// [Lock] is one lock as its servers see it: places that come and go, and claims of clients. A step that breaks a promise
// is a [Refusal], which names the promise. TestSimulation in package chaos applies the transactions and the claims of its
// runs to a Lock.
//
// [Explore] has clients that follow the protocol of this project, with sessions, leases, lost answers, servers
// that lag, crashes and changes of leader. It visits every state that a few of them can reach, breadth first, and
// asks the same machine about every claim. Every rule of the protocol is a [Guard] that can be left out; the search
// then finds a violation, and prints the shortest way to it. So every rule is needed.
//
// The exploration leaves out:
//
//   - Time is a few ticks. A session times out after two (Config.Timeout), and a client believes in it for as long. The arithmetic of
//     real deadlines (the guard, the rates of clocks, the two-back rule of zk/proof.go) is not here: a proof is a write
//     that was sent at some tick.
//   - A server that lags is an old state of the queue that its client sees until the server catches up. It can skip
//     states between the two.
//   - A client that is scheduled learns of the end of its lease within the tick. That is assumption A3 of
//     guarantees.md.
//   - Watermarks, looking ahead, the line of one client (WithLocalHandoff, WithKeep) and reservations are left out.
//     Numbers do not wrap.
package spec
