package mutants

// ofBoundedStore are bugs of what the server writes, holds and opens, and of its backups.
func ofBoundedStore() []mutant {
	const (
		server = "zkserver"
		tree   = "zkserver/internal/tree"
		store  = "zkserver/internal/store"
	)
	return []mutant{
		{
			number: 1020, bug: "a create writes the data of its parent", where: "ours, until b1e0e1e",
			edits: []edit{{tree + "/write.go", "\tt.touchQuietly(parent, PartChildren)\n\tt.account(n, 1,", "\tt.touch(parent, parent.parts())\n\tt.account(n, 1,"}},
			pkg:   server, tests: []string{"TestAWriteWritesWhatItChanges"},
		},
		{
			number: 1021, bug: "setACL writes the data of its node", where: "ours, until b1e0e1e",
			edits: []edit{{tree + "/acl.go", "t.touch(n, setOf(PartACL))", "t.touch(n, n.parts())"}},
			pkg:   server, tests: []string{"TestAWriteWritesWhatItChanges"},
		},
		{
			number: 1022, bug: "the ACL of a removed node stays in the store", where: "–",
			edits: []edit{{tree + "/write.go", "\tsome := n.parts()\n", "\tsome := setOf(PartNode)\n"}},
			pkg:   tree, tests: []string{"TestChangesKeepTheRecordsOfAStore"},
		},
		{
			number: 1023, bug: "the end of a session writes the data of its nodes' parents", where: "ours, until b1e0e1e",
			edits: []edit{{tree + "/write.go", "\tt.touchQuietly(parent, PartChildren)\n\tt.account(n, -1,", "\tt.touch(parent, parent.parts())\n\tt.account(n, -1,"}},
			pkg:   server, tests: []string{"TestTheEndOfASessionBelowHeavyNodesWritesLittle"},
		},
		{
			number: 1024, bug: "a full batch takes further requests", where: "ours, until b1e0e1e",
			edits: []edit{{"zkserver/turns.go", "large || s.batchFull() ||", "large ||"}},
			pkg:   server, tests: []string{"TestAFullBatchTakesNothingMore"},
		},
		{
			number: 1025, bug: "a store of format 3 forgets how many children its nodes had", where: "–",
			edits: []edit{{store + "/format3.go", "if !bytes.Equal(pzxid, czxid) || binary", "if bytes.Equal(pzxid, czxid) && binary"}},
			pkg:   server, tests: []string{"TestDirectoriesOfEveryFormatOpen"},
		},
		{
			number: 1026, bug: "a snapshot of format 3 has nodes that nobody has made", where: "ours, before it was released",
			edits: []edit{{store + "/snapshot.go", "changed || value == nil {", "changed {"}},
			pkg:   store, tests: []string{"TestEveryDamageIsDetectedOrHarmless"},
		},
		{
			number: 1027, bug: "a snapshot that cannot be made stops the server", where: "ours, until b1e0e1e",
			edits: []edit{{store + "/journal.go", "errors.Is(err, ErrDamaged), errors.Is(err, fs.ErrNotExist):", "true:"}},
			pkg:   server, tests: []string{"TestAStoreThatCannotMakeAFileTriesAgain"},
		},
		{
			number: 1028, bug: "a half-written snapshot stays until the start has written a journal", where: "ours, until b1e0e1e",
			edits: []edit{{store + "/recover.go", "\tif len(files.leftovers) > 0 {", "\tif false {"}},
			pkg:   store, tests: []string{"TestLeftoversAreRemovedBeforeAnythingElseIsWritten"},
		},
		{
			number: 1029, bug: "a copy that has lost its end is taken for whole", where: "ours, until b1e0e1e",
			edits: []edit{{store + "/copied.go", "if m.accepted || m.last <= last {", "if m != nil {"}},
			pkg:   store, tests: []string{"TestDamagedCopiesAreFound"},
		},
		{
			number: 1030, bug: "a damaged mark makes a copy an ordinary store", where: "–",
			edits: []edit{{store + "/copied.go", "\tm := parseMark(b[:n])\n\tif m == nil {", "\tm := parseMark(b[:n])\n\tif false {"}},
			pkg:   store, tests: []string{"TestDamagedCopiesAreFound"},
		},
		{
			number: 1031, bug: "a copy has bytes that no checksum covers", where: "ours, before it was released",
			edits: []edit{{store + "/check.go", "fileName(kindJournal, s.number), size)", "fileName(kindJournal, s.number), max(size, s.bytes))"}},
			pkg:   store, tests: []string{"TestDamagedCopiesAreFound"},
		},
		{
			number: 1032, bug: "sessions of a restored copy live on", where: "ours, until b1e0e1e",
			edits: []edit{{"zkserver/session.go", "\t\tcase copied:\n", "\t\tcase false:\n"}},
			pkg:   server, tests: []string{"TestTokensRiseAcrossRestores"},
		},
		{
			number: 1033, bug: "a restored copy gives out tokens again", where: "ours, until b1e0e1e",
			edits: []edit{{"zkserver/session.go", "z := init.Ceiling + o.ahead; z > o.zxid {", "z := init.Ceiling + o.ahead; z < 0 {"}},
			pkg:   server, tests: []string{"TestTokensRiseAcrossRestores"},
		},
		{
			number: 1034, bug: "a start forgets that the clock was fast", where: "–",
			edits: []edit{{"zkserver/session.go", "o.zxid > init.Ceiling+o.ahead {", "o.zxid < 0 {"}},
			pkg:   server, tests: []string{"TestTokensRiseAlthoughAClockWasFast"},
		},
		{
			number: 1035, bug: "a server does not notice that its clock was set back", where: "–",
			edits: []edit{{"zkserver/owner.go", "now > 0 && o.zxid > now+o.ahead {", "now < 0 {"}},
			pkg:   server, tests: []string{"TestTheClockIsSetBackUnderAServer"},
		},
		{
			number: 1036, bug: "a copy is served although the clock is behind it", where: "–",
			edits: []edit{{"zkserver/session.go", "copied && (init.Ceiling == 0 || now.Before(meta.Copied)) {", "copied && now.IsZero() {"}},
			pkg:   server, tests: []string{"TestACopyThatIsNewerThanTheClockIsRefused"},
		},
		{
			number: 1037, bug: "each start of a restored copy ends all sessions", where: "–",
			edits: []edit{{"zkserver/session.go", "\t\treturn s.store.Restored()\n", "\t\treturn nil\n"}},
			pkg:   server, tests: []string{"TestACopyThatIsNewerThanTheClockIsRefused"},
		},
		{
			number: 1038, bug: "silent connections keep all others out", where: "ours, until b1e0e1e",
			edits: []edit{{"zkserver/admission.go", "\t\tif !s.dropNewcomer() {", "\t\tif true {"}},
			pkg:   server, tests: []string{"TestSilentConnectionsLeaveOthersTheirFiles"},
		},
		{
			number: 1039, bug: "requests may be long before the login", where: "ours, until b1e0e1e",
			edits: []edit{{"zkserver/reader.go", "&& !c.mayBeLong() {", "&& false {"}},
			pkg:   server, tests: []string{"TestRequestsAreShortBeforeTheLogin"},
		},
		{
			number: 1040, bug: "a client that sends its login and a long request together is refused", where: "–",
			edits: []edit{{"zkserver/buffers.go", "return c.offer(ask) && c.await(answer) && admitted", "return ask == nil && c.offer(ask) && c.await(answer) && admitted"}},
			pkg:   server, tests: []string{"TestRequestsAreShortBeforeTheLogin"},
		},
		{
			number: 1041, bug: "requests that are not complete take all memory", where: "ours, until b1e0e1e",
			edits: []edit{{"zkserver/buffers.go", "if taken > 0 && taken+n > most {", "if most < 0 {"}},
			pkg:   server, tests: []string{"TestRequestsThatAreNotCompleteTakeBoundedMemory"},
		},
		{
			number: 1042, bug: "a long request may arrive as slowly as it likes", where: "ours, until b1e0e1e",
			edits: []edit{{"zkserver/reader.go", "\t\t\tc.limitSlowness(n)\n", ""}},
			pkg:   server, tests: []string{"TestRequestsThatAreNotCompleteTakeBoundedMemory"},
		},
		{
			number: 1043, bug: "the memory of a request that was cut off stays counted", where: "–",
			edits: []edit{{"zkserver/reader.go", "\tc.leaveRoom(c.reserved)\n", ""}},
			pkg:   server, tests: []string{"TestBuffersAreGivenBack"},
		},
		{
			number: 1044, bug: "setData has no bound of memory", where: "ours, until b1e0e1e",
			edits: []edit{{tree + "/write.go", "case grown > 0 && t.full(0, grown):", "case false:"}},
			pkg:   server, tests: []string{"TestNodesTakeBoundedMemory"},
		},
		{
			number: 1045, bug: "a store is copied into itself by another name of its directory", where: "ours, until b1e0e1e",
			edits: []edit{{store + "/check.go", "if os.SameFile(info, source) {", "if source != nil && info != nil && parent == dir {"}},
			pkg:   server, tests: []string{"TestBackUpRefusesItsOwnSource"},
		},
		{
			number: 1046, bug: "a backup waits for the other end of a pipe", where: "ours, until b1e0e1e",
			edits: []edit{{store + "/os.go", "err == nil && !info.IsDir() {", "err == nil && info == nil {"}},
			pkg:   store, tests: []string{"TestAPipeIsNoStore"},
		},
	}
}
