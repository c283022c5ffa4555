package zklocal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"holdfast/internal/proc"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zkserver"
)

func init() { moreRoles["bare"], moreRoles["relay"] = bare, relay }

// longTimeout is the timeout of sessions that end at once when their processes are dead. It is much longer than the
// time within which a test wants that to happen.
const longTimeout = 40 * time.Second

// soon is that time. It only has to be shorter than longTimeout.
const soon = 10 * time.Second

// A wire is a connection that is used without a client.
type wire struct {
	net.Conn
	answer zkproto.ConnectResponse
}

// attach attaches nc to a session, new or old. named are the processes that it belongs to; nil names none.
func attach(nc net.Conn, session int64, passwd []byte, named *proc.Group) (*wire, error) {
	req := zkproto.ConnectRequest{Timeout: int32(longTimeout.Milliseconds()), SessionID: session, Passwd: passwd, HasReadOnly: true}
	if named != nil {
		req.Processes = named.Append(nil)
	}
	w := &wire{Conn: nc}
	if _, err := nc.Write(zkproto.EndFrame(req.Append(zkproto.BeginFrame(nil)), 0)); err != nil {
		return nil, err
	}
	frame, err := zkproto.ReadFrame(nc, nil, zkproto.MaxFrame)
	if err != nil {
		return nil, err
	}
	r := zkproto.NewReader(frame)
	w.answer.Decode(r)
	if r.Remaining() > 0 {
		w.answer.Bound = r.Bool()
	}
	if w.answer.Timeout <= 0 {
		return nil, errors.New("the session has ended")
	}
	return w, r.Complete()
}

func (w *wire) create(path string) error {
	const ephemeral = 1
	b := (&zkproto.RequestHeader{Xid: 1, Op: zkproto.OpCreate}).Append(zkproto.BeginFrame(nil))
	acl := []zkproto.ACL{{Perms: zkproto.PermAll, Scheme: "world", ID: "anyone"}}
	if _, err := w.Write(zkproto.EndFrame((&zkproto.CreateRequest{Path: path, ACL: acl, Flags: ephemeral}).Append(b), 0)); err != nil {
		return err
	}
	frame, err := zkproto.ReadFrame(w, nil, zkproto.MaxFrame)
	if err != nil {
		return err
	}
	var h zkproto.ReplyHeader
	if h.Decode(zkproto.NewReader(frame)); h.Err != zkproto.CodeOK {
		return h.Err
	}
	return nil
}

// bare connects to the socket of its directory without a client, names its process, and makes the nodes that it reads.
// Its other orders are: break, exec, and child, which ends it and leaves the connection to a child.
func bare(socket string) error {
	nc, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	self, err := proc.Self()
	if err != nil {
		return err
	}
	w, err := attach(nc, 0, make([]byte, 16), &self)
	if err != nil {
		return err
	}
	fmt.Printf("%d %x %t\n", w.answer.SessionID, w.answer.Passwd, w.answer.Bound)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch order := in.Text(); order {
		case "break":
			err = w.Close()
		case "exec": // the connection is closed by the kernel
			err = syscall.Exec("/bin/sh", []string{"sh", "-c", "echo done; exec cat"}, os.Environ())
		case "child":
			f, _ := nc.(*net.UnixConn).File()
			child := exec.Command("/bin/sh", "-c", "echo done; exec cat")
			child.Stdin, child.Stdout, child.ExtraFiles = os.Stdin, os.Stdout, []*os.File{f}
			if err = child.Start(); err == nil {
				os.Exit(0)
			}
		default:
			err = w.create(order)
		}
		if err != nil {
			return err
		}
		fmt.Println("done")
	}
	return nil
}

// A bareProcess is a process with the role "bare".
type bareProcess struct {
	*process
	passwd []byte
	bound  bool
}

func startBare(t *testing.T, socket string, options ...func(*exec.Cmd)) *bareProcess {
	t.Helper()
	p := &bareProcess{process: startProcess(t, socket, "bare", options...)}
	line := p.line(t)
	if _, err := fmt.Sscanf(line, "%d %x %t", &p.session, &p.passwd, &p.bound); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return p
}

func (p *bareProcess) do(t *testing.T, order string) {
	t.Helper()
	fmt.Fprintln(p.in, order)
	if line := p.line(t); line != "done" {
		t.Fatal(line)
	}
}

// A scene is a directory with its host, and a client that sees which nodes are there.
type scene struct {
	t      *testing.T
	dir    string
	host   *Host
	client *zk.Client
}

func newScene(t *testing.T) *scene {
	s := &scene{t: t, dir: filepath.Join(t.TempDir(), "s")}
	s.open()
	cfg := zk.Config{Servers: []string{"unix://" + s.socket()}, SessionTimeout: longTimeout}
	client, err := zk.Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.client = client
	t.Cleanup(func() { client.Close(); s.host.Close() })
	return s
}

