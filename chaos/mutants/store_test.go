package mutants

// ofTheStore are bugs of the journal and its snapshots. All tests are in one package.
func ofTheStore() []mutant {
	all := []mutant{
		{
			number: 206, bug: "checksums are written and never compared", where: "–",
			edits: []edit{{"format.go", "return binary.BigEndian.Uint32(b[28:]) == sumOf(b)", "return true || binary.BigEndian.Uint32(b[28:]) == sumOf(b)"}},
			tests: []string{"TestEveryDamageIsDetectedOrHarmless", "TestATornEndIsNoDamage"},
		},
		{
			number: 207, bug: "the journals are removed before the snapshot's name is durable", where: "–",
			edits: []edit{{"journal.go", "\treturn fs.SyncDir()\n", "\tif name[len(name)-1] == 't' { // snapshot\n\t\treturn nil\n\t}\n\treturn fs.SyncDir()\n"}},
			tests: []string{"TestPowerFailsBehindEveryChange"},
		},
		{
			number: 208, bug: "a torn end is taken for damage", where: "–",
			edits: []edit{{"recover.go", "if synced >= number {", "if later > number && synced+later > 0 {"}},
			tests: []string{"TestATornEndIsNoDamage", "TestCrashImagesHaveAllThatWasAcknowledged"},
		},
		{
			number: 209, bug: "damage in the last journal is taken for a torn end", where: "–",
			edits: []edit{{"recover.go", "if synced >= number {", "if synced > later {"}},
			tests: []string{"TestDamageInTheMiddleIsDetectedWithoutTheWitness"},
		},
		{
			number: 210, bug: "the new journal relies on batches that the former process may have left in the page cache", where: "–",
			edits: []edit{{"recover.go", "\t\terr = f.Sync()\n\t}\n\treturn errors.Join(err, f.Close())", "\t}\n\treturn errors.Join(err, f.Close())"}},
			tests: []string{"TestBytesThatASyncHasDroppedAreWrittenAgain"},
		},
		{
			number: 211, bug: "what a failed sync has dropped is synced at the next start, and not written again", where: "–",
			edits: []edit{{"recover.go", "err = rewrite(f, t.from, t.to)", "err = rewrite(f, t.to, t.to)"}},
			tests: []string{"TestBytesThatASyncHasDroppedAreWrittenAgain"},
		},
		{
			number: 212, bug: "batches that were to be synced later are demanded after the machine has restarted", where: "–",
			edits: []edit{{"witness.go", "if w.boot == dir.Boot() &&", "if"}},
			tests: []string{"TestATornEndIsNoDamage"},
		},
		{
			number: 213, bug: "a start without a commit hides that the machine has restarted", where: "–",
			edits: []edit{{"journal.go", "h.boot, h.before = j.boot, before", "h.boot, h.before = j.boot, j.boot"}},
			tests: []string{"TestARestartOfTheMachineIsSaid"},
		},
		{
			number: 214, bug: "a journal is begun before the one in front of it is synced", where: "–",
			edits: []edit{{"journal.go", "\tif err := j.sync(); err != nil {\n\t\treturn errors.Join(err, next.file.Close())\n\t}\n", ""}},
			tests: []string{"TestFailedCallsLoseNothing"},
		},
		{
			number: 223, bug: "a backup does not see that the store has lost its end", where: "ours, before it was released",
			edits: []edit{{"recover.go", "\treturn j.witness.check(j.fs, j.last, name, off)", "\treturn nil"}},
			tests: []string{"TestBackUpRefusesAStoreThatHasLostItsEnd"},
		},
		{
			number: 224, bug: "a backup takes batches that are being written for damage", where: "ours, before it was released",
			edits: []edit{{"recover.go", "if err == nil && now != s.next {", "if now++; err == nil {"}},
			tests: []string{"TestBackUpOfAJournalThatGrows"},
		},
		{
			number: 243, bug: "a store writes into another directory that has got its path", where: "ours, before it was released",

			edits: []edit{{"os.go", "\tf, err := d.root.OpenFile(name, flags|noWait, 0o600)", "\tf, err := os.OpenFile(d.Path(name), flags, 0o600)"}},
			tests: []string{"TestAStoreStaysInTheDirectoryThatItHasOpened"},
		},
		{
			number: 244, bug: "a store removes files from another directory that has got its path", where: "ours, before it was released",

			edits: []edit{{"os.go", `d.failed("remove", name, d.root.Remove(name))`, "os.Remove(d.Path(name))"}},
			tests: []string{"TestAStoreStaysInTheDirectoryThatItHasOpened"},
		},
		{
			number: 245, bug: "Close waits until a snapshot has read the former one", where: "ours, before it was released",

			edits: []edit{{"snapshot.go", "\t\tif err != nil || len(b) == 0 {\n\t\t\treturn err\n\t\t}\n\t\tif err := stopped(stop); err != nil {",
				"\t\tif err != nil || len(b) == 0 {\n\t\t\treturn err\n\t\t}\n\t\tif err := stopped(stop); false {"},
			},
			tests: []string{"TestCloseStopsTheReadingForASnapshot"},
		},
	}
	for i := range all {
		all[i].pkg = "zkserver/internal/store"
		for j := range all[i].edits {
			all[i].edits[j].file = all[i].pkg + "/" + all[i].edits[j].file
		}
	}
	return all
}
