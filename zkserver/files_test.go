//go:build unix

package zkserver

import (
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"holdfast/zkproto"
)

// limitedFiles returns a command that runs this program with at most so many open files.
func limitedFiles(files int) *exec.Cmd {
	return exec.Command("sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0"`, files), os.Args[0])
}

// Silent connections take the files of neither the store nor the clients that come after them.
func TestSilentConnectionsLeaveOthersTheirFiles(t *testing.T) {
	const files, silent = 200, 300
	for _, test := range []struct {
		name  string
		limit int
		most  int // connections
	}{
		{"by default", 0, files / 3},
		{"no limit", -1, files / 3},
		{"a limit below that of the files", 50, 50 / 2},
	} {
		if !t.Run(test.name, func(t *testing.T) {
			p := startProcessAs(t, limitedFiles(files), Config{Dir: t.TempDir(), Limits: Limits{Connections: test.limit, HandshakeTime: time.Minute}})
			dial := func() net.Conn {
				t.Helper()
				nc, err := net.Dial("tcp", p.addr)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { nc.Close() })
				return nc
			}
			until := func(what string, ok func(Stats) bool) Stats {
				t.Helper()
				for end := time.Now().Add(15 * time.Second); ; {
					switch st := p.usage().Stats; {
					case ok(st):
						return st
					case time.Now().After(end):
						t.Fatalf("%s: %d connections, refused: %v", what, st.Connections, st.Refused)
					}
				}
			}
			honest := newRaw(t, dial())
			honest.connect(40*time.Second, nil)
			honest.create("/a", 0)
			// Write so much that the store needs new files.
			write := func(c *rawClient) {
				t.Helper()
				for range 40 {
					if a := c.call(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/a", Data: make([]byte, 500<<10), Version: -1}); a.Err != zkproto.CodeOK {
						t.Fatal(a.Err)
					}
				}
			}
			var crowd []net.Conn
			for range silent {
				crowd = append(crowd, dial())
			}
			st := until("connections that are neither open nor closed", func(st Stats) bool {
				return int64(st.Connections)+st.Refused[LimitConnections]+st.Refused["connections_before_login"] >= silent+1
			})
			if st.Connections > test.most {
				t.Errorf("%d connections are open; want at most %d", st.Connections, test.most)
			}
			write(honest)
			late := newRaw(t, dial())
			late.connect(40*time.Second, nil)
			write(late)
			late.nc.Close()
			for _, nc := range crowd {
				nc.Close()
			}
			until("the end of the silent connections", func(st Stats) bool { return st.Connections == 1 })
			newRaw(t, dial()).connect(10*time.Second, nil)
		}) {
			return
		}
	}
}

func TestConnectionsAreForTheFilesThereAre(t *testing.T) {
	for _, test := range []struct{ open, most, want int64 }{
		{10, 1 << 16, 57335},
		{24, 1024, 875},
		{900, 1024, 108}, // reserved by the program that runs the server
		{-1, 200, 175},   // unknown
		{1000, 1024, 21},
		{10, 16, 5},
		{16, 16, 1},
		{5, 0, 1},
	} {
		if got := connectionsFor(test.open, test.most); got != test.want {
			t.Errorf("%d of %d files: %d connections; want %d", test.open, test.most, got, test.want)
		}
	}
}

// Listeners of the same process share its files.
func TestFilesAreSetAsideForOtherListeners(t *testing.T) {
	s, err := Open(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, test := range []struct {
		room     int64
		ask      int
		got, now int64
	}{
		{1000, 32, 32, 968},
		{1000, 512, 250, 750},
		{3, 32, 1, 2},
		{1, 32, 1, 1},
		{math.MaxInt64, 512, 512, math.MaxInt64},
	} {
		s.mu.Lock()
		s.fileRoom = test.room
		s.mu.Unlock()
		if got := s.SetAside(test.ask); int64(got) != test.got || s.fileRoom != test.now {
			t.Errorf("%d of %d files: %d, and %d are left; want %d and %d", test.ask, test.room, got, s.fileRoom, test.got, test.now)
		}
		if want := min(test.now, 20_000); want < 20_000 && int64(s.Stats().ConnectionsMost) != want {
			t.Errorf("%d connections; want %d", s.Stats().ConnectionsMost, want)
		}
	}
}

// A limit that leaves fewer connections than configured is told once.
func TestRoomForFewerConnectionsIsToldOnce(t *testing.T) {
	var log strings.Builder
	s, err := Open(Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, test := range []struct {
		files int64
		told  []int // times after Open, and after SetAside
	}{
		{100, []int{1, 1}},
		{22_900, []int{0, 1}}, // 20,037 connections
		{30_000, []int{0, 0}},
		{-1, []int{0, 0}}, // no limit
	} {
		log.Reset()
		for i, step := range []func(){func() { s.mu.Lock(); s.limitByFiles(0, test.files); s.mu.Unlock() }, func() { s.SetAside(512) }} {
			if step(); strings.Count(log.String(), "fewer connections than configured") != test.told[i] {
				t.Errorf("%d files, step %d: %q; want it told %d times", test.files, i, log.String(), test.told[i])
			}
		}
	}
}
