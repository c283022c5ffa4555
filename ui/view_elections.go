package ui

import "net/http"

type electionsBody struct {
	Rows []electionRow
	More int
	Sets []shardSet
}

type electionRow struct {
	row
	Candidates []string
	Others     int
}

func (u *UI) elections(r *http.Request, v view, f *frame) {
	f.Title, f.Command = "Elections and shards", u.command("ls", u.cfg.Prefix)
	b := electionsBody{Sets: u.shardSets(v)}
	for _, l := range v.locks {
		if l.Use() != "election" {
			continue
		}
		if len(b.Rows) == rowsOnPage {
			b.More++
			continue
		}
		e := electionRow{row: u.row(l)}
		for _, p := range l.members {
			if len(e.Candidates) == 5 {
				e.Others++
				continue
			}
			e.Candidates = append(e.Candidates, who(p.Owner, p.Session))
		}
		b.Rows = append(b.Rows, e)
	}
	f.Body = b
}
