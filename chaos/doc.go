// Package chaos checks histories of locks: what clients asked for and when, what they were
// told and when, and what was done to them meanwhile.
//
// A history ([Op]) is recorded by a [Log], in one process or, as lines of JSON, in many.
// Its unit is the claim: from the moment when Lock has returned a Hold until Unlock is
// called, the Hold's Context ends, or somebody takes the lock away by force. That is what a
// program goes by, so it is what is checked; what the server thinks is another matter
// (a lock may be gone from the server while a paused holder still claims it).
//
// Three oracles read a history, each by itself:
//
//   - [Linearizable] asks Porcupine whether there is an order of the operations, in
//     agreement with their times, that a correct lock could have had: mutex with token,
//     read-write, semaphore, election. It is exact, and needs histories that can be cut
//     into pieces.
//   - [Sweep] walks once over all claims, by time: no two that exclude each other
//     overlap, permits stay within the limit, tokens grow, nobody overtakes. It is for
//     runs of any length.
//   - what the run itself can see when it is over: nodes, watches, goroutines left behind.
//     The simulation (simulation_test.go) has that.
//
// A fourth reads what a server said instead: replay_test.go replays its writes by zxid
// against a naive tree.
package chaos
