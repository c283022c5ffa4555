package mutants

// ofSights are those of the commands that show locks: what they say of nodes that are odd, hidden, forged or old.
func ofSights() []mutant {
	return []mutant{
		{
			number: 730, bug: "watch takes a permit of another semaphore for that of a turn that is gone", where: "ours, until issue 17",
			edits: []edit{{"internal/lockwatch/model.go", "r != permit || of != t.lock.path {", "r != permit || of == \"\" {"}},
			pkg:   "internal/lockwatch", tests: []string{"TestAPermitBehindATurnThatIsGone"},
		},
		{
			number: 731, bug: "watch takes the permit of the first client at a turnstile for that of another one, which has left", where: "ours, until issue 17",
			edits: []edit{{"internal/lockwatch/watch.go", "t != nil && t.isFirst() && len(w.pending) > 1", "t != nil && len(w.pending) > 1"}},
			pkg:   "internal/lockwatch", tests: []string{"TestAPermitBehindATurnThatIsGone"},
		},
		{
			number: 732, bug: "watch says that a client has left where the event of its permit is missing", where: "ours, until issue 17",
			edits: []edit{{"internal/lockwatch/watch.go", "if next.Err != nil { // the event", "if next.Err != nil && w.failed != nil { // the event"}},
			pkg:   "internal/lockwatch", tests: []string{"TestATurnThatIsGoneBeforeMissedEvents"},
		},
		{
			number: 733, bug: "watch forgets the permits of a new semaphore when the connection breaks", where: "ours, until issue 17",
			edits: []edit{
				{"internal/lockwatch/watch.go", "i := w.infos[permits]", "var i info"},
				{"internal/lockwatch/tree.go", "p.info.stat.Czxid != 0 && p.info.stat.Czxid !=", "p.info.stat.Czxid !="},
			},
			pkg: "internal/lockwatch", tests: []string{"TestANewSemaphoreIsKeptOverALostConnection"},
		},
		{
			number: 734, bug: "watch guesses who holds a lock with places that it may not read", where: "ours, until issue 17",
			edits: []edit{{"internal/lockwatch/model.go", "\tif m.veils(p.lock) {", "\tif m.emit == nil {"}},
			pkg:   "internal/lockwatch", tests: []string{"TestPlacesThatMayNotBeRead"},
		},
		{
			number: 735, bug: "watch does not see that the server hides changes from it", where: "ours, until issue 17",
			edits: []edit{{"internal/lockwatch/watch.go", "case hidden > 0:", "case hidden > 1<<30:"}},
			pkg:   "internal/lockwatch", tests: []string{"TestPlacesThatMayNotBeRead"},
		},
		{
			number: 736, bug: "watch prints the token that a client has written into its node", where: "ours, until issue 17",
			edits: []edit{{"internal/lockwatch/model.go", "(p.name.Shared || detached)", "(p.name.Shared || detached || true)"}},
			pkg:   "internal/lockwatch", tests: []string{"TestATokenIsNotForged"},
		},
		{
			number: 737, bug: "graph shows a reader behind a writer twice", where: "ours, until issue 17",
			edits: []edit{{"internal/waitgraph/cycles.go", "nearest = i\n", "nearest = -1\n"}},
			pkg:   "internal/waitgraph", tests: []string{"TestAReaderWaitsOnceForTheWriterThatHoldsTheLock"},
		},
	}
}
