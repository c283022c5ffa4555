//go:build unix

package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A ZooKeeperConfig says what StartZooKeeper starts.
type ZooKeeperConfig struct {
	Servers  int           // 0 or 1: one server alone; 3: an ensemble
	TickTime time.Duration // 0 = 500 ms; session timeouts are clamped to [2,20] ticks
	Relays   bool          // let the servers of an ensemble talk through relays, for Cut and Heal

	Settings []string // more lines of zoo.cfg
	Flags    []string // more flags of the JVM, as -Dname=value
	TLS      *ZooKeeperTLS

	// ClockRate is how fast the clocks of all servers run, by libfaketime; 0: like the
	// machine's, without it. See [NeedFaketime]. With it, TickTime is what they take for it.
	ClockRate float64
	WallClock *WallClock // moves the clocks of all servers; nil leaves them
}

// A ZooKeeperTLS lets servers listen for TLS on a second port. The files are PEM.
type ZooKeeperTLS struct {
	KeyFile    string // the private key (PKCS #8) and its certificate
	TrustFile  string // the certificates of those who may vouch for clients
	ClientAuth string // none, want or need
}

// A ZooKeeper is a running Apache ZooKeeper: one server alone, or an ensemble.
// Its servers are numbered from 0. The methods that change a server are for one
// goroutine at a time.
type ZooKeeper struct {
	servers []*zkServer
	cfg     ZooKeeperConfig
	tick    time.Duration
	relays  map[[2]int][]*relay // from one server to another: its port for followers and that for elections
}

type zkServer struct {
	dir  string
	port int
	tls  int      // the port for TLS; 0 if there is none
	args []string // more flags of the JVM
	rate float64  // of its clocks; 0: those of the machine
	wall *WallClock
	proc *Process // nil while killed
}

// StartZooKeeper starts Apache ZooKeeper with its data and logs in dir and
// returns when every server serves clients. Without Java or ZooKeeper the error
// is a [MissingError].
func StartZooKeeper(ctx context.Context, dir string, cfg ZooKeeperConfig) (*ZooKeeper, error) {
	if _, err := serverClassPath(cfg.TLS != nil); err != nil {
		return nil, err
	}
	cfg.Servers = max(1, cfg.Servers)
	if cfg.TickTime == 0 {
		cfg.TickTime = 500 * time.Millisecond
	}
	for attempt := 1; ; attempt++ {
		z, err := startZooKeeper(ctx, filepath.Join(dir, strconv.Itoa(attempt)), cfg)
		// Between picking a port and using it somebody else may take it; the
		// server then ends at once.
		if errors.Is(err, errExited) && attempt < 3 {
			continue
		}
		return z, err
	}
}

func startZooKeeper(ctx context.Context, dir string, cfg ZooKeeperConfig) (_ *ZooKeeper, err error) {
	ports, err := freePorts(4 * cfg.Servers)
	if err != nil {
		return nil, err
	}
	z := &ZooKeeper{cfg: cfg, tick: cfg.TickTime, relays: make(map[[2]int][]*relay)}
	defer func() {
		if err != nil {
			var log strings.Builder
			z.WriteLogs(&log)
			z.Close()
			err = fmt.Errorf("%w\n%s", err, log.String())
		}
	}()
	for i := range cfg.Servers {
		s := &zkServer{dir: filepath.Join(dir, strconv.Itoa(i)), port: ports[3*i], args: cfg.Flags, rate: cfg.ClockRate, wall: cfg.WallClock}
		if cfg.TLS != nil {
			s.tls = ports[3*cfg.Servers+i]
		}
		z.servers = append(z.servers, s)
	}
	if err := z.configure(ports); err != nil {
		return nil, err
	}
	for _, s := range z.servers {
		if err := s.start(); err != nil {
			return nil, err
		}
	}
	for i := range z.servers {
		if err := z.AwaitReady(ctx, i); err != nil {
			return nil, err
		}
	}
	return z, nil
}

// configure writes the files of all servers.
func (z *ZooKeeper) configure(ports []int) error {
	for i, s := range z.servers {
		members, err := z.members(i, z.cfg, ports)
		if err != nil {
			return err
		}
		if err := s.configure(i, z.cfg, members); err != nil {
			return err
		}
	}
	for ends, relays := range z.relays {
		back := z.relays[[2]int{ends[1], ends[0]}]
		relays[1].returns(loopback(ports[3*ends[0]+2]), back[1])
	}
	return nil
}

