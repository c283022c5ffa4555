package man

import "testing"

func TestLinesOfManualPagesAreText(t *testing.T) {
	for line, want := range map[string]string{
		".SH it": `\&.SH it`, "'quoted'": `\(aqquoted\(aq`, `a\b`: `a\eb`, "--flag": `\-\-flag`, "≤ 1": `\[u2264] 1`,
	} {
		if got := roff(line); got != want {
			t.Errorf("%s: %s; want %s", line, got, want)
		}
	}
}
