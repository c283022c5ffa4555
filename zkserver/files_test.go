//go:build unix

package zkserver

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"holdfast/zkproto"
)

// limitedFiles returns a command that runs this program with at most so many open files.
func limitedFiles(files int) *exec.Cmd {
	return exec.Command("sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0"`, files), os.Args[0])
}

// Silent connections take descriptors from other connections, not from the store.
func TestSilentConnectionsLeaveTheStoreItsFiles(t *testing.T) {
	const files, silent = 200, 300
	for _, test := range []struct {
		name        string
		limit       int
		least, most int // connections
	}{
		{"by default", 0, files / 4, files * 3 / 4},
		{"no limit", -1, files / 4, files * 3 / 4},
		{"a limit below that of the files", 50, 50, 50},
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
			write := func() {
				t.Helper()
				for range 40 {
					if a := honest.call(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/a", Data: make([]byte, 500<<10), Version: -1}); a.Err != zkproto.CodeOK {
						t.Fatal(a.Err)
					}
				}
			}
			var crowd []net.Conn
			for range silent {
				crowd = append(crowd, dial())
			}
			st := until("connections that are neither open nor refused", func(st Stats) bool {
				return int64(st.Connections)+st.Refused[LimitConnections] >= silent+1
			})
			if st.Connections < test.least || st.Connections > test.most {
				t.Errorf("%d connections are open; want %d to %d", st.Connections, test.least, test.most)
			}
			write()
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
		{10, 1 << 20, 1<<20 - 64 - 10},
		{10, 1024, 1024 - 64 - 10},
		{900, 1024, 60}, // reserved by the program that runs the server
		{10, 200, 200 - 64 - 10},
		{-1, 200, 200 - 64}, // unknown
		{1000, 1024, 16},
		{10, 100, 100 - 50 - 10},
		{10, 16, 4},
		{5, 0, 1},
	} {
		if got := connectionsFor(test.open, test.most); got != test.want {
			t.Errorf("%d of %d files: %d connections; want %d", test.open, test.most, got, test.want)
		}
	}
}
