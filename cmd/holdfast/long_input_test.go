package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"holdfast/internal/cli/term"
)

// A flag, a name or a command of 100 kB is refused in few words.
func TestLongInputIsNotPrinted(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	lines := [][]string{{long}, {"--" + long}, {"version", long}, {"help", long}, {"completion", long}, {"config", long}, {"run", "--" + long}}
	for _, name := range []string{"run", "ls", "version", "serve"} {
		root := newRoot()
		cmd, _, err := root.Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.NoOptDefVal == "" && f.Value.Type() != "string" && f.Value.Type() != "stringArray" {
				lines = append(lines, []string{name, "--" + f.Name, long})
			}
		})
	}
	t.Setenv("HOLDFAST_CONFIG", "/dev/null")
	for _, flag := range []string{"--profile", "--server", "--namespace", "--tls-ca", "--auth"} {
		lines = append(lines, []string{"ls", flag, long})
	}
	for _, args := range lines {
		root := newRoot()
		root.SetArgs(args)
		cmd, err := root.ExecuteC()
		if err == nil {
			t.Errorf("%.60q: no error", args)
			continue
		}
		var b strings.Builder
		term.Report(&b, "text", cmd.Name(), err)
		if b.Len() > term.MaxMessage+200 || !strings.HasPrefix(b.String(), "holdfast: ") {
			t.Errorf("%.60q: %d bytes: %.300s", args, b.Len(), b.String())
		}
	}
}

// A message about a flag has at most 250 bytes of each word that the user typed.
func TestLongValuesAreCutInMessages(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for _, args := range [][]string{
		{"-E", long}, {"--lost-exit-code", long}, {"--label", long}, {"--label", "a=" + long}, {"--label", long + "=a"}, {"--who", long},
		{"--status-file", "/" + long}, {"--status-file", "none/" + long}, {"--once-per", long}, {"--once-key", long}, {"--min-hold", long},
		{"--slot", "--of", long}, {"--tree", "--of", "1", "--also", long},
	} {
		root := newRoot()
		root.SetArgs(slices.Concat([]string{"run", "--server", "file://" + t.TempDir()}, args, []string{"job", "true"}))
		err := root.Execute()
		if err == nil || len(term.Brief(err.Error())) > 700 {
			t.Errorf("%s: %d bytes: %.300v", args[0], len(fmt.Sprint(err)), err)
		}
	}
}
