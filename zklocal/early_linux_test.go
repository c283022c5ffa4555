package zklocal

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"holdfast/zk"
	"holdfast/zkserver"
)

// The tests of this file look for sessions that end although their processes live.

var (
	lives  = flag.Int("lives", 10, "how often a process is stopped, loses its connection, or the host or a relay changes")
	reuses = flag.Int("reuses", 5, "how often the id of a dead process is given to a new one")
)

func init() { moreRoles["steady"] = steady }

// steady is a client of the socket with one node. Its orders are: break, which closes its connection, and check, which
// tells whether the session and the node are the same as before.
func steady(socket string) error {
	var (
		mu   sync.Mutex
		last net.Conn
		d    net.Dialer
	)
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := d.DialContext(ctx, network, addr)
		mu.Lock()
		defer mu.Unlock()
		last = nc
		return nc, err
	}
	ctx := context.Background()
	c, err := zk.Dial(ctx, zk.Config{Servers: []string{"unix://" + socket}, SessionTimeout: longTimeout, Dial: dial})
	if err != nil {
		return err
	}
	s, err := c.Session(ctx)
	if err != nil {
		return err
	}
	node := fmt.Sprintf("/steady-%d", s.ID())
	if _, _, err := c.Create(ctx, node, nil, zk.Ephemeral); err != nil {
		return err
	}
	fmt.Println(s.ID())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "break":
			mu.Lock()
			last.Close()
			mu.Unlock()
			fmt.Println("done")
		case "check":
			var there bool
			err := zk.Repeat(ctx, func() (err error) {
				_, there, err = c.Exists(ctx, node)
				return err
			})
			now, serr := c.Session(ctx)
			if err != nil || serr != nil || !there || now.ID() != s.ID() {
				return fmt.Errorf("%s is there: %t; the session: %v; %v, %v", node, there, now, err, serr)
			}
			fmt.Println("done")
		}
	}
	return nil
}

// A steadyProcess is a process with the role "steady".
type steadyProcess struct{ *bareProcess }

func startSteady(t *testing.T, socket string, options ...func(*exec.Cmd)) steadyProcess {
	t.Helper()
	p := startProcess(t, socket, "steady", options...)
	p.patient()
	id, err := strconv.ParseInt(p.line(t), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	p.session = id
	return steadyProcess{&bareProcess{process: p}}
}

func (p steadyProcess) node() string { return fmt.Sprintf("/steady-%d", p.session) }

// has checks that nodes are there, also after their host has changed.
func (s *scene) has(paths ...string) {
	s.t.Helper()
	for _, path := range paths {
		var there bool
		err := zk.Repeat(s.t.Context(), func() (err error) {
			_, there, err = s.client.Exists(s.t.Context(), path)
			return err
		})
		if err != nil || !there {
			s.t.Errorf("%s is gone, though its session lives: %v", path, err)
		}
	}
}

func TestNoLivingProcessLosesItsSession(t *testing.T) {
	s := newScene(t)
	var ps []steadyProcess
	for range 5 {
		ps = append(ps, startSteady(t, s.socket()))
	}
	nextHost := func() {
		s.host.Close()
		s.open()
	}
	done := make(map[string]int)
	for i := range *lives {
		p := ps[i/5%len(ps)]
		stop := func() { p.cmd.Process.Signal(syscall.SIGSTOP) }
		resume := func() { p.cmd.Process.Signal(syscall.SIGCONT) }
		what := []string{"stopped", "stopped while its connection ends", "stopped while the host changes", "broken connection", "next host"}[i%5]
		done[what]++
		switch what {
		case "stopped":
			stop()
		case "stopped while its connection ends":
			fmt.Fprintln(p.in, "break")
			time.Sleep(rand.N(time.Millisecond))
			stop()
		case "stopped while the host changes":
			stop()
			nextHost()
		case "broken connection":
			p.do(t, "break")
		case "next host":
			nextHost()
		}
		time.Sleep(rand.N(20 * time.Millisecond))
		for _, p := range ps {
			s.has(p.node())
		}
		resume()
		if what == "stopped while its connection ends" {
			p.line(t)
		}
		p.do(t, "check")
		if t.Failed() {
			t.Fatalf("round %d: %s", i, what)
		}
	}
	t.Logf("%v: no session has ended", done)
	for _, p := range ps {
		p.kill()
		s.goes(p.node())
	}
}

// A session does not belong to the parent of its client.
func TestOrphanKeepsItsSession(t *testing.T) {
	s := newScene(t)
	end := filepath.Join(t.TempDir(), "end")
	p := startBare(t, s.socket(), func(cmd *exec.Cmd) { // the child alone reads the input
		cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `exec 3<&0; "$0" <&3 & until [ -e "$1" ]; do sleep 0.01; done`, cmd.Path, end}
	})
	if !p.bound {
		t.Fatal("the session does not belong to its process")
	}
	if err := os.WriteFile(end, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.cmd.Process.Wait()
	p.do(t, "/orphan")
	s.stays("/orphan")
	p.in.Close() // it ends
	s.goes("/orphan")
}

// A relay is killed and started again: no client behind it loses its session.
func TestClientsOfARelayKeepTheirSessions(t *testing.T) {
	s := newScene(t)
	path := filepath.Join(t.TempDir(), "relay")
	start := func() *process {
		os.Remove(path)
		p := startProcess(t, s.socket(), "relay", func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, relayVar+"="+path) })
		p.line(t)
		return p
	}
	relay := start()
	var ps []steadyProcess
	for range 10 {
		ps = append(ps, startSteady(t, path))
	}
	for range max(1, *lives/5) {
		relay.kill()
		time.Sleep(rand.N(20 * time.Millisecond))
		for _, p := range ps {
			s.has(p.node())
		}
		relay = start()
		for _, p := range ps {
			p.do(t, "check")
		}
	}
	ps[0].kill() // behind a relay, it has its timeout
	s.stays(ps[0].node())
}

