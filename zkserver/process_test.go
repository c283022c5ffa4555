package zkserver

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// A process is a server in its own process. So its memory is measurable, and its clients do not
// slow it down.
type process struct {
	addr string

	t     testing.TB
	stop  func() // also called at the end of the test
	stdin io.WriteCloser
	out   *bufio.Reader
}

const processEnv = "ZKSERVER_PROCESS" // its Config, as JSON

// serveAsProcess runs the server if this process is one. TestMain calls it first.
func serveAsProcess() bool {
	text, is := os.LookupEnv(processEnv)
	if !is {
		return false
	}
	var cfg Config
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		panic(err)
	}
	s, err := Open(cfg)
	if err != nil {
		panic(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go s.Serve(l)
	fmt.Println(l.Addr())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		u := usage{Stats: s.Stats()}
		u.RSS, u.Peak = residentMemory()
		json.NewEncoder(os.Stdout).Encode(u)
	}
	s.Close()
	return true
}

// A usage is what a process reports about itself.
type usage struct {
	RSS, Peak int64 // bytes
	Stats     Stats
}

func startProcess(t testing.TB, cfg Config) *process {
	t.Helper()
	return startProcessAs(t, exec.Command(os.Args[0]), cfg)
}

// startProcessAs starts the server by a command that runs this program.
func startProcessAs(t testing.TB, cmd *exec.Cmd, cfg Config) *process {
	t.Helper()
	text, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), processEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(func() {
		stdin.Close()
		cmd.Wait()
	})
	t.Cleanup(stop)
	p := &process{t: t, stop: stop, stdin: stdin, out: bufio.NewReader(stdout)}
	line, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	p.addr = strings.TrimSpace(line)
	return p
}

func (p *process) usage() (u usage) {
	p.t.Helper()
	if _, err := io.WriteString(p.stdin, "\n"); err != nil {
		p.t.Fatal(err)
	}
	line, err := p.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &u)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return u
}

// residentMemory returns the current and the highest resident memory of this process; 0 on systems
// other than Linux.
func residentMemory() (rss, peak int64) {
	text, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(text)) {
		fmt.Sscanf(line, "VmRSS: %d kB", &rss)
		fmt.Sscanf(line, "VmHWM: %d kB", &peak)
	}
	return rss << 10, peak << 10
}
