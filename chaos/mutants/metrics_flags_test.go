package mutants

// ofMetricsFlags are those of --metrics and --metrics-file.
func ofMetricsFlags() []mutant {
	return []mutant{
		{
			number: 800, bug: "--metrics does not count a lost lock", where: "–",
			edits: []edit{{"internal/cli/hold/metrics.go", "m.of(e.Path).losses[e.Outcome]++", "m.of(e.Path)"}},
			pkg:   "internal/cli/hold", tests: []string{"TestMetricsCountWhatHappens"},
		},
		{
			number: 801, bug: "--metrics answers other machines", where: "–",
			edits: []edit{{"internal/cli/hold/metrics.go", `host != "localhost" && (ip == nil || !ip.IsLoopback())`, `host != "localhost" && host == "" && ip == nil`}},
			pkg:   "internal/cli/hold", tests: []string{"TestMetricsAreForThisMachineAlone"},
		},
		{
			number: 802, bug: "a reader of --metrics-file can see half of a file", where: "–",
			edits: []edit{{"internal/cli/hold/metrics_file.go", "return replaceFile(f.path, text, 0o644)", "return os.WriteFile(f.path, text, 0o644)"}},
			pkg:   "internal/cli/hold", tests: []string{"TestMetricsFileIsReplacedAtOnce"},
		},
		{
			number: 803, bug: "node_exporter cannot read the --metrics-file of another user", where: "–",
			edits: []edit{{"internal/cli/hold/metrics_file.go", "return replaceFile(f.path, text, 0o644)", "return replaceFile(f.path, text, 0o600)"}},
			pkg:   "internal/cli/hold", tests: []string{"TestMetricsFileOfARun"},
		},
		{
			number: 804, bug: "--metrics-file says that a lost lock is held", where: "–",
			edits: []edit{{"internal/cli/hold/metrics_file.go", "beginMetrics(&e, s.Path, 0, began,", "beginMetrics(&e, s.Path, asNumber(s.HeldMS > 0), began,"}},
			pkg:   "internal/cli/hold", tests: []string{"TestMetricsFileOfARun"},
		},
		{
			number: 805, bug: "a lock that is lost and then unlocked counts twice in --metrics", where: "–",
			edits: []edit{{"internal/cli/hold/metrics.go", "\t\t\tdelete(m.current, e.Hold)\n", ""}},
			pkg:   "internal/cli/hold", tests: []string{"TestMetricsCountWhatHappens"},
		},
		{
			number: 806, bug: "--metrics puts a time equal to a bound into the bucket above", where: "–",
			edits: []edit{{"internal/cli/hold/metrics.go", "slices.BinarySearch(histogramBounds, d)", "slices.BinarySearch(histogramBounds, d+1)"}},
			pkg:   "internal/cli/hold", tests: []string{"TestMetricsCountWhatHappens"},
		},
	}
}
