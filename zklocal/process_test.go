//go:build unix

package zklocal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"holdfast"
	"holdfast/zk"
	"holdfast/zkserver"
)

// The test binary runs itself as other processes that share a directory. The environment
// selects the role of such a process.
const (
	roleVar = "ZKLOCAL_TEST_ROLE"
	dirVar  = "ZKLOCAL_TEST_DIR"
)

func TestMain(m *testing.M) {
	dir := os.Getenv(dirVar)
	var err error
	switch role := os.Getenv(roleVar); role {
	case "":
		goleak.VerifyTestMain(m)
	case "member":
		err = member(Config{Dir: dir})
	case "member that stays":
		err = memberWith(Config{Dir: dir}, func(c *zk.Config) { c.SessionTimeout = 40 * time.Second })
	case "member that outlives":
		err = memberWith(Config{Dir: dir}, func(c *zk.Config) { c.SessionTimeout, c.Outlive = 40*time.Second, true })
	case "member that starts hosts":
		err = member(Config{Dir: dir, StartHost: startHost})
	case "host":
		err = host(dir, 0)
	case "host with linger":
		err = host(dir, 2*time.Second)
	case "locker":
		err = locker(Config{Dir: dir, StartHost: startHost})
	case "user":
		err = user(Config{Dir: dir, StartHost: startHost})
	case "user that hosts":
		err = user(Config{Dir: dir})
	case "locker that hosts":
		err = locker(Config{Dir: dir})
	case "locker without inotify":
		// In its own user namespace, with its own limits.
		if err = os.WriteFile("/proc/sys/user/max_inotify_instances", []byte("0"), 0); err == nil {
			err = locker(Config{Dir: dir, StartHost: startHost})
		}
	case "any umask":
		err = anyUmask(dir)
	default:
		if err = fmt.Errorf("unknown role %q", role); moreRoles[role] != nil {
			err = moreRoles[role](dir)
		}
	}
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// moreRoles are the roles of tests for one system.
var moreRoles = make(map[string]func(dir string) error)

// member connects and reports its session and whether it hosts. It makes a node for every
// path that it reads, until its input ends. A number shares the session with a process.
func member(cfg Config) error { return memberWith(cfg, func(*zk.Config) {}) }

func memberWith(cfg Config, change func(*zk.Config)) error {
	started := 0
	if start := cfg.StartHost; start != nil {
		cfg.StartHost = func(dir string) error { started++; return start(dir) }
	}
	store, err := Open(cfg)
	if err != nil {
		return err
	}
	defer store.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	zkConfig := store.Config()
	zkConfig.SessionTimeout = 4 * time.Second // the least that the host grants
	change(&zkConfig)
	client, err := zk.Dial(ctx, zkConfig)
	if err != nil {
		return err
	}
	defer client.Close()
	session, err := client.Session(ctx)
	if err != nil {
		return err
	}
	fmt.Println(session.ID(), store.hosts(), started)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if pid, err := strconv.Atoi(in.Text()); err == nil { // no path, but a process that the session is shared with
			if err := client.Share(ctx, pid); err != nil {
				return err
			}
		} else if _, _, err := client.Create(ctx, in.Text(), nil, zk.Ephemeral); err != nil {
			return err
		}
		fmt.Println("created")
	}
	return nil
}

const lockPath = "/holdfast/locks/nightly"

