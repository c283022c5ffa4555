package mutants

// ofTrees are those of Tree.
func ofTrees() []mutant {
	return []mutant{
		{
			number: 410, bug: "the locks of a tree are acquired from its root downwards", where: "made up",
			edits: []edit{{"multilock.go", "\t\tp, o = o, p\n", ""}, {"tree.go", "\tslices.Reverse(m.parts)\n", "\tslices.Reverse(m.parts[:0])\n"}},
			tests: []string{"TestTokenOfATreeIsNotThatOfThePath"},
		},
		{
			number: 411, bug: "the token of a tree's Hold is that of its path", where: "made up",
			edits: []edit{{"multilock.go", "\tif m.tree != \"\" { // the root fences", "\tif false { // the root fences"}},
			tests: []string{"TestTokenOfATreeIsNotThatOfThePath", "TestTreeUnderRandomCallers"},
		},
		{
			number: 412, bug: "two paths of a tree have one node", where: "made up",
			edits: []edit{{"tree.go", "name += zk.EscapeName(\"/\" + part)", "name += \"%2F\" + strings.ReplaceAll(part, \"\\x00\", \"%00\")"}},
			tests: []string{"TestTreeTakesAnyName"},
		},
		{
			number: 413, bug: "a path of a tree excludes all that has an ancestor in common with it", where: "made up",
			edits: []edit{{"tree.go", "\t\tif i < len(names)-1 {\n", "\t\tif i < 0 {\n"}},
			tests: []string{"TestTreeLocksAPathWithAllBelowIt"},
		},
		{
			number: 414, bug: "a path of a tree does not exclude those above it", where: "made up",
			edits: []edit{{"tree.go", "\t\tnames = append(names, name)\n", "\t\tnames = append(names[:1], name)\n"}},
			tests: []string{"TestTreeLocksAPathWithAllBelowIt", "TestTreeUnderRandomCallers"},
		},
		{
			number: 415, bug: "MultiLocks order the locks of trees among all others, by path", where: "made up",
			edits: []edit{{"multilock.go", "\tcase p.tree:\n\t\treturn 1\n\tcase o.tree:\n\t\treturn -1\n", ""}, {"multilock.go", "\tcase p.tree != o.tree:\n\t\treturn fmt.Errorf(", "\tcase p.tree != o.tree && p.lock == nil:\n\t\treturn fmt.Errorf("}},
			tests: []string{"TestTreeBesideALockOfItsNodes"},
		},
		{
			number: 416, bug: "a holder of a path waits for callers that wait for it", where: "ours, until a reader found it",
			edits: []edit{{"multilock.go", "len(held) > 0 && (p.tree || p.lock.joins(held, side) == nil)", "len(held) > 0 && p.lock.joins(held, side) == nil"}},
			tests: []string{"TestTreeInsideItselfIsADeadlock"},
		},
	}
}
