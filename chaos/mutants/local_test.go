package mutants

// ofTheLine are those of a lock that goroutines of one client hand on in memory
// (WithLocalHandoff), and one of what waits.
func ofTheLine() []mutant {
	return []mutant{
		{
			number: 71, simulated: true, bug: "a Semaphore's wait that is given up leaves its watches", where: "ours, until the simulation found it",
			edits: []edit{{"turnstile.go", "v.stop() // or the server keeps", "_ = v // or the server keeps"}},
			tests: []string{"TestGivenUpAcquireLeavesNoWatch"},
		},
		{
			number: 72, bug: "goroutines hand a lock on among themselves for as long as one of them waits", where: "–",
			edits: []edit{{"internal/tenure/line.go", " || q.handoffs >= t.Handoffs {", " {"}},
			tests: []string{"TestLocalHandoffsAreBounded"},
		},
		{
			number: 73, bug: "a lock that was lost is handed on", where: "–",
			edits: []edit{
				{"internal/tenure/line.go", "if t.loss != nil || !proven || ", "if t.loss == nil && !proven || "},
				{"internal/tenure/tenure.go", "\tt.loss = loss\n\tt.leaveLine()\n", "\tt.loss = loss\n"},
			},
			tests: []string{"TestALineLosesItsNode"},
		},
		{
			number: 74, bug: "a lock is handed on though somebody elsewhere has asked for it", where: "–",
			edits: []edit{{"internal/tenure/line.go", "t.revoked || ", ""}},
			tests: []string{"TestARevokedLockLeavesTheLine"},
		},
		{
			number: 75, bug: "who is first in line and gives up takes the others' place in the queue along", where: "–",
			edits: []edit{{"internal/tenure/line.go", "ctx, cancel := context.WithCancel(context.Background())", "ctx, cancel := context.WithCancel(first.Value.(*caller).ctx)"}},
			tests: []string{"TestALineOutlivesItsFirst"},
		},
		{
			number: 76, bug: "the lock is handed to a goroutine that has given up, and stays with it", where: "–",
			edits: []edit{{"internal/tenure/line.go", "\tq.waiting.Remove(w.place)\n\tw.place = nil\n\tif q", "\tw.place = nil\n\tif q"}},
			tests: []string{"TestALineThatAllHaveLeftIsGone"},
		},
		{
			number: 77, bug: "a goroutine whose turn comes as it gives up has the lock", where: "etcd #10111",
			edits: []edit{{"internal/tenure/line.go", "if t.hold != nil && ctx.Err() != nil { //", "if false { //"}},
			tests: []string{"TestWhoHasGivenUpGetsNoLock"},
		},
		{
			number: 78, bug: "goroutines of different locks stand in one line, so one is handed the other's", where: "–",
			edits: []edit{{"options.go", "\t\tpath, g.Queue, g.Mutex,", "\t\t\"\", g.Queue, g.Mutex,"}},
			tests: []string{"TestLinesOfTwoLocksDoNotMix"},
		},
		{
			number: 79, bug: "a writer that has taken the read side is handed on to the next writer", where: "–",
			edits: []edit{{"internal/tenure/tenure.go", "\tt.leaveLine()\n\tt.stepped = true\n", "\tt.stepped = true\n"}},
			tests: []string{"TestDowngradeInALine"},
		},
	}
}

// ofCauses are those of who takes the cause of its context for an answer.
func ofCauses() []mutant {
	return []mutant{
		{
			number: 86, bug: "that another lock was lost, while a MultiLock queued for the next, is taken for an empty queue", where: "ours, until the simulation found it",
			edits: []edit{{"internal/queue/find.go", "(ctx.Err() != nil || !errors.Is(err, ErrGone))", "!errors.Is(err, ErrGone)"}},
			tests: []string{"TestCauseOfTheContextIsNotTakenForAnAnswer"},
		},
		{
			number: 87, bug: "the error of another call, by which a context ended, is taken for this call's", where: "ours; whoever uses errgroup",
			edits: []edit{{"zk/errors.go", "\t\treturn &otherCall{cause}\n", "\t\treturn cause\n"}},
			pkg:   "zk", tests: []string{"TestErrorOfAnotherCallIsNotThisOnes"},
		},
	}
}

// ofTheDirectory are those of the server that processes keep in a directory (zklocal).
func ofTheDirectory() []mutant {
	return []mutant{
		{
			number: 80, bug: "who gets no answer takes a directory over, whoever has its lock", where: "daemons with a file of their process id",
			edits: []edit{{"zklocal/lock_unix.go", "errors.Is(err, syscall.EWOULDBLOCK):\n\t\t\treturn errHeld", "errors.Is(err, syscall.EWOULDBLOCK):\n\t\t\treturn nil"}},
			pkg:   "zklocal", tests: []string{"TestASecondHostIsTurnedAwayWithTheNameOfTheFirst", "TestStoresThatComeTogetherMakeOneHost"},
		},
		{
			number: 81, bug: "the socket of a host that was killed is in the way of the next", where: "–",
			edits: []edit{{"zklocal/socket.go", "\tif err := removeSocket(dir); err != nil {\n\t\treturn nil, err\n\t}\n\tpath := ", "\tpath := "}},
			pkg:   "zklocal", tests: []string{"TestTheSocketOfADeadHostIsReplaced"},
		},
		{
			number: 82, bug: "a host that ends removes the socket of its successor", where: "–",
			edits: []edit{{"zklocal/host.go", "\tif h.lock.current() {\n\t\tremoveSocket", "\tif true {\n\t\tremoveSocket"}},
			pkg:   "zklocal", tests: []string{"TestAHostWithoutItsDirectoryEndsAndLeavesItsSuccessorAlone"},
		},
		{
			number: 83, bug: "a host that ends removes its lock file, so that two can have the lock", where: "many a script with flock",
			edits: []edit{{"zklocal/host.go", "\t\tos.Remove(filepath.Join(h.dir, hostPIDName))\n", "\t\tos.Remove(filepath.Join(h.dir, hostPIDName))\n\t\tos.Remove(h.lock.f.Name())\n"}},
			pkg:   "zklocal", tests: []string{"TestAClosedHostLeavesTheDirectoryFree"},
		},
		{
			number: 84, bug: "a directory that others can enter is hosted", where: "–",
			edits: []edit{{"zklocal/dir.go", "if err := checkPrivate(dir, info); err != nil {", "if err := checkPrivate(dir, info); false {"}},
			pkg:   "zklocal", tests: []string{"TestADirectoryThatIsNotForItsOwnerOnlyIsRefused"},
		},
		{
			number: 85, bug: "everybody who finds no host starts one", where: "–",
			edits: []edit{{"zklocal/store.go", "\tdefer starting.unlock()\n\n", "\tstarting.unlock()\n\n"},
				{"zklocal/store.go", "if hosted, err := s.hosted(); hosted || err != nil {", "if hosted, err := false, error(nil); hosted || err != nil {"}},
			pkg: "zklocal", tests: []string{"TestOneAtATimeStartsAHost"},
		},
	}
}
