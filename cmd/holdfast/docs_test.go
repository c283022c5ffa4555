//go:build unix

package main

import (
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"holdfast/internal/cli/serve"
	"holdfast/internal/daemon"
	"holdfast/zkserver"
)

// readServeDocs returns the pages about serve, one after the other.
func readServeDocs(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, page := range []string{"howto/serve.md", "howto/tls.md", "reference/serve.md", "reference/metrics.md", "reference/limits.md"} {
		text, err := os.ReadFile("../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// rows returns the first cells of table rows that begin with prefix.
func rows(docs, prefix string) []string {
	var names []string
	for _, m := range regexp.MustCompile("(?m)^\\| `("+prefix+"[^`]+)` \\|").FindAllStringSubmatch(docs, -1) {
		names = append(names, m[1])
	}
	return slices.Sorted(slices.Values(names))
}

// blocks returns the code blocks in a language.
func blocks(docs, language string) []string {
	var all []string
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(docs, -1) {
		all = append(all, m[1])
	}
	return all
}

func TestEveryFlagOfServeIsDocumented(t *testing.T) {
	var want []string
	serve.New().Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			want = append(want, "--"+f.Name)
		}
	})
	slices.Sort(want)
	if got := rows(readServeDocs(t), "--"); !slices.Equal(got, want) {
		t.Errorf("docs/reference/serve.md has\n%q\nand serve has\n%q", got, want)
	}
}

func TestDocumentedConfigurationsAreUnderstood(t *testing.T) {
	keys := make(map[string]bool)
	for _, block := range blocks(readServeDocs(t), "yaml") {
		path := filepath.Join(t.TempDir(), "serve.yaml")
		if err := os.WriteFile(path, []byte(block), 0o600); err != nil {
			t.Fatal(err)
		}
		from, err := serve.ReadConfig(serve.New().Flags(), path)
		if err != nil {
			t.Errorf("%v in\n%s", err, block)
		}
		for key := range from {
			keys["--"+key] = true
		}
	}
	keys["--config"] = true
	if got, want := slices.Sorted(maps.Keys(keys)), rows(readServeDocs(t), "--"); !slices.Equal(got, want) {
		t.Errorf("the examples have\n%q\nwant\n%q", got, want)
	}
}

func TestDocumentedCommandsAreUnderstood(t *testing.T) {
	found := 0
	for _, block := range blocks(readServeDocs(t), "sh") {
		for line := range strings.Lines(block) {
			words := strings.Fields(line)
			if words[0] != "holdfast" {
				continue
			}
			found++
			cmd, args, err := newRoot().Find(words[1:])
			if err == nil {
				err = cmd.ParseFlags(args)
			}
			if err != nil {
				t.Errorf("%s%v", line, err)
			}
		}
	}
	if found == 0 {
		t.Error("docs/howto/serve.md does not show how to start it")
	}
}

func TestEveryMetricIsDocumented(t *testing.T) {
	server, err := zkserver.Open(zkserver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	page := httptest.NewRecorder()
	daemon.NewMetrics(server.Stats, func() time.Time { return time.Time{} }, daemon.Build{}).ServeHTTP(page, nil)
	var want []string
	for _, m := range regexp.MustCompile(`(?m)^# HELP (holdfast_\S+)`).FindAllSubmatch(page.Body.Bytes(), -1) {
		want = append(want, string(m[1]))
	}
	if got := rows(readServeDocs(t), "holdfast_"); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("docs/reference/metrics.md has\n%q\nand serve has\n%q", got, want)
	}
}
