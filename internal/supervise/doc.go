// Package supervise runs a command while a lock is held, and ends it before another client can
// acquire the lock.
//
//	s, err := supervise.Start(spare)   // the watchdog process; before the wait for the lock
//	defer s.Close()
//	…                                  // the lock is acquired
//	outcome, err := s.Run(command, terms)
//	…                                  // only now may the lock be released
//	s.Released()                       // until then, the watchdog carries out Terms.Will if this process dies
//
// What it promises:
//
//   - When Run returns, no process of the job is left, unless the Ending ignores leftovers.
//   - The job is gone before the deadline of the hold: TERM when Grace is left, KILL when
//     250 ms are left. The deadline moves on while the session is proven, so it is asked
//     for again and again.
//   - The job's processes have a descriptor that ends when the job is asked to stop because
//     of the lock, and when the guards are gone (lost_unix.go).
//   - After a certain loss (the node is deleted, the session has expired), the job is killed
//     at once.
//   - A command that was told to stop has lost its lock, whatever happens to the session
//     afterwards and whatever code the command exits with.
//
// An Ending with another OnLost than LostKills gives up the second and the fourth promise: the job goes on, also when
// the supervisor dies.
//
// # Two processes
//
// On Linux the promise survives the death of the process that makes it. Two processes guard the
// job, and each ends it if the other cannot:
//
//	supervisor          the process that holds the lock: holdfast run
//	└─ watchdog         the same binary: the job's parent, and its subreaper
//	   └─ command       the leader of a process group of its own
//	      └─ …          its descendants
//
// The supervisor writes the deadline into a word of memory that both processes map
// (shared_linux.go). Only the watchdog acts on it (guard.go). So:
//
//   - If the supervisor is stopped, the deadline stands still, and the watchdog ends the job
//     at the times at which it would have ended it anyway.
//   - If the supervisor dies, the watchdog sees the end of their socket and kills the job.
//   - If the watchdog dies, the supervisor sees the end of the socket. The kernel makes it
//     the parent of the job's processes, because it is a subreaper too, and it kills them.
//   - If both are stopped, a timer of the kernel continues each of them (clock_linux.go): a
//     timer's SIGCONT reaches a stopped process.
//
// When the supervisor is dead, its session must not end before the job, or the next client starts beside it. The
// watchdog ends after the job. On a Unix socket, the server waits for the watchdog's end and then ends the session
// (Terms.Guard, zkserver/bound.go). Elsewhere, the session has its timeout, and the last watchdog of the dead process
// closes it earlier (Terms.Will, kin_linux.go).
//
// If both die at the same moment, the kernel kills the command itself (PR_SET_PDEATHSIG), but
// not its descendants. If the job had a cgroup, the next watchdog in the parent cgroup kills
// them before it starts its command (endOrphans). A watchdog that lives is known by its lock on the
// cgroup, also from other namespaces. A process that is frozen (cgroup freezer, a
// debugger) or that gets no processor time cannot act.
//
// A process can have several supervisors, each with its own watchdog and command. A supervisor that
// ends its job without its watchdog spares the other watchdogs of this process, and their jobs.
//
// A command does not start if the lock is lost or about to be: supervisor and watchdog check
// the deadline just before. A watchdog that died during the wait for the lock is replaced.
//
// The job's processes cannot leave. If the watchdog can make a cgroup, the job runs in it, and
// cgroup.kill ends all of it at once (cgroup_linux.go). Without a cgroup, and as a second step
// with one, the watchdog lists the descendants, freezes and kills them, and repeats that until
// the kernel knows of no child (descendants_linux.go). The subreaper keeps the descendants
// together, whatever they do with process groups and sessions. Only root, or the cgroup, can
// kill a process that has become another user. A process gets signals by a descriptor (pidfd), so
// another one that has got its number since gets none.
//
// On other systems one process guards the job: if it is stopped or killed by kill -9, the job
// goes on. On other Unix systems, processes that have left the job's process group are not
// found. On Windows, only the command itself is ended, and without a warning.
//
// # Terminals and signals
//
// The command has a process group of its own. At a terminal, it gets the foreground at once, or when
// it asks for it, if others in the caller's group may need the terminal (terminal_unix.go). Then the keys
// of the terminal, ctrl-C and ctrl-\, reach the command's group alone. But a script around this process
// needs them, too, to end as it would without this process. So the watchdog is in the command's group
// while there is a terminal. It sees the keys, and the supervisor sends them to its own group. If the key has
// killed the command, the supervisor ends by the same signal: see [Die].
//
// When the watchdog sends a signal to that group, it leaves the group first. The two guards are never in one
// group, so a KILL to a group ends one of them at most.
//
// The command ignores the signals that the caller ignores (ignored_linux.go).
//
// # Goroutines
//
// In the supervisor, Start starts one goroutine. It reads the watchdog's messages, reaps the
// watchdog, and then ends. In the watchdog, one goroutine reads the supervisor's messages and
// ends with the process. Another starts the command and waits for processes, on a thread of its
// own, until the command has exited. Another relays the keys of a terminal, until the process ends. Each
// alarm has one goroutine until it is closed. On other systems, Run starts the goroutine that waits. Notify
// starts one that relays signals until its stop is called.
package supervise
