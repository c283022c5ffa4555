// Package spec says what a lock is, as a small state machine in the terms of docs/explanation/guarantees.md, and uses it twice.
//
// [Lock] is one lock as its servers see it: places that come and go, and claims of clients. Each step names the sentence
// that forbids it. [Check] applies the steps of a recorded run to it: the transactions of the servers, and what
// the clients were told. A step that the machine refuses is a violation.
//
// [Explore] has clients that follow the protocol of this project, with sessions, leases, lost answers, servers
// that lag, crashes and changes of leader. It visits every state that a few of them can reach, breadth first, and
// asks the same machine about every claim. Every rule of the protocol is a [Guard] that can be left out; the search
// then finds a violation, and prints the shortest way to it. So no rule stands here for nothing.
//
// What the exploration abstracts from:
//
//   - Time is a few ticks. A session times out after three, and a client believes in it for two. The arithmetic of
//     real deadlines (the guard, the rates of clocks, the two-back rule of zk/proof.go) is not here: a proof is a write
//     that was sent at some tick.
//   - A server that lags is an old state of the queue that its client sees until the server catches up. It can skip
//     states between the two.
//   - A client that is scheduled learns of the end of its lease within the tick. That is assumption A3 of
//     guarantees.md.
//   - Watermarks, looking ahead, the line of one client (WithLocalHandoff, WithKeep), reservations and removal by hand
//     are left out. Numbers do not wrap.
package spec