// Grow restarts a server that is alone as a member of an ensemble of n, on its port and with
// its data, which the others take over. It returns when all serve.
func (z *ZooKeeper) Grow(ctx context.Context, n int) error {
	ports, err := freePorts(4 * n)
	if err != nil {
		return err
	}
	if err := z.Kill(0); err != nil {
		return err
	}
	first := z.servers[0]
	ports[0], z.cfg.Servers = first.port, n
	for i := 1; i < n; i++ {
		z.servers = append(z.servers, &zkServer{dir: filepath.Join(filepath.Dir(first.dir), strconv.Itoa(i)), port: ports[3*i], args: first.args, rate: first.rate, wall: first.wall})
	}
	if err := z.configure(ports); err != nil {
		return err
	}
	// Without the first server, the others would be a quorum that knows nothing.
	for i, s := range z.servers {
		if err := s.start(); err != nil {
			return err
		}
		if i+1 > n/2 {
			if err := z.AwaitReady(ctx, i); err != nil {
				return err
			}
		}
	}
	return z.AwaitReady(ctx, 0)
}

// members is the ensemble as server i is told of it: with Relays, the others stand
// behind one each.
func (z *ZooKeeper) members(i int, cfg ZooKeeperConfig, ports []int) (string, error) {
	var text strings.Builder
	for j := range cfg.Servers {
		if cfg.Servers == 1 {
			break
		}
		quorum, election := ports[3*j+1], ports[3*j+2]
		if cfg.Relays && i != j {
			for k, port := range []*int{&quorum, &election} {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					return "", err
				}
				patience := 2 * time.Second
				if k == 1 { // a server that is down is refused at elections, and asked again
					patience = 0
				}
				z.relays[[2]int{i, j}] = append(z.relays[[2]int{i, j}], newRelay(l, loopback(*port), patience))
				*port = l.Addr().(*net.TCPAddr).Port
			}
		}
		fmt.Fprintf(&text, "server.%d=127.0.0.1:%d:%d\n", j, quorum, election)
	}
	return text.String(), nil
}

// Cut parts server i from the others, which do not notice but by silence; clients still
// reach it. It needs Relays.
func (z *ZooKeeper) Cut(i int) { z.setRelays(i, true, true) }

// Mute loses what server i says to the others, who are heard by it; Deafen is the reverse.
// They need Relays.
func (z *ZooKeeper) Mute(i int) { z.setRelays(i, false, true) }

// Deafen loses what the others say to server i.
func (z *ZooKeeper) Deafen(i int) { z.setRelays(i, true, false) }

// Heal undoes Cut, Mute and Deafen.
func (z *ZooKeeper) Heal(i int) { z.setRelays(i, false, false) }

// Hold holds up the messages of server i to server j, or lets them go. Those of j to i pass,
// and no connection breaks. It needs Relays.
func (z *ZooKeeper) Hold(i, j int, on bool) {
	for _, r := range z.relays[[2]int{i, j}] {
		r.hold(true, on)
	}
	for _, r := range z.relays[[2]int{j, i}] {
		r.hold(false, on)
	}
}

// setRelays cuts what is said to server i, what it says, or neither.
func (z *ZooKeeper) setRelays(i int, to, from bool) {
	for ends, relays := range z.relays {
		for _, r := range relays {
			switch i {
			case ends[0]: // it makes the connections
				r.set(from, to)
			case ends[1]:
				r.set(to, from)
			}
		}
	}
}

func (s *zkServer) configure(id int, cfg ZooKeeperConfig, members string) error {
	data := filepath.Join(s.dir, "data")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(data, "myid"), []byte(strconv.Itoa(id)), 0o600); err != nil {
		return err
	}
	text := fmt.Sprintf(`tickTime=%d
initLimit=20
syncLimit=5
dataDir=%s
clientPort=%d
clientPortAddress=127.0.0.1
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=srvr,ruok
preAllocSize=1024
%s%s
`, cfg.TickTime.Milliseconds(), data, s.port, members, strings.Join(cfg.Settings, "\n"))
	if t := cfg.TLS; t != nil {
		text += fmt.Sprintf(`secureClientPort=%d
secureClientPortAddress=127.0.0.1
serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
ssl.keyStore.location=%s
ssl.trustStore.location=%s
ssl.clientAuth=%s
authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider
`, s.tls, t.KeyFile, t.TrustFile, t.ClientAuth)
	}
	return errors.Join(os.WriteFile(filepath.Join(s.dir, "zoo.cfg"), []byte(text), 0o600),
		os.WriteFile(filepath.Join(s.dir, "logback.xml"), []byte(logback), 0o600))
}

func (s *zkServer) start() error {
	log, err := openLog(s.dir)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own copy
	jars, err := serverClassPath(s.tls != 0)
	if err != nil {
		return err
	}
	args := append([]string{}, jvmFlags...)
	args = append(args, "-Dzookeeper.extendedTypesEnabled=true") // nodes with a time to live
	args = append(args, s.args...)                               // of two that contradict each other, the JVM takes the last
	args = append(args,
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		// It warns of every client that hangs up.
		"-Dorg.slf4j.simpleLogger.log.org.apache.zookeeper.server.NIOServerCnxn=error",
		"-Dlogback.configurationFile="+filepath.Join(s.dir, "logback.xml"),
		"-cp", strings.Join(jars, string(filepath.ListSeparator)),
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(s.dir, "zoo.cfg"))
	cmd := exec.Command("java", args...)
	cmd.Dir = s.dir
	cmd.Stdout, cmd.Stderr = log, log
	if s.rate != 0 {
		env, err := clockEnv(s.rate)
		if err != nil {
			return err
		}
		cmd.Env = append(cmd.Environ(), env...)
	}
	if s.wall != nil {
		cmd.Env = append(cmd.Environ(), s.wall.env()...)
	}
	s.proc, err = Start(cmd)
	return err
}

