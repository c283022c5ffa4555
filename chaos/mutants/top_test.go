package mutants

// ofTop are those of holdfast top.
func ofTop() []mutant {
	return []mutant{
		{
			number: 700, bug: "top keeps a row selected, not a lock, so b is about another lock when the rows move", where: "–",
			edits: []edit{{"internal/cli/top/selection.go", "return l.Key() == s.path }); i >= 0 {", "return l.Key() == s.path }); i == s.row {"}},
			pkg:   "internal/cli/top", tests: []string{"TestTopKeepsTheSelectedLock"},
		},
		{
			number: 701, bug: "top shows the data from before the loss of the server as new", where: "–",
			edits: []edit{{"internal/cli/top/feed.go", "case !down.IsZero():\n\t\treturn \"no server", "case !down.IsZero() && f.failed != nil:\n\t\treturn \"no server"}},
			pkg:   "internal/cli/top", tests: []string{"TestTopShowsOldDataAsOld"},
		},
		{
			number: 702, bug: "the times of old data go on in top", where: "–",
			edits: []edit{{"internal/cli/top/view.go", "\t\tf.at = m.feed.asOf // of old data, no time goes on\n", ""}},
			pkg:   "internal/cli/top", tests: []string{"TestTopShowsOldDataAsOld"},
		},
		{
			number: 703, bug: "top begins a reading while another one is under way", where: "–",
			edits: []edit{{"internal/cli/top/feed.go", "\tif !f.reading.IsZero() {\n\t\treturn nil\n\t}\n", ""}},
			pkg:   "internal/cli/top", tests: []string{"TestTopReadsOneAtATime"},
		},
		{
			number: 704, bug: "top asks about one holder and breaks the next one", where: "–",
			edits: []edit{{"internal/cli/top/dialog.go", "if i < 0 || !d.asking.holds(list[i]) {", "if i >= 0 {\n\t\td.asking.places = []holdfast.Entry{list[i].Queue[0].Entry}\n\t} else {"}},
			pkg:   "internal/cli/top", tests: []string{"TestTopAsks"},
		},
		{
			number: 705, bug: "an owner's name moves the cursor in top's table", where: "–",
			edits: []edit{{"internal/cli/top/screen.go", "\t\t\ttext := term.Escape(term.Cut(c.Text, term.MaxCell))\n", "\t\t\ttext := term.Cut(c.Text, term.MaxCell)\n"}},
			pkg:   "internal/cli/top", tests: []string{"TestTopFitsTheScreen"},
		},
	}
}
