package passwd

import (
	"bytes"
	"strings"
	"testing"

	"holdfast/ui"
)

// passwd reads one line of standard input, and prints a line that the page takes. It never prints the password.
func TestPasswdMakesALineForTheFile(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		input string
		args  []string
		fault string
	}{
		"a viewer":         {"correct horse\n", []string{"vic"}, ""},
		"an operator":      {"correct horse", []string{"--role", "operator", "ann"}, ""},
		"of Windows":       {"correct horse\r\nmore", []string{"ann"}, ""},
		"too short":        {"horse\n", []string{"ann"}, "5 bytes"},
		"no input":         {"", []string{"ann"}, "0 bytes"},
		"a long one":       {strings.Repeat("x", 100000), []string{"ann"}, "bytes; want"},
		"another role":     {"correct horse\n", []string{"--role", "root", "ann"}, "no role"},
		"a name of a line": {"correct horse\n", []string{"a:b"}, "no name"},
		"no name":          {"correct horse\n", []string{}, "no name given"},
	} {
		var out, said bytes.Buffer
		cmd := New("ui", "viewer", "operator")
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetIn(strings.NewReader(tt.input))
		cmd.SetOut(&out)
		cmd.SetErr(&said)
		cmd.SetArgs(tt.args)
		err := cmd.Execute()
		if strings.Contains(out.String()+said.String(), "horse") || err != nil && strings.Contains(err.Error(), "horse") {
			t.Errorf("%s: the password is printed: %s %s %v", name, &out, &said, err)
		}
		if tt.fault != "" {
			if err == nil || out.Len() > 0 || !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("%s: %v, printed %q; want %q", name, err, &out, tt.fault)
			}
			continue
		}
		if _, perr := ui.ParseUsers(out.String()); err != nil || perr != nil {
			t.Errorf("%s: %v, %v", name, err, perr)
		}
	}
	var out bytes.Buffer
	cmd := New("tf")
	cmd.SetIn(strings.NewReader("correct horse"))
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"ann"})
	if err := cmd.Execute(); err != nil || strings.Count(out.String(), ":") != 1 {
		t.Errorf("%q, %v", &out, err)
	}
}
