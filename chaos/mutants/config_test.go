package mutants

// ofConfig are those of the settings and of the completion of the command.
func ofConfig() []mutant {
	return []mutant{
		{
			number: 656, bug: "a configuration file wins over the environment", where: "–",
			edits: []edit{{"internal/cli/conn/config.go", "if _, set := g.from[f.Name]; set || err != nil {", "if g.from[f.Name].layer == LayerFlag || err != nil {"}},
			pkg:   "internal/cli/conn", tests: []string{"TestLayersOfSettings"},
		},
		{
			number: 657, bug: "the user's file wins over the profile", where: "–",
			edits: []edit{{"internal/cli/conn/config.go", "[]bool{true, false}", "[]bool{false, true}"}},
			pkg:   "internal/cli/conn", tests: []string{"TestLayersOfSettings"},
		},
		{
			number: 658, bug: "a configuration file that a group can change is read", where: "–",
			edits: []edit{{"internal/cli/conn/config_unix.go", "0o022", "0o002"}},
			pkg:   "internal/cli/conn", tests: []string{"TestFileThatOthersCanChangeIsRefused"},
		},
		{
			number: 659, bug: "a configuration file that is a link to nothing is ignored, and another server used", where: "–",
			edits: []edit{{"internal/cli/conn/config.go", "_, err := os.Lstat(path)", "_, err := os.Stat(path)"}},
			pkg:   "internal/cli/conn", tests: []string{"TestLinkThatLeadsNowhereIsAnError"},
		},
		{
			number: 660, bug: "the TAB key offers names that a shell executes", where: "programs that complete names of others with cobra",
			edits: []edit{{"internal/cli/complete/complete.go", "\t\tdefault:\n\t\t\treturn false\n", "\t\tcase r < ' ':\n\t\t\treturn false\n"}},
			pkg:   "internal/cli/complete", tests: []string{"TestNamesAreOfferedOnlyIfEveryShellTakesThemLiterally"},
		},
		{
			number: 661, bug: "the TAB key makes the directory of a store", where: "–",
			edits: []edit{{
				"internal/cli/complete/complete.go", "\t\tnc, err := zklocal.DialHost(ctx, t.Dir)\n",
				"\t\tstore, err := zklocal.Open(zklocal.Config{Dir: t.Dir})\n\t\tif err != nil {\n\t\t\treturn nil, err\n\t\t}\n\t\tdefer store.Close()\n\t\tnc, err := zklocal.DialHost(ctx, t.Dir)\n",
			}},
			pkg: "cmd/holdfast", tests: []string{"TestCompletionLeavesNoTrace"},
		},
	}
}
