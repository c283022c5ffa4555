package mutants

// ofTheRemovedDirectory are bugs of a file:// directory that is removed under its users.
func ofTheRemovedDirectory() []mutant {
	return []mutant{
		{
			number: 127, bug: "the host of a removed directory gives its path away before the holders have stopped", where: "–",
			edits: []edit{{"zklocal/host.go", "\t\ttime.Sleep(removalGrace)\n", ""}},
			pkg:   "zklocal", tests: []string{"TestTheHostOfARemovedDirectoryKeepsItsPathForAWhile"},
		},
		{
			number: 128, bug: "a directory that is made anew is hosted while the host of the removed one still ends", where: "ours, until 3a97b7e",
			edits: []edit{{"zklocal/claim_linux.go", "if !isOurs(nc.(*net.UnixConn)) {", "if isOurs(nc.(*net.UnixConn)) {"}},
			pkg:   "zklocal", tests: []string{"TestANewcomerWaitsForTheHostOfARemovedDirectory", "TestTheHostOfARemovedDirectoryKeepsItsPathForAWhile"},
		},
		{
			number: 129, bug: "a directory that is reached through a link is another one", where: "–",
			edits: []edit{{"zklocal/claim.go", "err == nil && real != dir", "err == nil && real == \"\""}},
			pkg:   "zklocal", tests: []string{"TestANewcomerWaitsForTheHostOfARemovedDirectory"},
		},
		{
			number: 130, bug: "a newcomer waits for a host whose directory is there, at the same path in another mount namespace", where: "–",
			edits: []edit{{"zklocal/claim_linux.go", "\t\tcase c.current():\n", "\t\tcase c == nil:\n"}},
			pkg:   "zklocal", tests: []string{"TestANewcomerDoesNotWaitForAHostWhoseDirectoryIsThere"},
		},
		{
			number: 131, bug: "a client without a connection goes on in the directory that was made anew", where: "ours, until 3a97b7e",
			edits: []edit{
				{"zklocal/store.go", "case before != nil && before.removed():", "case before != nil && false:"},
				{"zklocal/store.go", "defer before.watch(dialCheck, func() { cancel(before.errGone()) })()", "_ = before"},
			},
			pkg: "zklocal", tests: []string{"TestAClientWhoseDirectoryIsGoneIsToldOnceWhenItDials"},
		},
		{
			number: 132, bug: "a connection that breaks because its directory is gone is like any other", where: "ours, until 3a97b7e",
			edits: []edit{{"zklocal/identity.go", "if err != nil && c.id.removed() {", "if err != nil && false {"}},
			pkg:   "zklocal", tests: []string{"TestAConnectionBreaksWhenItsDirectoryIsGone"},
		},
		{
			number: 133, bug: "a host sees the removal of its directory at its next look only", where: "ours, until 3a97b7e",
			edits: []edit{{"zklocal/watch_linux.go", "\t\twake(w.changed)\n", ""}},
			pkg:   "zklocal", tests: []string{"TestAHostSeesItsDirectoryGoAtOnce"},
		},
		{
			number: 134, bug: "only the directory itself is watched, not those above it", where: "many a file watcher",
			edits: []edit{{"zklocal/watch_linux.go", "for ; path != filepath.Dir(path); path = filepath.Dir(path) {", "for ; path == dir; path = filepath.Dir(path) {"}},
			pkg:   "zklocal", tests: []string{"TestAHostSeesItsDirectoryGoAtOnce"},
		},
		{
			number: 135, bug: "a name that leads to another file is the same one", where: "daemons with a file of their process id",
			edits: []edit{{"zklocal/identity.go", "return os.SameFile(ours, named)", "return ours != nil && named != nil"}},
			pkg:   "zklocal", tests: []string{"TestANameLeadsToItsFileUntilItIsGone"},
		},
		{
			number: 136, bug: "a file where a directory was proves nothing", where: "ours, until 3a97b7e",
			edits: []edit{{"zklocal/identity.go", " && !errors.Is(err, syscall.ENOTDIR)", " || errors.Is(err, syscall.ENOTDIR)"}},
			pkg:   "zklocal", tests: []string{"TestANameLeadsToItsFileUntilItIsGone"},
		},
		{
			number: 137, bug: "files are made in a directory that rm -rf is just removing", where: "–",
			edits: []edit{{"zklocal/dir.go", "return err == nil && len(entries) > 0", "return err == nil && false && len(entries) > 0"}},
			pkg:   "zklocal", tests: []string{"TestADirectoryThatIsBeingRemovedIsLeftAlone"},
		},
		{
			number: 138, bug: "a client that was told of the removal makes the directory anew at once, below those that rm -rf removes next", where: "–",
			edits: []edit{{"zklocal/store.go", "return s.identity != nil && time.Since", "return s.identity == nil && time.Since"}},
			pkg:   "zklocal", tests: []string{"TestARemovedDirectoryIsNotMadeAnewAtOnce"},
		},
		{
			number: 139, bug: "a socket that was removed stays so for as long as the host lives", where: "tmux, ssh-agent; ours, until 3a97b7e",
			edits: []edit{{"zklocal/host.go", "case h.socket.reachable():", "case true:"}},
			pkg:   "zklocal", tests: []string{"TestASocketThatWasRemovedIsMadeAgain"},
		},
	}
}

