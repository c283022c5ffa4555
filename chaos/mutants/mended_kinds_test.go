package mutants

// ofMendedKinds are those of two kinds of lock at one name, of the stored numbers, and of names without an id.
func ofMendedKinds() []mutant {
	return []mutant{
		{
			number: 920, bug: "a lock does not look for a tree of its name", where: "ours, until issue 36",
			edits: []edit{{"internal/queue/kind.go", "{Once, onceIn}, {Tree, treeIn},", "{Once, onceIn},"}},
			tests: []string{"TestKindsUnderOneNameExcludeOrRefuse", "TestErrKindSaysWhatIsWrong"},
		},
		{
			number: 921, bug: "a lock does not look for trees above it", where: "ours, until issue 36",
			edits: []edit{{"internal/queue/around.go", "if around.results[i].Stat.NumChildren == 0 {", "if around.results[i].Stat.NumChildren >= 0 {"}},
			tests: []string{"TestKindsUnderOneNameExcludeOrRefuse", "TestCrowdSeesATreeAbove"},
		},
		{
			number: 922, bug: "places that share their lists do not look for trees above them", where: "–",
			edits: []edit{{"internal/queue/shared_list.go", "looks, through = looks || !p.onlyKind, p", "looks, through = true, p"}, {"internal/queue/shared_list.go", "\tif looks && l.err == nil && l.kind == nil {\n", "\tif !looks && l.err == nil && l.kind == nil {\n"}},
			tests: []string{"TestCrowdSeesATreeAbove"},
		},
		{
			number: 923, bug: "a NodeLock does not look for trees above it", where: "ours, until issue 36",
			edits: []edit{{"nodelock.go", "if err := l.lock.CheckAround(ctx, p.Session, around); err != nil {", "if around == nil && l.lock.CheckAround(ctx, p.Session, nil) != nil {\n\t\tvar err error"}},
			tests: []string{"TestKindsUnderOneNameExcludeOrRefuse"},
		},
		{
			number: 924, bug: "a tree does not look for other kinds at its path", where: "ours, until issue 36",
			edits: []edit{{"internal/queue/around.go", "\terr := q.CheckKind(ctx, listed)\n\t// A lock", "\tvar err error\n\tif q.Kind != Tree {\n\t\terr = q.CheckKind(ctx, listed)\n\t}\n\t// A lock"}, {"internal/queue/around.go", "level = append(level, dir+\"/\"+name)", "if dir != q.Path || !names.Numbered(name) {\n\t\t\t\t\tlevel = append(level, dir+\"/\"+name)\n\t\t\t\t}"}},
			tests: []string{"TestKindsUnderOneNameExcludeOrRefuse"},
		},
		{
			number: 925, bug: "a tree does not look for locks below its path", where: "ours, until issue 36",
			edits: []edit{{"internal/queue/around.go", "if err == nil && q.Kind == Tree {", "if err == nil && q.Kind == Tree && len(listed) == 0 {"}},
			tests: []string{"TestKindsUnderOneNameExcludeOrRefuse", "TestTreeSeesALockThatChangesItsNode", "TestLookBelowATreeIsBounded"},
		},
		{
			number: 926, bug: "a tree looks for permits before it looks at the turnstile", where: "–",
			edits: []edit{{"internal/queue/around.go", "return slices.Concat(sorted, permits, rest), named", "return slices.Concat(permits, rest, sorted), named"}},
			tests: []string{"TestTreeSeesALockThatChangesItsNode"},
		},
		{
			number: 927, bug: "a tree believes that a place that has gone was not replaced", where: "–",
			edits: []edit{{"internal/queue/around.go", "level = append(level, placesAfter(node[:cut])...)", "continue"}},
			tests: []string{"TestTreeSeesALockThatChangesItsNode"},
		},
		{
			number: 928, bug: "a lock does not look for shards at its path", where: "ours, until issue 36",
			edits: []edit{{"internal/queue/kind.go", "{Tree, treeIn}, {Shards, ShardsIn},", "{Tree, treeIn},"}},
			tests: []string{"TestKindsUnderOneNameExcludeOrRefuse"},
		},
		{
			number: 929, bug: "the workers and the shards do not look for other kinds at their path", where: "ours, until issue 36",
			edits: []edit{{"internal/queue/around.go", "\tif q.outer == nil {\n\t\treturn nil\n\t}\n\treturn q.outer.checkOuter", "\tif q.outer == nil || q.outer.Kind == Shards {\n\t\treturn nil\n\t}\n\treturn q.outer.checkOuter"}, {"shards/plan.go", "err := r.node.CheckKind(ctx, listed); err != nil || wrong == nil", "err := error(nil); err != nil || wrong == nil"}},
			tests: []string{"TestKindsUnderOneNameExcludeOrRefuse"},
		},
		{
			number: 930, bug: "a lock that was tried at the path of shards ends their workers", where: "–", pkg: "shards",
			edits: []edit{{"internal/queue/around.go", "if q.Kind != Shards || !errors.Is(err, ErrKind) {", "if q.Kind != \"\" {"}},
			tests: []string{"TestShardsOutlastALockThatIsTriedAtTheirPath"},
		},
		{
			number: 931, bug: "the number of permits is replaced though somebody has some", where: "–",
			edits: []edit{{"turnstile.go", "case user != \"\":", "case user != \"\" && len(v.listed) == 0:"}},
			tests: []string{"TestNumberThatNobodyUsesCanBeReplaced", "TestDifferentNumbersAtOnce"},
		},
		{
			number: 932, bug: "the number of permits is replaced though somebody waits who claims the old one", where: "–",
			edits: []edit{{"turnstile.go", "in.dir == s.turnstile.Path && n.Of == s.limit {", "in.dir == s.turnstile.Path {"}},
			tests: []string{"TestNumberIsNotReplacedUnderAWaiter"},
		},
		{
			number: 933, bug: "a caller that has lost its turn replaces the number of permits", where: "–",
			edits: []edit{{"turnstile.go", "zk.CheckOp(p.Path(), zk.AnyVersion), zk.SetOp(s.lock.Path,", "zk.CheckOp(s.lock.Path, zk.AnyVersion), zk.SetOp(s.lock.Path,"}},
			tests: []string{"TestSleeperAtTheTurnstileReplacesNoNumber"},
		},
		{
			number: 934, bug: "a waiter undoes SetLimit", where: "–",
			edits: []edit{{"turnstile.go", "case v.changed > p.Czxid():", "case v.changed < 0:"}},
			tests: []string{"TestSetLimitIsNotUndoneByAWaiter"},
		},
		{
			number: 935, bug: "the number of shards is replaced though a shard is locked", where: "–", pkg: "shards",
			edits: []edit{{"internal/queue/kind.go", "range found[2].Children {", "range found[2].Children[:0] {"}},
			tests: []string{"TestNumberOfShardsThatNobodyUsesCanBeReplaced"},
		},
		{
			number: 936, bug: "a layout has an id directly before the number", where: "ours, until issue 36",
			edits: []edit{{"internal/queue/names/attempt.go", "return t != bare && strings.HasSuffix(", "return t == bare && strings.HasSuffix("}},
			pkg:   "internal/queue/names", tests: []string{"TestLayoutThatCannotWorkIsRefused"},
		},
		{
			number: 937, bug: "a directory with a number as its name is taken for a place", where: "–",
			edits: []edit{{"internal/queue/listing.go", "if r.Err == nil && r.Stat.EphemeralOwner == 0 {", "if r.Err == nil && r.Stat.EphemeralOwner < 0 {"}},
			tests: []string{"TestDirectoryWithANumberIsNoPlace"},
		},
		{
			number: 938, bug: "a tree does not look for permits in a directory that is younger than its list", where: "ours, during issue 36",
			edits: []edit{{"internal/queue/around.go", "ok && !named[leases] {", "ok && leases == \"\" {"}},
			tests: []string{"TestTreeSeesALockThatChangesItsNode"},
		},
		{
			number: 939, bug: "a lock looks for trees above it before its own node is there", where: "–",
			edits: []edit{{"internal/queue/join.go", "\t\tvar res []zk.Result\n\t\terr := zk.Retry(ctx, func() (err error) {\n\t\t\tp.Sending()\n\t\t\tif res, err = p.Session.Pipeline(ctx, ops...); res != nil {\n\t\t\t\terr = res[0].Err // ", "\t\tvar res []zk.Result\n\t\tearly, _ := p.Queue.lookAround(ctx, p.Session)\n\t\terr := zk.Retry(ctx, func() (err error) {\n\t\t\tp.Sending()\n\t\t\tif res, err = p.Session.Pipeline(ctx, ops...); res != nil {\n\t\t\t\terr = res[0].Err // "}, {"internal/queue/join.go", "res[1].Children, around)", "res[1].Children, early)"}},
			tests: []string{"TestKindsThatComeTogetherSeeEachOther"},
		},
		{
			number: 1080, bug: "the watch for a tree above a lock has fired, and the tree counts as absent", where: "–",
			edits: []edit{{"internal/queue/absent.go", "return len(w.C) > 0 }", "return false }"}},
			tests: []string{"TestTreeThatComesLaterIsSeen"},
		},
		{
			number: 1081, bug: "the next session believes that there is no tree where the one before has seen none", where: "–",
			edits: []edit{
				{"internal/queue/absent.go", "absences.In(s)", "absences.Of(q.Client)"},
				{"internal/queue/absent.go", "func (w watched) fired() bool { return len(w.C) > 0 }", "func (w watched) fired() bool {\n\tselect {\n\tcase ev := <-w.C:\n\t\treturn ev.Err == nil\n\tdefault:\n\t\treturn false\n\t}\n}"},
			},
			tests: []string{"TestTreeThatComesLaterIsSeen"},
		},
		{
			number: 1082, bug: "a tree that comes between the look at the watch and the create is not seen", where: "–",
			edits: []edit{{"internal/queue/absent.go", "\t\tcase !a.known.has(tree):\n\t\t\treturn false\n", ""}},
			tests: []string{"TestTreeThatComesLaterIsSeen"},
		},
		{
			number: 1083, bug: "the directory of a tree's root hides itself from the watches of others", where: "–",
			edits: []edit{{"internal/queue/queue.go", "if len(q.ACL) == 0 || !strings.HasSuffix", "if len(q.ACL) >= 0 || !strings.HasSuffix"}},
			tests: []string{"TestPrivateTreeThatComesLaterIsSeen"},
		},
	}
}
