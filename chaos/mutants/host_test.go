package mutants

// ofTheHost are bugs of a server that shares its machine with other programs, or that serves jobs
// which did not start it.
func ofTheHost() []mutant {
	return []mutant{
		{
			number: 191, bug: "connections take the store's files", where: "ours, until 3a97b7e",
			edits: []edit{{"zkserver/files.go", ")*7/8, 1)", "), 1)"}},
			pkg:   "zkserver", tests: []string{"TestConnectionsAreForTheFilesThereAre"},
		},
		{
			number: 192, bug: "a lack of memory at accept ends the server", where: "ours, until 3a97b7e",
			edits: []edit{{"zkserver/files.go", "if slices.ContainsFunc(", "if false && slices.ContainsFunc("}},
			pkg:   "zkserver", tests: []string{"TestServeOutlivesTemporaryErrors"},
		},
		{
			number: 193, bug: "a host leaves although sessions live, and the next one gives them their whole timeout again", where: "ours, until 3a97b7e",
			edits: []edit{{"zkserver/owner.go", "if len(s.owner.sessions)+s.owner.endings > 0 {", "if len(s.owner.sessions)+s.owner.endings < 0 {"}},
			pkg:   "zkserver", tests: []string{"TestLingerEndsAnIdleServer"},
		},
		{
			number: 194, bug: "a session that lasts longer than was asked for is used all the same", where: "most clients",
			edits: []edit{{"internal/cli/conn/session.go", "timeout <= g.Timeout {", "timeout > 0 {"}},
			pkg:   "internal/cli/conn", tests: []string{"TestASessionLongerThanAskedForIsRefused"},
		},
		{
			number: 195, bug: "a directory on NFS is hosted by two machines", where: "SQLite's FAQ",
			edits: []edit{{"zklocal/dir.go", "if err := checkLocal(dir); err != nil {", "if err := checkLocal(dir); false {"}},
			pkg:   "zklocal", tests: []string{"TestADirectoryOnASharedFileSystemIsRefused"},
		},
		{
			number: 196, bug: "one thread of the host gives up the niceness of the job that started it", where: "setpriority(2) on Linux",
			edits: []edit{{"internal/cli/host/host_linux.go", "if done[tid] {", "if len(done) > 0 {"}},
			pkg:   "cmd/holdfast", tests: []string{"TestAHostHasNothingOfTheJobThatStartedIt"},
		},
		{
			number: 197, bug: "the host keeps the ulimit of the job that started it", where: "ours, until 3a97b7e",
			edits: []edit{{"internal/cli/host/host_unix.go", "range neutralLimits {", "range neutralLimits[:0] {"}},
			pkg:   "cmd/holdfast", tests: []string{"TestAHostHasNoLimitOfTheJobThatStartedIt"},
		},
	}
}