func (s *scene) open() {
	s.t.Helper()
	var err error
	if s.host, err = OpenHost(zkserver.Config{Dir: s.dir, OneMachine: true}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) socket() string { return filepath.Join(s.dir, socketName) }

// goes waits until the node is gone.
func (s *scene) goes(path string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), soon)
	defer cancel()
	_, there, w, err := s.client.ExistsW(ctx, path)
	if err != nil {
		s.t.Fatal(err)
	}
	if !there {
		return
	}
	select {
	case <-w.C:
	case <-ctx.Done():
		s.t.Fatalf("%s is still there %v after its process has died", path, soon)
	}
}

// stays checks that the node is still there after the server has ended the session of another process that died later.
func (s *scene) stays(path string) {
	s.t.Helper()
	other := startBare(s.t, s.socket())
	node := fmt.Sprintf("/other-%d", other.session)
	other.do(s.t, node)
	other.kill()
	s.goes(node)
	time.Sleep(50 * time.Millisecond) // a server that ends the session wrongly may need a moment
	if _, there, err := s.client.Exists(s.t.Context(), path); err != nil || !there {
		s.t.Errorf("%s is gone, though its session lives: %v", path, err)
	}
}

func TestDeadProcessLosesItsSession(t *testing.T) {
	s := newScene(t)
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSEGV, syscall.SIGABRT} {
		p := startBare(t, s.socket(), func(cmd *exec.Cmd) { cmd.Stderr = io.Discard })
		if !p.bound {
			t.Fatal("the session does not belong to its process")
		}
		p.do(t, "/held")
		p.cmd.Process.Signal(sig)
		s.goes("/held")
	}
	if n := s.host.Server().Stats().SessionsDied; n != 3 {
		t.Errorf("%d sessions have ended with their processes, want 3", n)
	}
}

// A client of the package does it by itself, and so does a lock.
func TestDeadClientLosesItsSession(t *testing.T) {
	s := newScene(t)
	p := startProcess(t, s.dir, "member that stays")
	p.connected(t)
	p.create(t, "/held")
	p.kill()
	s.goes("/held")
}

func TestLivingProcessKeepsItsSession(t *testing.T) {
	s := newScene(t)
	t.Run("stopped", func(t *testing.T) {
		p := startBare(t, s.socket())
		p.do(t, "/stopped")
		p.cmd.Process.Signal(syscall.SIGSTOP)
		s.stays("/stopped")
		p.cmd.Process.Signal(syscall.SIGCONT)
		p.do(t, "/continued")
	})
	t.Run("broken connection", func(t *testing.T) {
		p := startBare(t, s.socket())
		p.do(t, "/broken")
		p.do(t, "break")
		s.stays("/broken")
		p.kill() // without a connection, too
		s.goes("/broken")
	})
	t.Run("exec", func(t *testing.T) {
		p := startBare(t, s.socket())
		p.do(t, "/exec")
		p.do(t, "exec")
		s.stays("/exec")
		p.kill()
		s.goes("/exec")
	})
	t.Run("a child has the connection", func(t *testing.T) {
		p := startBare(t, s.socket())
		p.do(t, "/child")
		p.do(t, "child")
		p.cmd.Process.Wait()
		s.stays("/child")
		p.in.Close() // ends the child
		s.goes("/child")
	})
}

// A process cannot make its session belong to another process, nor can a client that connects through one.
func TestOnlyThePeerIsBelieved(t *testing.T) {
	s := newScene(t)
	victim := startBare(t, s.socket())
	start := func(named *proc.Group) *wire {
		nc, err := net.Dial("unix", s.socket())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		w, err := attach(nc, 0, make([]byte, 16), named)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	self, err := proc.Self()
	if err != nil {
		t.Fatal(err)
	}
	other, err := self.With(victim.cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	changed := func(f func(*proc.Group)) *proc.Group {
		g := self
		g.IDs = append([]proc.ID(nil), self.IDs...)
		f(&g)
		return &g
	}
	for name, c := range map[string]struct {
		named *proc.Group
		bound bool
	}{
		"itself":                   {&self, true},
		"with another":             {&other, true},
		"nobody":                   {nil, false},
		"another process":          {changed(func(g *proc.Group) { g.IDs = other.IDs[1:] }), false},
		"an earlier process":       {changed(func(g *proc.Group) { g.IDs[0].Start-- }), false},
		"of another pid namespace": {changed(func(g *proc.Group) { g.Namespace++ }), false},
		"of another boot":          {changed(func(g *proc.Group) { g.Boot[0]++ }), false},
	} {
		if w := start(c.named); w.answer.Bound != c.bound {
			t.Errorf("%s: bound %t, want %t", name, w.answer.Bound, c.bound)
		}
	}
	w := start(changed(func(g *proc.Group) { g.IDs = other.IDs[1:] }))
	if err := w.create("/claimed"); err != nil {
		t.Fatal(err)
	}
	victim.kill()
	w.Close()
	s.stays("/claimed")
}

// A relay is the peer of the server. When it dies, the clients behind it lose nothing.
func TestRelayIsNotTheClient(t *testing.T) {
	s := newScene(t)
	path := filepath.Join(t.TempDir(), "relay")
	relay := startProcess(t, s.socket(), "relay", func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, relayVar+"="+path) })
	relay.line(t)
	p := startBare(t, path)
	if p.bound {
		t.Error("the session of a client behind a relay belongs to a process")
	}
	p.do(t, "/relayed")
	relay.kill()
	s.stays("/relayed")
}