// Addrs is the client address of every server, in order.
func (z *ZooKeeper) Addrs() []string {
	addrs := make([]string, len(z.servers))
	for i, s := range z.servers {
		addrs[i] = loopback(s.port)
	}
	return addrs
}

// SecureURL is zks://h1:p,h2:p,h3:p, of the ports for TLS.
func (z *ZooKeeper) SecureURL() string {
	addrs := make([]string, len(z.servers))
	for i, s := range z.servers {
		addrs[i] = loopback(s.tls)
	}
	return "zks://" + strings.Join(addrs, ",")
}

// URL is zk://h1:p,h2:p,h3:p.
func (z *ZooKeeper) URL() string { return "zk://" + strings.Join(z.Addrs(), ",") }

// DataDirs returns the servers' directories with their logs and snapshots.
func (z *ZooKeeper) DataDirs() (dirs []string) {
	for _, s := range z.servers {
		dirs = append(dirs, filepath.Join(s.dir, "data"))
	}
	return dirs
}

// Tick is the servers' tickTime.
func (z *ZooKeeper) Tick() time.Duration { return z.tick }

// Pid is the process id of server i.
func (z *ZooKeeper) Pid(i int) int { return z.servers[i].proc.Pid() }

// Mode is what server i says that it is, "standalone", "leader" or "follower"; an error if
// it does not serve.
func (z *ZooKeeper) Mode(ctx context.Context, i int) (string, error) { return mode(ctx, z.Addrs()[i]) }

// Leader is the number of the server that leads now.
func (z *ZooKeeper) Leader(ctx context.Context) (int, error) {
	for i, addr := range z.Addrs() {
		if m, err := mode(ctx, addr); err == nil && m == "leader" {
			return i, nil
		}
	}
	return 0, errors.New("peers: no server leads")
}

// AwaitLeader returns the number of the server that leads, when all others follow: one
// that has been stopped still says for a moment that it leads.
func (z *ZooKeeper) AwaitLeader(ctx context.Context) (int, error) {
	for {
		leader, followers := 0, 0
		for i, addr := range z.Addrs() {
			switch m, _ := mode(ctx, addr); m {
			case "leader":
				leader = i
			case "follower":
				followers++
			}
		}
		if followers == len(z.servers)-1 {
			if m, _ := mode(ctx, z.Addrs()[leader]); m == "leader" {
				return leader, nil
			}
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("peers: no server leads all others: %w", context.Cause(ctx))
		case <-time.After(50 * time.Millisecond): // it has no event to wait for
		}
	}
}

// Kill ends server i with SIGKILL and returns when it is gone.
func (z *ZooKeeper) Kill(i int) error {
	s := z.servers[i]
	err := s.proc.Kill()
	if s.rate != 0 && s.proc != nil {
		forgetClock(s.proc.Pid())
	}
	s.proc = nil
	return err
}

// Stop freezes server i with SIGSTOP: its connections stay open and silent.
func (z *ZooKeeper) Stop(i int) error { return z.servers[i].proc.Signal(syscall.SIGSTOP) }

// Continue undoes Stop.
func (z *ZooKeeper) Continue(i int) error { return z.servers[i].proc.Signal(syscall.SIGCONT) }

// Restart starts server i again after Kill, on the same port and data, and
// returns when it serves clients.
func (z *ZooKeeper) Restart(ctx context.Context, i int) error {
	if err := z.Kill(i); err != nil {
		return err
	}
	if err := z.servers[i].start(); err != nil {
		return err
	}
	return z.AwaitReady(ctx, i)
}

// AwaitReady returns when server i serves clients.
func (z *ZooKeeper) AwaitReady(ctx context.Context, i int) error {
	s := z.servers[i]
	return awaitMode(ctx, loopback(s.port), s.proc)
}

// WriteLogs writes the end of every server's log to w, for a test that failed.
func (z *ZooKeeper) WriteLogs(w io.Writer) {
	for i, s := range z.servers {
		fmt.Fprintf(w, "--- ZooKeeper server %d, 127.0.0.1:%d\n", i, s.port)
		tail(w, s.dir)
	}
}

// Close kills all servers. Their files stay where they are.
func (z *ZooKeeper) Close() error {
	var errs []error
	for i := range z.servers {
		errs = append(errs, z.Kill(i))
	}
	for _, relays := range z.relays {
		for _, r := range relays {
			r.close()
		}
	}
	return errors.Join(errs...)
}
