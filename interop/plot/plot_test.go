package plot

import (
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWriteDrawsEveryLineOfEveryPanel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "curve.svg")
	err := Write(path,
		Panel{Title: "first", X: "waiters", Y: "bytes", Lines: []Line{
			{"flat", []Point{{1, 300}, {10, 300}, {1000, 300}}},
			{"steep", []Point{{1, 1}, {10, 100}, {1000, 1e6}}},
		}},
		Panel{Title: "second", X: "locks", Y: "cycles", Lines: []Line{{"one point", []Point{{5, 5}}}}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"first", "second", "waiters", "bytes", "locks", "cycles", "flat", "steep", "one point", "1 M"} {
		if !strings.Contains(string(text), ">"+want+"<") {
			t.Errorf("%q is not in the drawing", want)
		}
	}
	d := xml.NewDecoder(strings.NewReader(string(text)))
	for err = nil; err == nil; _, err = d.Token() {
	}
	if err != io.EOF {
		t.Errorf("not XML: %v", err)
	}
}

func TestTicksAreDecadesInWords(t *testing.T) {
	var labels []string
	for _, tick := range (ticks{}).Ticks(0.1, 1e6) {
		if tick.Label != "" {
			labels = append(labels, tick.Label)
		}
	}
	if got, want := strings.Join(labels, ", "), "0.1, 1, 10, 100, 1 k, 10 k, 100 k, 1 M"; got != want {
		t.Errorf("ticks of 0.1 to 1e6: got %s; want %s", got, want)
	}
}
