package mutants

// ofWatching are those of watch: what it reads while locks change, and what it may not read.
func ofWatching() []mutant {
	return []mutant{
		{
			number: 690, bug: "watch takes a permit that Curator waits for as held when it reads the tree", where: "ours, until issue 17",
			edits: []edit{{"internal/lockwatch/tree.go", "l.pend(fresh)", "_, _ = l, fresh"}},
			pkg:   "internal/lockwatch", tests: []string{"TestPendingPermitsAreNotHeld"},
		},
		{
			number: 691, bug: "watch loses a client that comes and goes while the tree is read", where: "ours, until issue 17",
			edits: []edit{{"internal/lockwatch/tree.go", "if n < 2 || !m.relevant(path)", "if n < 1<<30 || !m.relevant(path)"}},
			pkg:   "internal/lockwatch", tests: []string{"TestChangesDuringTheReadAreNotLost"},
		},
		{
			number: 692, bug: "watch keeps the former owner of a name that was given again while the tree was read", where: "ours, until issue 17",
			edits: []edit{{"internal/lockwatch/watch.go", "case created && events[a.Path] > 1 && w.model.reusable(a.Path):", "case created && events[a.Path] > 1<<30 && w.model.reusable(a.Path):"}},
			pkg:   "internal/lockwatch", tests: []string{"TestChangesDuringTheReadAreNotLost"},
		},
		{
			number: 693, bug: "watch says nothing where it may not read the locks", where: "ours, until issue 17",
			edits: []edit{{"internal/lockwatch/tree.go", "case r.Err != nil && level[i] == m.base:", "case r.Err != nil && level[i] == \"\":"}},
			pkg:   "internal/lockwatch", tests: []string{"TestWatchSaysWhatItMayNotRead"},
		},
		{
			number: 694, bug: "watch waits for the permits of each new queue anew, and falls behind", where: "ours, until issue 17",
			edits: []edit{
				{"internal/lockwatch/watch.go", "\tfor {\n\t\tfor _, a := range w.pending {\n\t\t\tif a.Err == nil && a.Type == zk.EventNodeCreated && a.Path == permits {", "\tplace.at = time.Now()\n\tfor {\n\t\tfor _, a := range w.pending {\n\t\t\tif a.Err == nil && a.Type == zk.EventNodeCreated && a.Path == permits {"},
			},
			pkg: "internal/lockwatch", tests: []string{"TestManyLocksThatMayBeTurnstiles"},
		},
		{
			number: 695, bug: "watch counts locks beside its prefix as events that it has missed", where: "ours, until issue 17",
			edits: []edit{{"internal/lockwatch/watch.go", "w.model.sibling(a.Path, a.Type == zk.EventNodeCreated)", ""}},
			pkg:   "internal/lockwatch", tests: []string{"TestSiblingsOfThePrefixAreNoGap"},
		},
		{
			number: 840, bug: "watch counts an event that came after the answer as one before it, and then misses a change", where: "ours, until issue 18",
			edits: []edit{{"internal/lockwatch/watch.go", "if events[path] == before[path] {", "if events[path] >= before[path] {"}},
			pkg:   "internal/lockwatch", tests: []string{"TestLateEventsDoNotSpoilTheCount"},
		},
		{
			number: 869, bug: "each change that the page follows costs the servers a request of its own", where: "–",
			edits: []edit{{"internal/lockwatch/mirror.go", "case <-time.After(gather):", "case <-time.After(0):"}, {"internal/lockwatch/mirror.go", "	together = 16 ", "	together = 1 "}},
			pkg:   "internal/lockwatch", tests: []string{"TestAMirrorReadsChangesTogether"},
		},
		{
			number: 870, bug: "the page reads nothing more if an answer to one request for several nodes does not come", where: "–",
			edits: []edit{{"internal/lockwatch/mirror.go", "if results == nil || slices.ContainsFunc(results, unanswered) {", "if results == nil {\n\t\t\tresults = make([]zk.Result, len(some))\n\t\t}\n\t\tif slices.ContainsFunc(results, unanswered) {"}},
			pkg:   "internal/lockwatch", tests: []string{"TestAMirrorReadsChangesTogether"},
		},
	}
}
