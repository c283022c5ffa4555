// Package chaos checks histories of locks: the requests of clients, the answers that they got,
// and the faults meanwhile, all with their times.
//
// A [Log] records a history of [Op], in one process or, as lines of JSON, in many. The unit of
// a history is the claim. A claim begins when Lock has returned a Hold. It ends when Unlock is
// called, the Hold's Context ends, or the lock is taken away by force. Programs rely on the
// claim, so the claim is checked, not the state of the server: a lock may be gone from the
// server while a paused holder still claims it.
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
// A fourth oracle reads the server's answers instead: replay_test.go replays the server's
// writes by zxid against a naive tree.
package chaos
