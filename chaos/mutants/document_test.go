package mutants

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// document has the table of all mutants; what stands around it is written by hand.
const document = root + "/docs/contributing/mutants.md"

const tableHead = "| # | The bug | Where it was real | Caught by | s |\n|---|---|---|---|---|\n"

// row is a mutant's line in the document, without the seconds.
func (m *mutant) row() string {
	var tests []string
	for _, name := range m.tests {
		tests = append(tests, "`"+name+"`")
	}
	if m.simulated {
		tests = append(tests, "the simulation")
	}
	return fmt.Sprintf("| %d | %s | %s | %s |", m.number, m.bug, m.where, strings.Join(tests, ", "))
}

// Every bug is in the document, and the document has no other.
func TestTheDocumentHasEveryBug(t *testing.T) {
	if *write {
		writeTable(t, nil)
	}
	_, rows, _ := readDocument(t)
	all := mutants()
	for i, row := range rows {
		switch {
		case i >= len(all):
			t.Errorf("there is no such bug: %s", row)
		case !strings.HasPrefix(row, all[i].row()):
			t.Errorf("the document has\n%s\nand the table\n%s", row, all[i].row())
		}
	}
	for _, m := range all[min(len(rows), len(all)):] {
		t.Errorf("missing: %s", m.row())
	}
}

// readDocument cuts the document into what is above the rows of its table, these, and the
// rest.
func readDocument(t *testing.T) (above string, rows []string, below string) {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(document))
	if err != nil {
		t.Fatal(err)
	}
	above, table, ok := strings.Cut(string(text), tableHead)
	if !ok {
		t.Fatalf("%s has no table that begins with\n%s", document, tableHead)
	}
	for table != "" && strings.HasPrefix(table, "| ") {
		var row string
		row, table, _ = strings.Cut(table, "\n")
		rows = append(rows, row)
	}
	return above + tableHead, rows, table
}

func writeTable(t *testing.T, took map[int]time.Duration) {
	above, rows, below := readDocument(t)
	var b strings.Builder
	b.WriteString(above)
	for i, m := range mutants() {
		seconds := " |" // a run of some of them leaves the figures of the others
		if d, ok := took[m.number]; ok {
			seconds = fmt.Sprintf(" %.0f |", max(1, d.Seconds()))
		} else if i < len(rows) {
			if cells := strings.Split(rows[i], "|"); len(cells) == 7 {
				seconds = cells[5] + "|"
			}
		}
		b.WriteString(m.row() + seconds + "\n")
	}
	b.WriteString(below)
	if err := os.WriteFile(filepath.FromSlash(document), []byte(b.String()), 0o644); err != nil {
		t.Error(err)
	}
}
