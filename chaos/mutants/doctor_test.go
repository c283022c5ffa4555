package mutants

// ofTheDoctor are those of doctor, which examines servers, and of bench, which checks that locks exclude.
func ofTheDoctor() []mutant {
	return []mutant{
		{
			number: 650, bug: "bench's guard accepts a write with a stale token", where: "–",
			edits: []edit{{"internal/cli/bench/guard.go", "\tif v.token < g.highest {", "\tif v.token < 0 {"}},
			pkg:   "internal/cli/bench", tests: []string{"TestGuardRefusesAStaleToken"},
		},
		{
			number: 651, bug: "bench does not notice two holders at once", where: "–",
			edits: []edit{{"internal/cli/bench/guard.go", "if beside >= g.limit && hold.Err() == nil {", "if beside > g.limit && hold.Err() == nil {"}},
			pkg:   "internal/cli/bench", tests: []string{"TestGuardCountsViolations"},
		},
		{
			number: 652, bug: "doctor takes two separate servers for one service", where: "–",
			edits: []edit{{"internal/cli/doctor/server.go", "\t\t\tapart = append(apart, e.name)\n", "\t\t\tsame++\n"}},
			pkg:   "internal/cli/doctor", tests: []string{"TestDoctorNoticesSeparateServers"},
		},
		{
			number: 653, bug: "doctor waits for a dead file system for ever", where: "–",
			edits: []edit{{"internal/cli/doctor/doctor.go", "case <-give.C:", "case <-(chan time.Time)(nil):"}},
			pkg:   "internal/cli/doctor", tests: []string{"TestDoctorEndsInTime"},
		},
		{
			number: 654, bug: "bench leaves the directories above its own, which it has made", where: "–",
			edits: []edit{{"internal/cli/bench/ground.go", "\t\t\tat.made = append(at.made, path)\n", "\t\t\tat.made = []string{path}\n"}},
			pkg:   "internal/cli/bench", tests: []string{"TestBenchLeavesNothing"},
		},
		{
			number: 655, bug: "doctor takes a slow answer for a wrong clock", where: "–",
			edits: []edit{{"internal/cli/doctor/server.go", "if apart.Abs() > clockApart+half {", "if apart.Abs() > clockApart {"}},
			pkg:   "internal/cli/doctor", tests: []string{"TestDoctorComparesClocks"},
		},
	}
}
