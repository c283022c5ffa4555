package mutants

// ofMendedServe are those of the server's clock, of Terraform's backend, and of the page.
func ofMendedServe() []mutant {
	return []mutant{
		{
			number: 980, bug: "a waiter compares a reservation with the clock of the time when it joined the queue", where: "holdfast until b1e0e1e",
			edits: []edit{{"reserve/locker.go", "if found.Stat.Mzxid > now.zxid {", "if false {"}},
			pkg:   "reserve", tests: []string{"TestReservationIsYoungerThanTheWaiter"},
		},
		{
			number: 981, bug: "clients that try the lock wait until the server's clock has made up for a step", where: "holdfast until b1e0e1e",
			edits: []edit{{"reserve/locker.go", "\t\t\tstat, err := renew(ctx, t, found)\n", "\t\t\tstat, err := found.Stat, error(nil)\n"}},
			pkg:   "reserve", tests: []string{"TestReservationUnderAClockThatMoves", "TestReservationsUnderRandomSteps"},
		},
		{
			number: 982, bug: "a waiter that may not write the reservation gives up", where: "–",
			edits: []edit{{"reserve/locker.go", "case !errors.Is(err, zk.ErrNoAuth):\n\t\t\t\treturn nil, 0, err", "default:\n\t\t\t\treturn nil, 0, err"}},
			pkg:   "reserve", tests: []string{"TestReservationThatOthersMayNotWrite"},
		},
		{
			number: 983, bug: "a lost connection ends the wait of a waiter that begins a reservation anew", where: "–",
			edits: []edit{{"reserve/locker.go", "\terr := zk.Repeat(ctx, func() (err error) {\n\t\tres, err = p.Session.Multi(ctx, zk.CheckOp(", "\terr := zk.Retry(ctx, func() (err error) {\n\t\tres, err = p.Session.Multi(ctx, zk.CheckOp("}},
			pkg:   "reserve", tests: []string{"TestReservationBeginsAnewUnderLostConnections"},
		},
		{
			number: 984, bug: "a state without a lock is stored while somebody takes the lock", where: "holdfast until b1e0e1e",
			edits: []edit{{"terraform/versions.go", "\tif h == nil {\n\t\tif h, giveBack", "\tif false {\n\t\tif h, giveBack"}, {"terraform/versions.go", "\t\tx.needs = b.blobs.node(ws, v.Name)\n", ""}},
			pkg:   "terraform", tests: []string{"TestPostWithoutALockMeetsAHolder", "TestNobodyLocksInTheMiddleOfARequest"},
		},
		{
			number: 985, bug: "an upload whose bytes were swept becomes the present state", where: "holdfast until b1e0e1e",
			edits: []edit{{"terraform/versions.go", "\t\tx.needs = b.blobs.node(ws, v.Name)\n", ""}},
			pkg:   "terraform", tests: []string{"TestSweepUnderAClockThatMoves"},
		},
		{
			number: 986, bug: "a client that waits gets the lock of a workspace that was frozen meanwhile", where: "holdfast until b1e0e1e",
			edits: []edit{{"terraform/lock.go", "\terr = b.thawed(ctx, ws, http.StatusLocked, \"\")\n", "\terr = nil\n"}},
			pkg:   "terraform", tests: []string{"TestFreezeDuringTheWait"},
		},
		{
			number: 987, bug: "a state without a lock is stored though a run has left the workspace dirty meanwhile", where: "holdfast until b1e0e1e",
			edits: []edit{{"terraform/lock.go", "\tif err = b.open(ctx, ws, LockInfo{}); err != nil { // a run", "\tif err = ctx.Err(); err != nil { // a run"}},
			pkg:   "terraform", tests: []string{"TestPostWithoutALockFindsADirtyWorkspace"},
		},
		{
			number: 988, bug: "the login of a user lives on after the user was removed", where: "holdfast until b1e0e1e",
			edits: []edit{{"ui/access.go", "if u != nil && !u.has(l.account) {", "if u == nil && l != nil {"}},
			pkg:   "ui", tests: []string{"TestSetUsersEndsTheLoginsOfChangedUsers"},
		},
		{
			number: 989, bug: "a client whose digest is no user's stays when digest is required", where: "holdfast until b1e0e1e",
			edits: []edit{{"zkserver/internal/login/users.go", "!u.isUser(id) && !u.isSuper(id):", "!u.isUser(id) && !u.isSuper(id) && u.super == id.ID:"}},
			pkg:   "zkserver", tests: []string{"TestSetUsersDemandsARightDigest"},
		},
		{
			number: 990, bug: "a request that waits gets the lock after its credentials were removed", where: "holdfast until b1e0e1e",
			edits: []edit{{"terraform/backend.go", "\t\t\ta.cancel(errRemoved)\n", "\t\t\t_ = a.cancel\n"}},
			pkg:   "terraform", tests: []string{"TestSetCredentials"},
		},
		{
			number: 991, bug: "the page leads its user out of the path of a proxy", where: "holdfast until b1e0e1e",
			edits: []edit{{"ui/access_login.go", "here(r)+strings.TrimPrefix(target, \"/\")", "\"/\"+strings.TrimPrefix(target, \"/\")"}},
			pkg:   "ui", tests: []string{"TestPageBelowAPathOfAProxy"},
		},
		{
			number: 992, bug: "a link to the page leads to another page of its host after the login", where: "–",
			edits: []edit{{"ui/access_login.go", "slices.Contains(strings.Split(u.Path, \"/\"), \"..\")", "slices.Contains(strings.Split(u.Path, \"/\"), \"…\")"}},
			pkg:   "ui", tests: []string{"TestRedirectsStayHere"},
		},
		{
			number: 993, bug: "a detached lock lasts until the server's clock has made up for a step back", where: "holdfast until b1e0e1e",
			edits: []edit{{"internal/queue/detached.go", "stat.Mtime <= p.ctime || lasts", "stat.Mtime > 0 || lasts"}},
			tests: []string{"TestDetachedUnderAClockThatMoves"},
		},
		{
			number: 994, bug: "the expiry of a detached lock is by the clock before a step back during the wait", where: "holdfast until b1e0e1e",
			edits: []edit{{"detached.go", "expires-right > p.Session.Timeout().Milliseconds() {", "expires-right > (24*time.Hour).Milliseconds() {"}},
			tests: []string{"TestDetachedUnderAClockThatMoves"},
		},
	}
}
