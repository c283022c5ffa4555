package mutants

// ofServe are bugs of the server as a process: its connections, files, limits and metrics.
func ofServe() []mutant {
	return []mutant{
		{
			number: 252, bug: "two writes over memory are mixed", where: "–",
			edits: []edit{{"zkserver/memory_conn.go", "\ts.writing.Lock()\n\tdefer s.writing.Unlock()\n", ""}},
			pkg:   "zkserver", tests: []string{"TestMemoryConnWritesAreWhole"},
		},
		{
			number: 253, bug: "a writer over memory is woken for each byte", where: "–",
			edits: []edit{{"zkserver/memory_conn.go", "s.waiting > 0 && len(s.buf)-s.off <= streamRoom/2", "s.waiting > 0"}},
			pkg:   "zkserver", tests: []string{"TestMemoryConnWakesAWriterForSubstantialRoom"},
		},
		{
			number: 254, bug: "each deadline over memory makes a timer", where: "–",
			edits: []edit{{"zkserver/memory_conn.go", "\tif d.timer != nil {\n\t\td.timer.Reset(time.Until(d.at))\n\t\treturn\n\t}", ""}},
			pkg:   "zkserver", tests: []string{"TestMemoryConnDeadlinesCostNoTimerEach"},
		},
		{
			number: 255, bug: "connections over memory need a file", where: "–",
			edits: []edit{{"zkserver/admission.go", "file && (s.filed >= s.mostConnections()", "(s.filed >= s.mostConnections()"}},
			pkg:   "zkserver", tests: []string{"TestConnectionsOverMemoryTakeNoFiles"},
		},
		{
			number: 256, bug: "files of closed connections stay counted", where: "–",
			edits: []edit{{"zkserver/admission.go", "\tif s.counted--; isFile(c.nc) {\n\t\ts.filed--\n\t}", "\ts.counted--"}},
			pkg:   "zkserver", tests: []string{"TestConnectionsOverMemoryTakeNoFiles"},
		},
		{
			number: 257, bug: "the files of other listeners are counted twice", where: "ours, before it was released",
			edits: []edit{{"zkserver/files.go", "max(s.fileRoom-int64(n), 1)", "max(s.fileRoom, 1)"}},
			pkg:   "zkserver", tests: []string{"TestFilesAreSetAsideForOtherListeners"},
		},
		{
			number: 258, bug: "each word opens files", where: "–",
			edits: []edit{{"zkserver/footprint.go", "\tif f.filesAt.IsZero() || time.Since(f.filesAt) >= footprintInterval {", "\tif true {"}},
			pkg:   "zkserver", tests: []string{"TestFootprintIsReadByOneAtATimeAndRemembered"},
		},
		{
			number: 259, bug: "words open files all at a time", where: "–",
			edits: []edit{{"zkserver/footprint.go", "\tf.mu.Lock()\n\tdefer f.mu.Unlock()\n\tif f.diskAt", "\tif f.diskAt"}},
			pkg:   "zkserver", tests: []string{"TestFootprintIsReadByOneAtATimeAndRemembered"},
		},
		{
			number: 260, bug: "dirs walks the directory each time", where: "–",
			edits: []edit{{"zkserver/words.go", "s.footprint.ofDisk(func() int64 { return dirSize(s.cfg.Dir) })", "dirSize(s.cfg.Dir)"}},
			pkg:   "zkserver", tests: []string{"TestWordsOfTheUseOfFilesAreAsOfTheLastSecond"},
		},
		{
			number: 261, bug: "new limits do not reach the tree", where: "–",
			edits: []edit{{"zkserver/set_limits.go", "\t\ts.owner.tree.Bound(s.bounds())\n", ""}},
			pkg:   "zkserver", tests: []string{"TestSetLimitsAppliesToRequestsAndToNewConnections"},
		},
		{
			number: 262, bug: "new limits reach nobody", where: "–",
			edits: []edit{{"zkserver/set_limits.go", "\t\ts.limited.Store(&l)\n", ""}},
			pkg:   "zkserver", tests: []string{"TestSetLimitsAppliesToRequestsAndToNewConnections", "TestSetLimitsBeyondTheOpenFilesIsLogged"},
		},
		{
			number: 263, bug: "requests that wait for commits are not counted", where: "–",
			edits: []edit{{"zkserver/counters.go", "\ts.counters.committed.Add(int64(requests))\n", ""}},
			pkg:   "zkserver", tests: []string{"TestStatsCount"},
		},
		{
			number: 264, bug: "complete journals are not counted", where: "–",
			edits: []edit{{"zkserver/internal/store/sizes.go", "\tfor _, s := range j.segments {\n\t\tjournals += s.bytes\n\t}\n", ""}},
			pkg:   "zkserver", tests: []string{"TestStatsTellTheSizeOfTheStore"},
		},
		{
			number: 265, bug: "a host without open files takes its socket for removed", where: "–",
			edits: []edit{{"zklocal/socket.go", "\treturn ofSystem && !errors", "\treturn false && ofSystem && !errors"}},
			pkg:   "zklocal", tests: []string{"TestASocketIsReachableUnlessItIsGone"},
		},
		{
			number: 266, bug: "a lack of memory ends --admin", where: "–",
			edits: []edit{{"internal/daemon/listener.go", "\t\tif !zkserver.Passing(err) {", "\t\tif !zkserver.Passing(err) || true {"}},
			pkg:   "internal/daemon", tests: []string{"TestABoundedListenerWaitsForMemoryAndFiles"},
		},
		{
			number: 267, bug: "buckets are not cumulative", where: "–",
			edits: []edit{{"internal/daemon/exposition.go", "\t\tbelow += counts[i]", "\t\tbelow = counts[i]"}},
			pkg:   "internal/daemon", tests: []string{"TestMetricsShowEveryStatistic"},
		},
		{
			number: 268, bug: "labels are not escaped", where: "–",
			edits: []edit{{"internal/daemon/exposition.go", "labelEscapes.Replace(labels[1])", "labels[1]"}},
			pkg:   "internal/daemon", tests: []string{"TestLabelsAreEscaped"},
		},
		{
			number: 867, bug: "every user may connect to a socket that is for a group", where: "–",
			edits: []edit{{"internal/cli/serve/listen.go", "return os.Chmod(socket, 0o660)", "return os.Chmod(socket, 0o666)"}},
			pkg:   "internal/cli/serve", tests: []string{"TestSocketIsForAGroup"},
		},
		{
			number: 868, bug: "a socket is for the group that it happens to be made with", where: "–",
			edits: []edit{{"internal/cli/serve/listen.go", "if err := os.Lchown(socket, -1, gid); err != nil {", "if err := os.Lchown(socket, -1, -1); err != nil {"}},
			pkg:   "internal/cli/serve", tests: []string{"TestSocketIsForAGroup"},
		},
		{
			number: 875, bug: "the socket of a busy server is replaced", where: "ours until 27 November",
			edits: []edit{{"internal/cli/serve/listen.go", "!errors.Is(err, syscall.ECONNREFUSED) {", "errors.Is(err, syscall.EPIPE) {"}},
			pkg:   "internal/cli/serve", tests: []string{"TestABusySocketIsNotReplaced"},
		},
		{
			number: 877, bug: "a user who may not connect to the socket of the server waits for ever", where: "ours until 27 November",
			edits: []edit{{"internal/cli/conn/config_unix.go", "unix.Access(path, unix.W_OK)", "unix.Access(\"/\", unix.F_OK)"}},
			pkg:   "cmd/holdfast", tests: []string{"TestASocketOfOthersIsNoServerToWaitFor"},
		},
		{
			number: 876, bug: "with umask 0, another user connects to a socket before its mode is set", where: "ours until 27 November",
			edits: []edit{{"internal/cli/serve/listen_unix.go", "syscall.Umask(0o077)", "syscall.Umask(0)"}},
			pkg:   "cmd/holdfast", tests: []string{"TestSocketIsPrivateFromTheFirstMoment"},
		},
	}
}
