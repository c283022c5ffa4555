package see

import "testing"

func TestOwnersArePatterns(t *testing.T) {
	for _, tt := range []struct {
		pattern, text string
		want          bool
	}{
		{"*", "", true}, {"ci@*", "ci@web1:7", true}, {"ci@*", "aci@web1:7", false}, {"ci/*", "ci/job/7", true},
		{"*/7", "ci/job/7", true}, {"c?", "c/", true}, {"[a-c]*", "bob", true}, {`\*`, "*", true}, {`\*`, "x", false},
	} {
		if got := like(tt.pattern, tt.text); got != tt.want {
			t.Errorf("%q, %q: %v", tt.pattern, tt.text, got)
		}
	}
}
