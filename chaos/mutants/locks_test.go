package mutants

// ofTheNames are those of locks whose names, nodes or requests meet others'.
func ofTheNames() []mutant {
	return []mutant{
		{
			number: 88, bug: "a waiter that has given up is put back into its line", where: "holdfast at 3a97b7e",
			edits: []edit{{"line.go", "\tif w.ctx.Err() != nil {\n\t\tw.turn <- turn{err: context.Cause(w.ctx)}\n\t\treturn\n\t}\n", ""}},
			tests: []string{"TestWaiterThatGivesUpWhileItsTurnFailsIsNotPutBack"},
		},
	}
}