// namespaces returns an option that starts a process in new namespaces. It skips the test if there are none here.
func namespaces(t *testing.T, flags ...string) func(*exec.Cmd) {
	t.Helper()
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Skip(err)
	}
	flags = append([]string{"unshare", "--user", "--map-root-user"}, flags...)
	if out, err := exec.Command(unshare, append(flags[1:len(flags):len(flags)], "true")...).CombinedOutput(); err != nil {
		t.Skipf("%v: %v\n%s", flags, err, out)
	}
	return func(cmd *exec.Cmd) {
		cmd.Args = append(append(flags, cmd.Path), cmd.Args[1:]...)
		cmd.Path = unshare
	}
}

// container are the flags of unshare for what a container has of its own.
var container = []string{"--pid", "--mount-proc", "--net", "--mount", "--uts", "--ipc", "--fork", "--kill-child"}

// A session belongs to a process only if server and client mean the same process by its id and start time.
func TestClientsInOtherNamespaces(t *testing.T) {
	for _, c := range []struct {
		name  string
		flags []string
		bound bool
	}{
		{"user", nil, true},
		{"network", []string{"--net"}, true},
		{"pid", []string{"--pid", "--mount-proc", "--fork", "--kill-child"}, false},
		{"pid, without a proc of its own", []string{"--pid", "--fork", "--kill-child"}, false},
		{"time", []string{"--time", "--boottime", "1000", "--fork", "--kill-child"}, false},
		{"container", container, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t)
			p := startSteady(t, s.socket(), namespaces(t, c.flags...))
			p.do(t, "break")
			s.stays(p.node())
			p.do(t, "check")
			p.kill()
			if c.bound {
				s.goes(p.node())
			} else {
				s.stays(p.node())
			}
		})
	}
}

// The next host reads the processes of sessions that it did not see. If their ids and start times are not its own, their
// sessions have their timeouts.
func TestNextHostInOtherNamespaces(t *testing.T) {
	for _, c := range []struct {
		name  string
		flags []string
	}{
		{"user", nil},
		{"pid", []string{"--pid", "--mount-proc", "--fork", "--kill-child"}},
		{"pid, without a proc of its own", []string{"--pid", "--fork", "--kill-child"}},
		{"time", []string{"--time", "--boottime", "1000", "--fork", "--kill-child"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "s")
			first := startMember(t, dir, "/first")
			living := startBare(t, filepath.Join(dir, socketName))
			living.do(t, "/living")
			next := startMember(t, dir, "/next", namespaces(t, c.flags...))
			if !first.hosts || !living.bound || next.hosts {
				t.Fatalf("the first hosts: %t, the second: %t; the session belongs to its process: %t", first.hosts, next.hosts, living.bound)
			}
			first.kill()
			newOnlooker(t, dir).has("/living", "/next")
		})
	}
}

func startMember(t *testing.T, dir, node string, options ...func(*exec.Cmd)) *process {
	t.Helper()
	p := startProcess(t, dir, "member that stays", options...)
	p.connected(t)
	p.create(t, node)
	return p
}

