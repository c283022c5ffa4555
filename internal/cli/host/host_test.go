package host

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestWhatAHostSaysAtItsStart(t *testing.T) {
	for _, tt := range []struct {
		name   string
		said   string
		open   bool // it is silent and has not ended
		ready  bool
		reason string
	}{
		{name: "ready", said: "listening unix /d/socket\nready\n", open: true, ready: true},
		{name: "failed", said: "failed: host /d: no space left on device\n", reason: "host /d: no space left on device"},
		{name: "failed late", said: "listening unix /d/socket\nfailed: stdout\n", reason: "stdout"},
		{name: "dead", said: ""},
		{name: "dead in the middle", said: "listening unix /d/socket\nrea"},
		{name: "slow", said: "listening", open: true, ready: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			defer w.Close()
			if _, err := w.WriteString(tt.said); err != nil {
				t.Fatal(err)
			}
			if !tt.open {
				w.Close()
			} else if err := r.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
				t.Skip(err) // pipes have no deadlines on this system
			}
			ready, reason := awaitReady(r)
			if ready != tt.ready || reason != tt.reason {
				t.Errorf("got %v, %q; want %v, %q", ready, reason, tt.ready, tt.reason)
			}
		})
	}
}

func TestFirstWordsOfACrash(t *testing.T) {
	log := filepath.Join(t.TempDir(), "host.log")
	const before = "holdfast: an old message\n"
	for _, tt := range []struct{ added, want string }{
		{"", ""},
		{"panic: out of luck\n\ngoroutine 1 [running]:\n", "panic: out of luck"},
		{"holdfast: unknown flag\n", "unknown flag"},
	} {
		if err := os.WriteFile(log, []byte(before+tt.added), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := firstLine(log, int64(len(before))); got != tt.want {
			t.Errorf("%q: got %q; want %q", tt.added, got, tt.want)
		}
	}
}
