package mutants

// ofTheBounds are bugs in the bounds of the server's operations, and in its answers.
func ofTheBounds() []mutant {
	const tree = "zkserver/internal/tree"
	return []mutant{
		{
			number: 198, bug: "what auth stands for counts as one entry of an ACL", where: "Apache ZooKeeper; ours, until 3a97b7e",
			edits: []edit{{tree + "/acl.go", "size > maxACLBytes || len(checked) > MaxACLEntries || t.grown > maxGrowth {", "len(list) > MaxACLEntries {"}},
			pkg:   "zkserver", tests: []string{"TestTransactionsDoNotGrowByTheirACLs"},
		},
		{
			number: 199, bug: "of a long ACL only the last entry of an identity holds", where: "–",
			edits: []edit{{tree + "/acl.go", "a.index.perms[Identity{e.Scheme, e.ID}] |= e.Perms", "a.index.perms[Identity{e.Scheme, e.ID}] = e.Perms"}},
			pkg:   tree, tests: []string{"TestLongACLsOfAnOlderStoreHold"},
		},
		{
			number: 200, bug: "the logins of one client answer for another that has as many", where: "–",
			edits: []edit{{tree + "/acl.go", " || &k.as[0] != &as[0] {", " {"}},
			pkg:   tree, tests: []string{"TestManyIdentitiesAreThoseOfTheClient"},
		},
		{
			number: 201, bug: "a write that shrinks is let through although too much is left", where: "ours, until 3a97b7e",
			edits: []edit{{tree + "/quota.go", "size != 0 && over(", "size > 0 && over("}},
			pkg:   tree, tests: []string{"TestShrinkingWriteOverAHardQuotaIsRefused"},
		},
		{
			number: 202, bug: "everybody may write below the node of all quotas", where: "Apache ZooKeeper; ours, until 3a97b7e",
			edits: []edit{{tree + "/acl.go", "inQuotas(n.path)", "n.path == quotaRoot"}},
			pkg:   tree, tests: []string{"TestOnlyTheSuperuserSetsQuotas"},
		},
		{
			number: 203, bug: "a transaction that failed leaves the children in another order", where: "–",
			edits: []edit{{tree + "/write.go", "\t\tt.relink(n)\n", "\t\tt.link(n)\n"}},
			pkg:   "zkserver", tests: []string{"TestChildrenHaveOneOrderWhileTheNodeIsUnchanged"},
		},
		{
			number: 204, bug: "a list of four-letter words switches srvr off", where: "ours, until 3a97b7e",
			edits: []edit{{"zkserver/words.go", `map[string]bool{"srvr": true}`, "map[string]bool{}"}},
			pkg:   "zkserver", tests: []string{"TestOnlyAllowedWordsAreAnswered"},
		},
		{
			number: 205, bug: "a node that goes while others are reaped takes one of them out of sight", where: "–",
			edits: []edit{{tree + "/reap.go", "if n := nodes[t.unreaped]; n.idle(now) {", "if n := nodes[len(nodes)-1-t.unreaped]; n.idle(now) {"}},
			pkg:   tree, tests: []string{"TestReapingIsDoneInShares"},
		},
	}
}