// newOnlooker returns a scene whose host is another process. A host that ends a session wrongly had a moment to do so.
func newOnlooker(t *testing.T, dir string) *scene {
	t.Helper()
	client, err := zk.Dial(t.Context(), zk.Config{Servers: []string{"unix://" + filepath.Join(dir, socketName)}, SessionTimeout: longTimeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	time.Sleep(50 * time.Millisecond)
	return &scene{t: t, dir: dir, client: client}
}

// Two containers have one directory. The host is in one of them, then in the other, then outside. A process of the first
// one lives all the time, and other processes have its id in the other namespaces.
func TestContainersWithOneDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s")
	pod := startProcess(t, dir, "sleeper", namespaces(t, container...))
	pod.line(t)
	first := startMember(t, dir, "/first", in(t, pod))
	living := startBare(t, filepath.Join(dir, socketName), in(t, pod))
	living.do(t, "/living")
	second := startMember(t, dir, "/second", namespaces(t, container...))
	outside := startBare(t, filepath.Join(dir, socketName))
	outside.do(t, "/outside")
	if !first.hosts || second.hosts || !living.bound || outside.bound {
		t.Fatalf("the first hosts: %t, the second: %t; bound in the container: %t, outside: %t", first.hosts, second.hosts, living.bound, outside.bound)
	}
	syscall.Kill(childOf(t, first), syscall.SIGKILL)
	newOnlooker(t, dir).has("/living", "/second", "/outside")
	second.kill()
	host, err := OpenHost(zkserver.Config{Dir: dir, OneMachine: true})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	newOnlooker(t, dir).has("/living", "/second", "/outside")
}

// childOf returns the process that unshare or nsenter has started.
func childOf(t *testing.T, p *process) int {
	t.Helper()
	pid := p.cmd.Process.Pid
	list, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(list)))
	if err != nil {
		t.Fatalf("the children of %d: %q", pid, list)
	}
	return child
}

// in returns an option that starts a process in the namespaces of another one.
func in(t *testing.T, pod *process) func(*exec.Cmd) {
	t.Helper()
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		t.Skip(err)
	}
	target := strconv.Itoa(childOf(t, pod))
	return func(cmd *exec.Cmd) {
		cmd.Args = append([]string{"nsenter", "--target", target, "--user", "--pid", "--mount", "--net", "--preserve-credentials", cmd.Path}, cmd.Args[1:]...)
		cmd.Path = nsenter
	}
}

// inside is in the environment of the test that runs in a pid namespace.
const inside = "ZKLOCAL_TEST_INSIDE"

// The id of a dead process is that of a new one: the session of the dead ends, and that of the new one does not.
func TestReusedProcessIDs(t *testing.T) {
	if os.Getenv(inside) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestReusedProcessIDs$", "-test.v", fmt.Sprintf("-reuses=%d", *reuses))
		cmd.Env = append(os.Environ(), inside+"=1")
		namespaces(t, "--pid", "--mount-proc", "--fork", "--kill-child")(cmd)
		out, err := cmd.CombinedOutput()
		if t.Logf("%s", out); err != nil {
			t.Fatal(err)
		}
		return
	}
	s := newScene(t)
	living := startSteady(t, s.socket())
	for i := range *reuses {
		first := startBare(t, s.socket())
		pid, node := first.cmd.Process.Pid, fmt.Sprintf("/first-%d", i)
		first.do(t, node)
		if i%3 == 1 {
			first.do(t, "break") // the server waits for the end of the process
		}
		if i%3 == 2 {
			s.host.Close() // the next host finds another process at the id
		}
		time.Sleep(20 * time.Millisecond) // start times have steps of 10 ms
		first.kill()
		var second *bareProcess
		if i%3 == 2 {
			second = &bareProcess{process: reuseID(t, pid, func() *process { return startProcess(t, "", "sleeper") })}
			s.open()
		} else {
			second = &bareProcess{process: reuseID(t, pid, func() *process { return startBare(t, s.socket()).process })}
			second.do(t, fmt.Sprintf("/second-%d", i))
			second.do(t, "break")
		}
		s.goes(node)
		if i%3 != 2 {
			s.stays(fmt.Sprintf("/second-%d", i))
		}
		s.has(living.node())
		second.kill()
		if i%3 != 2 {
			s.goes(fmt.Sprintf("/second-%d", i))
		}
	}
	living.do(t, "check")
	t.Logf("%d ids of dead processes were those of others", *reuses)
}

func init() {
	moreRoles["sleeper"] = func(string) error {
		fmt.Println("ready")
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	}
}

// reuseID starts processes until one has the id.
func reuseID(t *testing.T, pid int, start func() *process) *process {
	t.Helper()
	for range 200 {
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0); err != nil {
			t.Skip(err)
		}
		p := start()
		if p.cmd.Process.Pid == pid {
			return p
		}
		p.kill()
	}
	t.Fatalf("no process gets the id %d", pid)
	return nil
}