const relayVar = "ZKLOCAL_TEST_RELAY"

// relay passes the bytes of connections to its path on to another socket.
func relay(socket string) error {
	l, err := net.Listen("unix", os.Getenv(relayVar))
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for {
		client, err := l.Accept()
		if err != nil {
			return err
		}
		server, err := net.Dial("unix", socket)
		if err != nil {
			return err
		}
		go io.Copy(server, client)
		go io.Copy(client, server)
	}
}

// A client of another pid namespace has its timeout: the numbers of its processes mean others here.
func TestOtherNamespaceKeepsTheTimeout(t *testing.T) {
	s := newScene(t)
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Skip(err)
	}
	p := startProcess(t, s.socket(), "bare", func(cmd *exec.Cmd) {
		cmd.Path, cmd.Args = unshare, []string{"unshare", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc", cmd.Path}
	})
	if !p.out.Scan() {
		t.Skip("no pid namespaces here")
	}
	if strings.HasSuffix(p.out.Text(), "true") {
		t.Error("the session of a client in another pid namespace belongs to its process")
	}
	fmt.Fprintln(p.in, "/elsewhere")
	p.line(t)
	p.kill()
	s.stays("/elsewhere")
}

// The processes of sessions are in the store: when the host is killed, the next one ends the sessions of the dead, and
// those of the living go on. The host's own client is among the dead.
func TestNextHostEndsTheSessionsOfTheDead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s")
	host := startProcess(t, dir, "member that stays")
	host.connected(t)
	if !host.hosts {
		t.Fatal("the first process does not host")
	}
	host.create(t, "/host")
	dead, living := startBare(t, filepath.Join(dir, socketName)), startBare(t, filepath.Join(dir, socketName))
	dead.do(t, "/dead")
	living.do(t, "/living")
	var both sync.WaitGroup // both are dead before the next host begins
	for _, p := range []*process{host, dead.process} {
		both.Go(p.kill)
	}
	both.Wait()
	s := &scene{t: t, dir: dir}
	s.open()
	defer s.host.Close()
	client, err := zk.Dial(t.Context(), zk.Config{Servers: []string{"unix://" + s.socket()}, SessionTimeout: longTimeout})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	s.client = client
	s.goes("/host")
	s.goes("/dead")
	s.stays("/living")
	living.kill()
	s.goes("/living")
}

// A session that another process has taken over does not end with the first one, and the next host knows.
func TestSessionThatHasMoved(t *testing.T) {
	for _, c := range []struct {
		name  string
		named bool
	}{{"to a client that names itself", true}, {"to a client of another library", false}} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t)
			p := startBare(t, s.socket())
			p.do(t, "/moved")
			nc, err := net.Dial("unix", s.socket())
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			var named *proc.Group
			if c.named {
				self, err := proc.Self()
				if err != nil {
					t.Fatal(err)
				}
				named = &self
			}
			w, err := attach(nc, p.session, p.passwd, named)
			if err != nil || w.answer.Bound != c.named {
				t.Fatalf("bound %t, %v", w.answer.Bound, err)
			}
			p.kill()
			s.stays("/moved")
			w.Close()
			s.stays("/moved")
			s.host.Close()
			s.open()
			s.stays("/moved")
		})
	}
}

// A session can belong to further processes, and ends when the last of them has died.
func TestSharedSession(t *testing.T) {
	s := newScene(t)
	p := startProcess(t, s.dir, "member that stays")
	p.connected(t)
	p.create(t, "/shared")
	sharer := exec.Command("/bin/cat")
	in, err := sharer.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := sharer.Start(); err != nil {
		t.Fatal(err)
	}
	defer sharer.Wait()
	defer in.Close()
	p.create(t, fmt.Sprint(sharer.Process.Pid))
	p.kill()
	s.stays("/shared")
	s.host.Close()
	s.open()
	s.stays("/shared")
	in.Close()
	sharer.Wait()
	s.goes("/shared")
}

// Config.Outlive keeps the timeout.
func TestOutlive(t *testing.T) {
	s := newScene(t)
	p := startProcess(t, s.dir, "member that outlives")
	p.connected(t)
	p.create(t, "/kept")
	p.kill()
	s.stays("/kept")
}

// Each connection that has ended costs a descriptor at most while its process lives, and there is a limit.
func TestManyOrphansFewDescriptors(t *testing.T) {
	s := newScene(t)
	self, err := proc.Self()
	if err != nil {
		t.Fatal(err)
	}
	before := openDescriptors(t)
	for range 600 {
		nc, err := net.Dial("unix", s.socket())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := attach(nc, 0, make([]byte, 16), &self); err != nil {
			t.Fatal(err)
		}
		nc.Close()
	}
	s.stays("/")
	if n := openDescriptors(t) - before; n > 300 {
		t.Errorf("%d descriptors for 600 sessions without a connection", n)
	}
}

func openDescriptors(t *testing.T) int {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}
