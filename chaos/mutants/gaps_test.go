package mutants

// ofTheGaps are bugs in what issue 16 added to fence, elections and options.
func ofTheGaps() []mutant {
	return []mutant{
		{
			number: 500, bug: "on MySQL, the token is read from the transaction's snapshot", where: "–",
			edits: []edit{{"fence/sql.go", " WHERE resource = ? FOR UPDATE`", " WHERE resource = ?`"}},
			pkg:   beside, tests: []string{"TestFence"}, args: []string{"-run=^TestFence$/^MariaDB$"},
		},
		{
			number: 501, bug: "on MySQL, a token is stale if the upsert has changed no row", where: "–",
			edits: []edit{{"fence/sql.go", "if s.reread != \"\" {", "if false {"}},
			pkg:   beside, tests: []string{"TestFence"}, args: []string{"-run=^TestFence$/^MariaDB$"},
		},
		{
			number: 502, bug: "on MySQL, resources that differ in case or in a space at the end are one", where: "–",
			edits: []edit{{"fence/sql.go", "create: `CREATE TABLE IF NOT EXISTS holdfast_fence (resource VARBINARY(767)", "create: `CREATE TABLE IF NOT EXISTS holdfast_fence (resource VARCHAR(767)"}},
			pkg:   beside, tests: []string{"TestFence"}, args: []string{"-run=^TestFence$/^MariaDB$"},
		},
		{
			number: 503, bug: "on MySQL, a stale token replaces the larger one", where: "–",
			edits: []edit{{"fence/sql.go", "token = GREATEST(token, VALUES(token))", "token = VALUES(token)"}},
			pkg:   beside, tests: []string{"TestFence"}, args: []string{"-run=^TestFence$/^MariaDB$"},
		},
		{
			number: 504, bug: "the length of a resource's name is left to MySQL, which may cut it off", where: "–",
			edits: []edit{{"fence/sql.go", "len(resource) > longestMySQL", "len(resource) > 1<<20"}},
			pkg:   "fence", tests: []string{"TestCheckRefusesWhatCannotBeRight"},
		},
	}
}
