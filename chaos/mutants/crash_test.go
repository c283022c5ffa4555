package mutants

// ofCrashes are bugs of sessions that end with their processes, see zkserver/bound.go.
func ofCrashes() []mutant {
	const pkg = "zklocal"
	return []mutant{
		{
			number: 1410, bug: "a session ends with its last connection, though its process lives", where: "–",
			edits: []edit{{"zkserver/bound.go", "if err := g.Wait(ctx, s.deaths.turn); err == nil {", "if err := g.Wait(ctx, s.deaths.turn); err == nil || ctx.Err() == nil || true {"},
				{"internal/proc/proc_linux.go", "\tresume, err := pause(ctx)\n", "\tif pause != nil {\n\t\treturn nil\n\t}\n\tresume, err := pause(ctx)\n"}},
			pkg: pkg, tests: []string{"TestLivingProcessKeepsItsSession"},
		},
		{
			number: 1411, bug: "the server believes a declaration that the kernel does not confirm", where: "–",
			edits: []edit{{"internal/proc/proc_linux.go", "\tif cred.Pid != id.PID {", "\tif cred.Pid != id.PID && false {"},
				{"internal/proc/proc_linux.go", "\tcase hasEnded(fd): // and", "\tcase hasEnded(fd) && false: // and"}},
			pkg: pkg, tests: []string{"TestOnlyThePeerIsBelieved", "TestRelayIsNotTheClient"},
		},
		{
			number: 1420, bug: "the server does not look whether the process of a session is dead", where: "–",
			edits: []edit{{"zkserver/bound.go", "if sess.group == nil || s.deaths.life.Err() != nil {", "if sess.group == nil || s.deaths.life.Err() == nil {"}},
			pkg:   pkg, tests: []string{"TestDeadProcessLosesItsSession"},
		},
		{
			number: 1421, bug: "a watchdog closes the session of a dead supervisor while another job of it lives", where: "–",
			edits: []edit{{"internal/supervise/kin_linux.go", "return err == nil && n == 1 && fds[0].Revents&unix.POLLHUP != 0", "return err == nil || n == 1"}},
			pkg:   "internal/supervise", tests: []string{"TestKinIsGoneWhenAllOfItIs"},
		},
		{
			number: 1422, bug: "the watchdog of a dead supervisor leaves the session to its timeout", where: "–",
			edits: []edit{{"internal/supervise/watchdog_linux.go", "\t\t\tw.will = m.text\n", "\t\t\tw.will = \"\"\n"}},
			pkg:   "cmd/holdfast", tests: []string{"TestScripts"}, args: []string{"-run=^TestScripts$/^crash_tcp$"},
		},
		{
			number: 1423, bug: "a session of a server without processes is left alone by CloseSession", where: "–",
			edits: []edit{{"zk/close_session.go", "\tif _, err := nc.Write(zkproto.EndFrame(frame, 0)); err != nil {\n\t\treturn &Error{Op: \"closeSession\", Err: err}\n\t}\n", "\tif len(frame) > 0 {\n\t\treturn nil\n\t}\n"}},
			pkg:   "zk", tests: []string{"TestCloseSessionEndsThatSessionOnly"},
		},
		{
			number: 1424, bug: "of two processes that are added at the same time, the server learns of one alone", where: "ours until 28 November",
			edits: []edit{{"zk/share.go", "\tc.sharing.Lock()\n\tdefer c.sharing.Unlock()\n", ""}},
			pkg:   "zk", tests: []string{"TestTheLastOfConcurrentSharesNamesAll"},
		},
		{
			number: 1425, bug: "a run that is killed while it waits keeps its place until the session has timed out", where: "ours until 28 November",
			edits: []edit{{"internal/cli/hold/run.go", "\t\t\tr.sup.Bequeath(c.Will(s.ID()))\n", "\t\t\t_ = s\n"}},
			pkg:   "cmd/holdfast", tests: []string{"TestScripts"}, args: []string{"-run=^TestScripts$/^crash_tcp$"},
		},
		{
			number: 1460, bug: "a watchdog takes a supervisor that has its outcome for dead, and holds up its end by a second", where: "ours until 28 November",
			edits: []edit{{"internal/supervise/supervisor_linux.go", "\ts.Bequeath(\"\")\n\ts.endWatchdog()\n", "\ts.endWatchdog()\n"}},
			pkg:   "internal/supervise", tests: []string{"TestAWillDoesNotDelayTheEnd"},
		},
		{
			number: 1412, bug: "a process that has got the id of a dead one keeps the session of that one", where: "–",
			edits: []edit{{"internal/proc/proc_linux.go", "hasEnded(fd) || err == nil && start != id.Start {", "hasEnded(fd) || err == nil && start == 0 {"}},
			pkg:   "internal/proc", tests: []string{"TestALaterProcessWithTheIDIsAnother"},
		},
		{
			number: 1413, bug: "a process is believed that has the id of another one in another namespace", where: "–",
			edits: []edit{{"internal/proc/proc_linux.go", "case g.Boot != h.Boot || g.Namespace != h.Namespace:", "case g.Boot != h.Boot:"}},
			pkg:   pkg, tests: []string{"TestOnlyThePeerIsBelieved"},
		},
		{
			number: 1414, bug: "a session ends with its first process, though another one has taken it over", where: "–",
			edits: []edit{{"zkserver/session.go", "\tif sess.timeout != timeout || !sameGroup(sess.group, group) {\n\t\tsess.timeout, sess.group = timeout, group\n", "\tif sess.timeout != timeout {\n\t\tsess.timeout = timeout\n"}},
			pkg:   pkg, tests: []string{"TestSessionThatHasMoved"},
		},
		{
			number: 1415, bug: "the next host does not know the processes of sessions", where: "–",
			edits: []edit{{"zkserver/server.go", "\t\ts.watchGroup(sess)\n", "\t\t_ = sess\n"}},
			pkg:   pkg, tests: []string{"TestNextHostEndsTheSessionsOfTheDead", "TestKilledHostsKeepTheLivingAlone"},
		},
		{
			number: 1416, bug: "a run forgets its watchdog: the next holder starts beside the dying job", where: "–",
			edits: []edit{{"internal/cli/hold/run.go", "Guard: t.Guard(t.hold.Context()), ", ""}},
			pkg:   "cmd/holdfast", tests: []string{"TestScripts"}, args: []string{"-run=^TestScripts$/^crash$"},
		},
		{
			number: 1417, bug: "a session ends with the first of its processes that dies", where: "–",
			edits: []edit{{"internal/proc/proc_linux.go", "\tfor _, id := range g.IDs {\n", "\tfor _, id := range g.IDs[:1] {\n"}},
			pkg:   pkg, tests: []string{"TestSharedSession"},
		},
		{
			number: 1418, bug: "the processes that a session is shared with are not in the store", where: "–",
			edits: []edit{{"zkserver/session.go", "\tif !sameGroup(sess.group, g) {\n\t\tsess.group = g\n\t\ts.saveSession(sess)\n", "\tif !sameGroup(sess.group, g) {\n\t\tsess.group = g\n"}},
			pkg:   pkg, tests: []string{"TestSharedSession"},
		},
		{
			number: 1419, bug: "a session that cannot be judged ends at once", where: "–",
			edits: []edit{{"zkserver/bound.go", "if err := g.Wait(ctx, s.deaths.turn); err == nil {", "if err := g.Wait(ctx, s.deaths.turn); ctx.Err() == nil {\n\t\t\t_ = err"},
				{"internal/proc/proc_linux.go", "\terr = raw.Control(func(fd uintptr) { told = g.IDs[0].isPeer(int(fd)) })\n", "\terr = raw.Control(func(fd uintptr) { told = nil })\n"},
				{"internal/proc/proc_linux.go", "\tif err := g.isHere(); err != nil {\n\t\treturn err\n\t}\n\traw, err", "\traw, err"}},
			pkg: pkg, tests: []string{"TestOtherNamespaceKeepsTheTimeout", "TestOnlyThePeerIsBelieved"},
		},
	}
}