// ofTheMessages are bugs of the messages and errors of a command that waits.
func ofTheMessages() []mutant {
	return []mutant{
		{
			number: 140, bug: "a wait for ever ends after one session timeout without a server", where: "ours, until 3a97b7e",
			edits: []edit{{"internal/cli/hold/acquire.go", "var patience time.Duration // for ever", "patience := k.plan.Flags.Timeout"}},
			pkg:   "internal/cli/hold", tests: []string{"TestWaitForEverOutlastsItsServers"},
		},
		{
			number: 141, bug: "--wait ends as busy though no server can be asked any more", where: "ours, until 3a97b7e",
			edits: []edit{{"internal/cli/hold/acquire.go", "case errors.Is(err, errWaitOver) && c.Contact.Lost() > 0:", "case errors.Is(err, errWaitOver) && c == nil:"}},
			pkg:   "internal/cli/hold", tests: []string{"TestBoundedWaitsForServersEnd"},
		},
		{
			number: 142, bug: "a signal waits for a server that does not answer", where: "consul #4439",
			edits: []edit{{"internal/cli/hold/acquire.go", "if c := k.contact.Load(); c == nil || c.Lost() > 0 {", "if c := k.contact.Load(); c != nil && c.Lost() < 0 {"}},
			pkg:   "internal/cli/hold", tests: []string{"TestSignalEndsAWaitForServersAtOnce"},
		},
		{
			number: 143, bug: "why no server answers is said once, and never again when the cause has changed", where: "–",
			edits: []edit{{"internal/cli/conn/contact.go", "case causes == said:", "case said != \"\":"}},
			pkg:   "internal/cli/conn", tests: []string{"TestThatNoServerAnswersIsSaid"},
		},
		{
			number: 144, bug: "that the attempt was ended by us is the cause", where: "–",
			edits: []edit{{"internal/cli/conn/contact.go", "case errors.Is(err, context.Canceled), TimedOut(err) && took < time.Second:", "case err == context.Canceled && took < 0:"}},
			pkg:   "internal/cli/conn", tests: []string{"TestThatNoServerAnswersIsSaid"},
		},
		{
			number: 145, bug: "a nested run blames the first of its locks, whichever would deadlock", where: "ours, until 3a97b7e",
			edits: []edit{{"internal/cli/hold/nested.go", "fmt.Errorf(\"%s: would deadlock: %s\", p.called(path), why)", "fmt.Errorf(\"%s: would deadlock: %s\", p.called(p.Path), why)"}},
			pkg:   "internal/cli/hold", tests: []string{"TestNestedRunsNameTheLockThatWouldDeadlock"},
		},
		{
			number: 146, bug: "a reader under a reader would deadlock, and so would the second of three permits", where: "ours, until 3a97b7e",
			edits: []edit{{"internal/cli/hold/nested.go", "\t\t\tcase theirs.Shared && ours.Shared:\n\t\t\tcase theirs.Limit > 0 && ours.Limit > 0:\n", "\t\t\tcase theirs.Limit > ours.Limit:\n"}},
			pkg:   "internal/cli/hold", tests: []string{"TestNestedRunsNameTheLockThatWouldDeadlock"},
		},
		{
			number: 147, bug: "permits that the ancestors never give back are waited for", where: "–",
			edits: []edit{{"internal/cli/hold/nested.go", "if permits > 0 && permits+ours.Permits > ours.Limit {", "if permits > ours.Limit {"}},
			pkg:   "internal/cli/hold", tests: []string{"TestNestedRunsNameTheLockThatWouldDeadlock"},
		},
		{
			number: 148, bug: "a reader under a reader waits for a writer that waits for the outer one", where: "java.util.concurrent",
			edits: []edit{{"internal/cli/hold/nested.go", "if !e.Held && !e.Shared {", "if !e.Held && e.Shared {"}},
			pkg:   "internal/cli/hold", tests: []string{"TestReaderUnderAReaderWaitsForNoWriter"},
		},
		{
			number: 149, bug: "a host that could not start is waited for in silence", where: "ours, until 3a97b7e",
			edits: []edit{{"internal/cli/host/host.go", "return errors.Is(lines.Err(), os.ErrDeadlineExceeded), \"\"", "return true, \"\""}},
			pkg:   "internal/cli/host", tests: []string{"TestWhatAHostSaysAtItsStart"},
		},
		{
			number: 150, bug: "a lock that was waited for shows the time since it was asked for", where: "ours, until 3a97b7e",
			edits: []edit{{"internal/cli/show/show.go", "return term.Age(e.HeldSince, now)", "return term.Age(e.Since, now)"}},
			pkg:   "cmd/holdfast", tests: []string{"TestHeldForIsTheTenuresTime"},
		},
		{
			number: 151, bug: "an upper bound of the time of a tenure is told as the time", where: "–",
			edits: []edit{{"internal/cli/show/show.go", "return \"≤\" + term.Age(e.Since, now)", "return term.Age(e.Since, now)"}},
			pkg:   "cmd/holdfast", tests: []string{"TestHeldForIsTheTenuresTime"},
		},
		{
			number: 152, bug: "a command runs beside a node that nobody knows", where: "ours, until 3a97b7e",
			edits: []edit{{"internal/cli/hold/view.go", "if node.Kind == \"\" {", "if node.Kind == \"?\" {"}},
			pkg:   "internal/cli/hold", tests: []string{"TestNothingRunsBesideANodeThatNobodyKnows"},
		},
		{
			number: 153, bug: "the check for unknown nodes is ignored if the lock is acquired first", where: "–",
			edits: []edit{{"internal/cli/hold/acquire.go", "if err := <-checked; err != nil {", "if err := error(nil); err != nil {"}},
			pkg:   "internal/cli/hold", tests: []string{"TestNothingRunsBesideANodeThatNobodyKnows"},
		},
		{
			number: 154, bug: "the named locks of one directory are foreign to each other", where: "–",
			edits: []edit{{"internal/queue/kind.go", "case ours || g.Beside(name):", "case ours:"}},
			tests: []string{"TestForeignNodesCanBeAskedFor"},
		},
	}
}
