package mutants

// ofTheNames are those of locks whose names, nodes or requests meet others'.
func ofTheNames() []mutant {
	return []mutant{
		{
			number: 88, bug: "a waiter that has given up is put back into its line", where: "holdfast at 3a97b7e",
			edits: []edit{{"line.go", "\tif w.ctx.Err() != nil {\n\t\tw.turn <- turn{err: context.Cause(w.ctx)}\n\t\treturn\n\t}\n", ""}},
			tests: []string{"TestWaiterThatGivesUpWhileItsTurnFailsIsNotPutBack"},
		},
		{
			number: 89, bug: "every layout believes the marks in its directory, whoever left them", where: "holdfast at 3a97b7e",
			edits: []edit{{"grammar.go", "\tg := l.translate()\n", "\tg := l.translate()\n\tg.marks = true\n"}},
			tests: []string{"TestMarkOfAnotherQueueInTheDirectoryIsNotBelieved"},
		},
		{
			number: 90, bug: "a layout is told from another by what it is called", where: "holdfast at 3a97b7e",
			edits: []edit{{"grammar.go", "g.queue = fmt.Sprintf(\"%q %q\", g.exclusive, g.shared)", "g.queue = l.Name"}},
			tests: []string{"TestLayoutsWithoutANameAreTwoLocks", "TestLayoutsOfTheSameFormsAreOneLock"},
		},
	}
}
