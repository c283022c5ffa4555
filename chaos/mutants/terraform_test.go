package mutants

// ofTerraform are those of the backend for Terraform and OpenTofu.
func ofTerraform() []mutant {
	all := []mutant{
		{
			number: 820, bug: "a client whose LOCK was executed, and whose answer was lost, is refused its own lock", where: "–",
			edits: []edit{{"terraform/lock.go", "case h != nil && h.info.ID == info.ID && b.granting(path, h):", "case false:"}},
			tests: []string{"TestRepeatedRequests"},
		},
		{
			number: 821, bug: "UNLOCK of a free lock is an error, so a client whose answer was lost fails", where: "nimbolus/terraform-backend",
			edits: []edit{{"terraform/lock.go", "case h == nil:\n\t\tw.WriteHeader(http.StatusOK)", "case h == nil:\n\t\tw.WriteHeader(http.StatusBadRequest)"}},
			tests: []string{"TestRepeatedRequests"},
		},
		{
			number: 822, bug: "a lock is granted to a client that has died while it waited", where: "–",
			edits: []edit{{"terraform/backend.go", "return context.WithTimeout(r.Context(), d)", "return context.WithTimeout(context.WithoutCancel(r.Context()), d)"}},
			tests: []string{"TestDeadWaiterGetsNoLock"},
		},
		{
			number: 823, bug: "no request is held open, so a handoff takes as long as the clients' pause", where: "nimbolus/terraform-backend, plumber-cd/terraform-backend-git, GitLab",
			edits: []edit{{"terraform/lock.go", "if !first {", "if false {"}},
			tests: []string{"TestLaterRequestsWaitForTheirTurn"},
		},
		{
			number: 824, bug: "the last of those that wait is granted the lock first", where: "–",
			edits: []edit{{"terraform/line.go", "for _, w := range ln.waiters {\n\t\tif w.request != nil && w.request.waits {", "for _, w := range slices.Backward(ln.waiters) {\n\t\tif w.request != nil && w.request.waits {"}},
			tests: []string{"TestLaterRequestsWaitForTheirTurn"},
		},
		{
			number: 825, bug: "a state is stored although its lock was taken away meanwhile", where: "–",
			edits: []edit{{"terraform/versions.go", "ops = append(ops, h.check())", "_ = h.check()"}},
			tests: []string{"TestLockLostDuringPost"},
		},
		{
			number: 826, bug: "nothing tells of an upload that was cut off", where: "nimbolus/terraform-backend, plumber-cd/terraform-backend-git, GitLab",
			edits: []edit{{"terraform/state.go", "if h != nil {\n\t\tb.remember(", "if h != nil && id == \"\" {\n\t\tb.remember("}},
			tests: []string{"TestClientKilledDuringPost"},
		},
		{
			number: 827, bug: "the next run plans on the old state after a state was refused", where: "nimbolus/terraform-backend, plumber-cd/terraform-backend-git, GitLab",
			edits: []edit{{"terraform/dirty.go", "return err423(u, ws)", "_ = err423(u, ws)"}},
			tests: []string{"TestRefusedStateKeepsOthersOut", "TestStateOfALostLock"},
		},
		{
			number: 828, bug: "an older state replaces a newer one", where: "–",
			edits: []edit{{"terraform/state.go", "case next.Serial < now.Serial:", "case next.Serial < 0:"}},
			tests: []string{"TestBadStatesAreRefused"},
		},
		{
			number: 829, bug: "every UNLOCK without an id unlocks, whatever the settings", where: "hashicorp/terraform#28421",
			edits: []edit{{"terraform/lock.go", "case id == \"\" && b.cfg.RefuseForceUnlock:", "case id == \"\" && false:"}},
			tests: []string{"TestForceUnlock"},
		},
		{
			number: 830, bug: "a frozen workspace can be locked", where: "–",
			edits: []edit{{"terraform/dirty.go", "http.StatusLocked, info.ID); err != nil {", "http.StatusLocked, info.ID); err != nil && false {"}},
			tests: []string{"TestFreeze"},
		},
		{
			number: 831, bug: "a state is one node, so those above 1 MB are refused", where: "ZooKeeper's jute.maxbuffer",
			edits: []edit{{"terraform/blobs.go", "const pieceBytes = 512 << 10", "const pieceBytes = 512 << 20"}},
			tests: []string{"TestLargeState"},
		},
		{
			number: 832, bug: "the bytes of an upload that is still running are swept", where: "–",
			edits: []edit{{"terraform/versions.go", "ok || old <= leftoverAge", "ok || old < 0"}},
			tests: []string{"TestLeftoversAreSwept"},
		},
		{
			number: 833, bug: "a transaction whose answer was lost counts as failed, and the bytes of the stored version are removed", where: "–",
			edits: []edit{{"terraform/versions.go", "if at, ok := x.find(v.Name); ok {", "if at, ok := x.find(v.Name); ok && false {"}},
			tests: []string{"TestConnectionsLostInEveryStep"},
		},
		{
			number: 834, bug: "the gateway of one run does not tell until when its lock is proven", where: "–",
			edits: []edit{{"terraform/ephemeral.go", "d.Before(first) {", "d.Before(first) && false {"}},
			tests: []string{"TestEphemeralLockIsLost"},
		},
		{
			number: 835, bug: "one of several secrets is enough: the password of another user", where: "–",
			edits: []edit{{"internal/htpasswd/users.go", "\ta := u.all[name]\n\tif a == nil {\n\t\treturn User{}, false\n\t}\n\tknown, proof := a.proof.Load(), prove(name, password)", "\ta := u.all[name]\n\tif a == nil {\n\t\treturn User{}, false\n\t}\n\tknown, proof := a.proof.Load(), prove(name, password)\n\tfor _, other := range u.all {\n\t\tif p := other.proof.Load(); p != nil && *p == prove(other.Name, password) {\n\t\t\treturn a.User, true\n\t\t}\n\t}"}},
			tests: []string{"TestCredentials"},
		},
		{
			number: 836, bug: "files of others in --state-dir are swept", where: "ours, until a reader found it",
			edits: []edit{{"terraform/blobs.go", "err == nil && unfinished.MatchString(e.Name()) {", "err == nil && e.Name()[0] == 'v' {"}},
			tests: []string{"TestStateDirKeepsFilesOfOthers"},
		},
		{
			number: 837, bug: "a POST that fails long after its repetition has stored the state locks everybody out", where: "ours, until a reader found it",
			edits: []edit{{"terraform/state.go", "if h == nil || b.storedSince(ws, h.info.ID, began) {", "if h == nil {"}},
			tests: []string{"TestLateFailureOfARepeatedPost"},
		},
		{
			number: 838, bug: "a client is told that it holds the lock while it may still be given up", where: "ours, until a reader found it",
			edits: []edit{{"terraform/lock.go", "h.info.ID == info.ID && b.granting(path, h):", "h.info.ID == info.ID:"}},
			tests: []string{"TestAPlaceInTheQueueIsNoLock"},
		},
		{
			number: 839, bug: "the next run plans on the old state of a run that died with its gateway", where: "ours, until a reader found it",
			edits: []edit{{"terraform/ephemeral.go", "if !b.cfg.LocksOnly && h.info.Operation != statePlan && h.info.Operation != withoutLock {", "if false {"}},
			tests: []string{"TestEphemeralLockEndsWithTheBackend"},
		},
		{
			number: 851, bug: "a run that unlocks while its POST cannot begin leaves the next run without a word", where: "ours until 26 November",
			edits: []edit{{"terraform/state.go", "\t\tb.remember(b.LockPath(ws)+\" \"+id, notArrived) // UNLOCK", "\t\t// UNLOCK"}},
			tests: []string{"TestUnlockBeforePostHasBegun"},
		},
		{
			number: 1101, bug: "a crowd without a login takes all connections", where: "holdfast until b1e0e1e",
			edits: []edit{{"internal/daemon/admission.go", "if len(l.newcomers) > l.room {", "if len(l.newcomers) > 4*l.room {"}},
			pkg:   "internal/daemon", tests: []string{"TestNewcomersHaveAQuarterOfTheConnections"},
		},
		{
			number: 1102, bug: "a crowd from one address takes the place of a newcomer from another", where: "–",
			edits: []edit{{"internal/daemon/admission.go", "if count[c.network] > count[least.network] {", "if count[c.network] > len(l.newcomers) {"}},
			pkg:   "internal/daemon", tests: []string{"TestNewcomersHaveAQuarterOfTheConnections"},
		},
		{
			number: 1103, bug: "a user who has logged in before waits for the hashes of a guesser", where: "–",
			edits: []edit{{"internal/htpasswd/gate.go", "\tif user, ok := u.proven(name, password); ok {\n\t\tattempt", "\tif user, ok := u.proven(name, password); ok && false {\n\t\tattempt"}},
			pkg:   "internal/htpasswd", tests: []string{"TestProvenPasswordsDoNotWaitForGuesses"},
		},
		{
			number: 1104, bug: "the right password of the old line is right for the new one", where: "–",
			edits: []edit{{"internal/htpasswd/users.go", "before != nil && before.User == a.User {", "before != nil {"}},
			pkg:   "internal/htpasswd", tests: []string{"TestProvenPasswordsDoNotWaitForGuesses"},
		},
		{
			number: 1105, bug: "guesses at the backend need not wait", where: "holdfast until b1e0e1e",
			edits: []edit{{"terraform/auth.go", "gate.Check(ctx,", "htpasswd.NewGate().Check(ctx,"}},
			tests: []string{"TestGuessesHaveToWait"},
		},
	}
	for i := range all {
		if all[i].pkg == "" {
			all[i].pkg = "terraform"
		}
	}
	return all
}
