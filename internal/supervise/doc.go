// Package supervise runs a command for as long as a lock is held, and ends it before
// anybody else can have the lock.
//
//	s, err := supervise.Start(spare)   // the watchdog process; before the wait for the lock
//	defer s.Close()
//	…                                  // the lock is acquired
//	outcome, err := s.Run(command, terms)
//	…                                  // now, and not before, the lock may be released
//
// What it promises:
//
//   - When Run returns, no process of the job is left.
//   - The job is gone before the deadline of the hold: TERM when Grace is left, KILL when
//     250 ms are left. The deadline moves on while the session is proven, so it is asked
//     for again and again.
//   - After a certain loss (the node is deleted, the session has expired), the job is killed
//     at once.
//   - A command that was told to stop has lost its lock, whatever happens to the session
//     afterwards and whatever code the command exits with.
//
// # Two processes
//
// On Linux the promise outlives the process that makes it. Two processes guard the job, and
// each of them ends it when the other cannot:
//
//	supervisor          the process that holds the lock: holdfast run
//	└─ watchdog         the same binary: the job's parent, and its subreaper
//	   └─ command       the leader of a process group of its own
//	      └─ …          whatever it starts
//
// The supervisor writes the deadline into a word of memory that both processes map
// (shared_linux.go). The watchdog alone acts by it (guard.go). So:
//
//   - If the supervisor is stopped, the deadline stands still, and the watchdog ends the job
//     at the times at which it would have ended it anyway.
//   - If the supervisor dies, the watchdog sees the end of their socket and kills the job.
//   - If the watchdog dies, the supervisor sees the end of the socket. The kernel makes it
//     the parent of the job's processes, because it is a subreaper too, and it kills them.
//   - If both are stopped, a timer of the kernel continues each of them (clock_linux.go): a
//     timer's SIGCONT reaches a stopped process.
//
// If both die at the same moment, the kernel kills the command itself (PR_SET_PDEATHSIG),
// but not its descendants. If the job had a cgroup, the next watchdog in the cgroup above kills
// them before it starts its command (endOrphans). A process that is frozen (cgroup freezer, a
// debugger) or that gets no processor time can do nothing.
//
// A command is not started if the lock is lost, or about to be: supervisor and watchdog look
// at the deadline just before. A watchdog that died during the wait is replaced.
//
// The job's processes cannot leave. Where a cgroup can be made, the job runs in one, and
// cgroup.kill ends all of it at once (cgroup_linux.go). Otherwise, and always afterwards,
// the descendants are listed, frozen, killed and listed again until the kernel knows of no
// child any more (descendants_linux.go). The subreaper keeps them together, whatever they do
// with process groups and sessions. A process that has become another user can be killed only
// by root, or through the cgroup.
//
// On other systems one process guards the job: kill -9 of it leaves the job running, and
// so does stopping it. On other Unix systems, processes that have left the job's process
// group are not found; on Windows, only the command itself is ended, and without a warning.
//
// # Goroutines
//
// In the supervisor, Start begins one that reads the watchdog's messages and then reaps it. It
// ends when the watchdog has ended. In the watchdog, one reads the supervisor's messages and
// ends with the process; one starts the command and waits for processes, on a thread of
// its own, and ends when the command has exited. Each alarm has one, which ends when
// the alarm is closed. Elsewhere than on Linux, Run begins the one that waits.
package supervise