// locker begins when it reads a line. It acquires a lock, reports that and the loss, and ends
// with its input.
func locker(cfg Config) error {
	in := bufio.NewScanner(os.Stdin)
	if !in.Scan() {
		return in.Err()
	}
	store, err := Open(cfg)
	if err != nil {
		return err
	}
	defer store.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	zkConfig := store.Config()
	zkConfig.SessionTimeout = 4 * time.Second // the least that the host grants
	client, err := zk.Dial(ctx, zkConfig)
	if err != nil {
		return err
	}
	defer client.Close()
	go func() { // reports "queued" when it is the second of two
		for {
			queue, err := holdfast.List(ctx, client, lockPath)
			if err != nil {
				return
			}
			if len(queue) == 2 {
				fmt.Println("queued")
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	hold, err := holdfast.NewMutex(client, lockPath).Lock(ctx)
	if err != nil {
		return err
	}
	fmt.Println("held", time.Now().UnixNano())
	go func() {
		<-hold.Lost()
		fmt.Println("lost", time.Now().UnixNano(), context.Cause(hold.Context()))
	}()
	for in.Scan() {
	}
	return nil
}

// user acquires a lock again and again until its input ends. It reports the times from when to
// when it held the lock.
func user(cfg Config) error {
	store, err := Open(cfg)
	if err != nil {
		return err
	}
	defer store.Close()
	zkConfig := store.Config()
	zkConfig.SessionTimeout = 4 * time.Second // the least that the host grants
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		defer cancel()
		io.Copy(io.Discard, os.Stdin)
	}()
	client, err := zk.Dial(ctx, zkConfig)
	if err != nil {
		return nil // the input has ended
	}
	defer client.Close()
	for {
		hold, err := holdfast.NewMutex(client, lockPath).Lock(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		from, long := time.Now().UnixNano(), rand.N(20*time.Millisecond)
		if rand.N(3) == 0 {
			long = time.Second // so that the directory can be removed meanwhile
		}
		select {
		case <-hold.Lost():
		case <-ctx.Done():
		case <-time.After(long):
		}
		fmt.Println("had", from, time.Now().UnixNano(), context.Cause(hold.Context()))
		hold.Unlock()
	}
}

// host does what the command does as a detached host.
func host(dir string, linger time.Duration) error {
	h, err := OpenHost(zkserver.Config{Dir: dir, Linger: linger})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	<-h.Done()
	return h.Err()
}

// startHost starts a host that outlives this process.
func startHost(dir string) error {
	_, err := startHostProcess(dir)
	return err
}

func startHostProcess(dir string) (*exec.Cmd, error) {
	cmd := roleCommand(dir, "host with linger")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		cmd.Wait()
		return nil, errors.New(line)
	}
	return cmd, nil
}

// hostStarter returns a StartHost whose hosts end with the test. Call it before making the
// stores and clients: these are then closed before their hosts end.
func hostStarter(t *testing.T) func(dir string) error {
	var (
		mu    sync.Mutex
		hosts []*exec.Cmd
	)
	t.Cleanup(func() {
		for _, cmd := range hosts {
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
	return func(dir string) error {
		cmd, err := startHostProcess(dir)
		if err == nil {
			mu.Lock()
			hosts = append(hosts, cmd)
			mu.Unlock()
		}
		return err
	}
}

func roleCommand(dir, role string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVar+"="+role, dirVar+"="+dir)
	cmd.Stderr = os.Stderr
	return cmd
}

// process is another process that plays one of the roles.
type process struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	stdout  *os.File
	out     *bufio.Scanner // its stdout
	session int64
	hosts   bool
	started int
}

func startProcess(t *testing.T, dir, role string, options ...func(*exec.Cmd)) *process {
	t.Helper()
	p := &process{cmd: roleCommand(dir, role)}
	for _, o := range options {
		o(p.cmd)
	}
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.stdout = out.(*os.File)
	p.stdout.SetReadDeadline(time.Now().Add(patience))
	p.out = bufio.NewScanner(p.stdout)
	t.Cleanup(func() {
		p.kill()
	})
	return p
}

// patient removes the read deadline: reads last as long as the process lives.
func (p *process) patient() { p.stdout.SetReadDeadline(time.Time{}) }

func (p *process) line(t *testing.T) string {
	t.Helper()
	if !p.out.Scan() {
		t.Fatalf("process %d said nothing: %v", p.cmd.Process.Pid, p.out.Err())
	}
	return p.out.Text()
}

func (p *process) connected(t *testing.T) {
	t.Helper()
	line := p.line(t)
	if _, err := fmt.Sscan(line, &p.session, &p.hosts, &p.started); err != nil {
		t.Fatalf("process %d said %q", p.cmd.Process.Pid, line)
	}
}

func (p *process) create(t *testing.T, path string) {
	t.Helper()
	fmt.Fprintln(p.in, path)
	if line := p.line(t); line != "created" {
		t.Fatalf("process %d said %q", p.cmd.Process.Pid, line)
	}
}

func (p *process) kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

func hostPID(t *testing.T, dir string) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, hostPIDName))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(b))
	if err != nil || pid == os.Getpid() {
		t.Fatalf("host.pid: got %q; want another process", b)
	}
	return pid
}

// endHosts kills the host that a member has started, which is not our child. Then it waits
// until the directory has no host.
func endHosts(t *testing.T, dir string) {
	t.Helper()
	for wait := (backoff{}); wait.total < patience; wait.pause(context.Background()) {
		lock, err := tryLock(filepath.Join(dir, hostLockName))
		if err == nil {
			lock.unlock()
			return
		}
		if wait.total == 0 {
			if err := syscall.Kill(hostPID(t, dir), syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}
	}
	t.Error("the host does not end after it was killed")
}
