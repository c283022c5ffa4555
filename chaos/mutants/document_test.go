package mutants

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// document is the list of all mutants. It is made with -write, and is in no commit.
const document = root + "/docs/contributing/mutants.md"

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

func TestWriteTheList(t *testing.T) {
	if !*write {
		t.Skip("only with -write")
	}
	writeList(t, nil)
}

// writeList writes the document. The seconds are those of a run with all bugs, if there was one.
func writeList(t *testing.T, took map[int]time.Duration) {
	var b strings.Builder
	b.WriteString("# Seeded bugs\n\n| # | The bug | Where it was real | Caught by | s |\n|---|---|---|---|---|\n")
	for _, m := range mutants() {
		b.WriteString(m.row())
		if d, ok := took[m.number]; ok {
			fmt.Fprintf(&b, " %.0f", max(1, d.Seconds()))
		}
		b.WriteString(" |\n")
	}
	if err := os.WriteFile(filepath.FromSlash(document), []byte(b.String()), 0o644); err != nil {
		t.Error(err)
	}
}
