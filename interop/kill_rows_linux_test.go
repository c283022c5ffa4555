package interop

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	rival "github.com/go-zookeeper/zk"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"

	"holdfast"
	"holdfast/interop/peers"
	"holdfast/zk"
	"holdfast/zklocal"
)

// A killTable is the table of TestKillTable and what its rows use.
type killTable struct {
	t            *testing.T
	dir          string
	bin, witness string
	oom          *oomCage
	oomMissing   error
	alone        *peers.ZooKeeper
	rows         []*killRow
	began        time.Time
	load         string // of the machine, at the start
}

func (k *killTable) build() {
	k.bin, k.witness = holdfastBin(k.t), filepath.Join(k.dir, "witness")
	need(k.t, peers.NeedCommand("gcc", "gcc libc6-dev"))
	if out, err := exec.Command("gcc", "-O2", "-Wall", "-o", k.witness, filepath.Join("testdata", "witness.c")).CombinedOutput(); err != nil {
		k.t.Fatalf("gcc: %v\n%s", err, out)
	}
	if k.oom, k.oomMissing = newOOMCage(k.t, k.witness); k.oomMissing != nil {
		summarize("no kills for want of memory: " + k.oomMissing.Error())
	}
}

// apache starts servers with the tick of their default configuration, so that all clients get their default timeouts.
func (k *killTable) apache(servers int) *peers.ZooKeeper {
	ctx, cancel := context.WithTimeout(k.t.Context(), peerStart)
	defer cancel()
	dir, err := os.MkdirTemp(k.dir, "apache-")
	must(k.t, err)
	z, err := peers.StartZooKeeper(ctx, dir, peers.ZooKeeperConfig{Servers: servers, TickTime: 2 * time.Second})
	return closing(k.t, z, err)
}

// A killServer is a server with our command.
type killServer struct {
	name, url string
	env       []string
	bound     bool // the server knows when a process is dead
	goal      *killGoal
}

func (k *killTable) servers() []killServer {
	all := []killServer{{"file://", "file://" + newDirectory(k.t), nil, true, goalHere}}
	ca, socket := newAuthority(), filepath.Join(k.dir, "socket")
	files, err := ca.files(k.dir, "", ca.issue("server"))
	must(k.t, err)
	ctx, cancel := context.WithTimeout(k.t.Context(), peerStart)
	defer cancel()
	serve, err := peers.StartHoldfast(ctx, k.bin, filepath.Join(k.dir, "serve"), "--unix", socket,
		"--listen-tls", "127.0.0.1:0", "--tls-cert", files.KeyFile, "--tls-key", files.KeyFile)
	serve = closing(k.t, serve, err)
	all = append(all, killServer{"unix://", "unix://" + socket, nil, true, goalHere},
		killServer{"serve, TCP", serve.URL(), nil, false, goalHere},
		killServer{"serve, TLS", serve.SecureURL(), []string{"HOLDFAST_TLS_CA=" + files.TrustFile}, false, goalHere})
	if *killsPerRow > 0 {
		k.alone = k.apache(1)
		all = append(all, killServer{"Apache, alone", k.alone.URL(), nil, false, goalEnsemble},
			killServer{"Apache, three", k.apache(3).URL(), nil, false, goalEnsemble})
	}
	return all
}

// killSettle is how long a worker is absent before others get its shards, by default.
const killSettle = time.Second

// ourRows are the rows of the command, and of a Go program where the server knows when it is dead.
func (k *killTable) ourRows() (rows []*killRow) {
	shapes := slices.DeleteFunc(slices.Clone(commandShapes), func(s commandShape) bool {
		return s.argv[0] == "setpriv" && os.Geteuid() != 0 // only root can change its user
	})
	signals := []string{"KILL", "SEGV", "ABRT"}
	if k.oomMissing == nil {
		signals = append(signals, "OOM")
	}
	kills := *killsPerRow
	if kills == 0 {
		kills = 2
	}
	for _, s := range k.servers() {
		env := withoutSettings(append([]string{"HOLDFAST_SERVER=" + s.url}, s.env...))
		for _, form := range [][]string{{"run"}, {"elect"}, {"shard", "--count", "1"}, {"lock"}, {"Go program"}} {
			r := &killRow{server: s.name, holder: form[0], kills: kills, signals: signals, goal: s.goal, oom: k.oom}
			r.queued = func(ctx context.Context) error { return awaitKillQueue(ctx, k.bin, r.name(), env) }
			switch form[0] {
			case "lock":
				r.alone = true
			case "Go program":
				r.alone = true
				if !s.bound && (*killsPerRow == 0 || s.name != "serve, TCP" && s.name != "Apache, three") {
					continue
				}
				if !s.bound { // it has no watchdog
					r.holder, r.goal, r.kills, r.signals = "holdfast, Go program", nil, *killsBeside, signals[:1]
				}
			case "shard":
				r.goal = &killGoal{s.goal.p50 + killSettle, s.goal.p99 + killSettle, s.goal.most + killSettle}
				fallthrough
			default:
				r.shape = func(i int) string { return shapes[i/len(signals)%len(shapes)].name }
			}
			r.start = func(i int) *exec.Cmd {
				cmd := exec.Command(k.bin, form...)
				switch {
				case form[0] == "Go program":
					cmd = k.program("ours", s.url, r.name())
				case r.shape == nil:
					cmd.Args = append(cmd.Args, r.name())
				default:
					cmd.Args = append(cmd.Args, r.name(), "--")
					cmd.Args = append(cmd.Args, k.job(r, i, shapes[i/len(signals)%len(shapes)].argv)...)
				}
				cmd.Env = append(cmd.Env, env...)
				return cmd
			}
			rows = append(rows, r)
		}
	}
	return rows
}

// job is the command line of the i-th holder's job.
func (k *killTable) job(r *killRow, i int, argv []string) []string {
	file := filepath.Join(k.dir, strings.ReplaceAll(r.name(), "/", "-"))
	return append([]string{k.witness, file, fmt.Sprintf("%s:%d", r.name(), i)}, argv...)
}

// program is this test binary as a program that holds a lock.
func (k *killTable) program(library, server, name string, work ...string) *exec.Cmd {
	self, err := os.Executable()
	must(k.t, err)
	cmd := exec.Command(self)
	file := filepath.Join(k.dir, strings.ReplaceAll(name, "/", "-"))
	cmd.Env = []string{fmt.Sprintf("%s=killed %s %s %s %s %s", commandVar, library, server, name, file, strings.Join(work, " "))}
	return cmd
}

// withoutSettings returns the environment without the caller's settings, and with these variables.
func withoutSettings(more []string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "HOLDFAST_") })
	return append(env, more...)
}

// otherRows are the rows of other programs and libraries, with their default timeouts.
func (k *killTable) otherRows() []*killRow {
	for _, err := range []error{peers.NeedCommand("flock", "util-linux"), peers.NeedCommand("etcdctl", "etcd-client"), peers.NeedKazoo(), peers.NeedRedis(), peers.NeedEtcd()} {
		need(k.t, err)
	}
	ctx, cancel := context.WithTimeout(k.t.Context(), peerStart)
	defer cancel()
	etcdDir, redisDir := k.t.TempDir(), k.t.TempDir()
	etcd, err := peers.StartEtcd(ctx, etcdDir)
	etcd = closing(k.t, etcd, err)
	redis, err := peers.StartRedis(ctx, redisDir)
	redis = closing(k.t, redis, err)
	classes, addr := curatorClasses(k.t), k.alone.Addrs()[0]
	ready := sh("echo ready; exec sleep 1000")
	command := func(r *killRow, argv ...string) func(i int) *exec.Cmd {
		return func(i int) *exec.Cmd {
			return exec.Command(argv[0], append(argv[1:len(argv):len(argv)], k.job(r, i, ready)...)...)
		}
	}
	waits := func(context.Context) error { return nil }
	kills := []string{"KILL"}
	stuck := &killRow{server: "a file", holder: "flock", kills: 1, signals: kills, queued: waits, settle: time.Second, patience: 20 * time.Second, never: "when the job ends"}
	stuck.start = command(stuck, "flock", filepath.Join(k.dir, "flock-1"))
	local := &killRow{server: "a file", holder: "flock --no-fork", kills: *killsPerRow, signals: kills, queued: waits, settle: 30 * time.Millisecond, goal: goalHere}
	local.start = command(local, "flock", "--no-fork", filepath.Join(k.dir, "flock-2"))
	lease := &killRow{server: "etcd", holder: "etcdctl lock", kills: *killsBeside, signals: kills, queued: waits, settle: time.Second}
	lease.start = func(i int) *exec.Cmd {
		cmd := command(lease, "etcdctl", "--endpoints", etcd.URL(), "lock", "--", "kills")(i)
		cmd.Env = append(os.Environ(), "ETCDCTL_API=3")
		return cmd
	}
	program := func(server, holder string, start func(r *killRow) *exec.Cmd) *killRow {
		r := &killRow{server: server, holder: holder, kills: *killsBeside, signals: kills, settle: time.Second, alone: true}
		r.start = func(int) *exec.Cmd { return start(r) }
		return r
	}
	return []*killRow{local, stuck, lease,
		program("Apache, alone", "Curator InterProcessMutex", func(r *killRow) *exec.Cmd {
			return peers.Curator(context.Background(), classes, "KillLock", append([]string{addr, "/curator"}, k.job(r, 0, []string{"echo", "ready"})...)...)
		}),
		program("Apache, alone", "kazoo Lock", func(r *killRow) *exec.Cmd {
			return peers.Kazoo(context.Background(), "py/kill_lock.py", addr, "/kazoo", filepath.Join(k.dir, "kazoo"))
		}),
		program("Apache, alone", "go-zookeeper Lock", func(r *killRow) *exec.Cmd { return k.program("go-zookeeper", addr, r.name()) }),
		program("redis", "redsync", func(r *killRow) *exec.Cmd { return k.program("redsync", redis.Addr(), r.name()) }),
	}
}

func init() { moreCommands["killed"] = holdUntilKilled }

// holdUntilKilled holds a lock of a Go library. It prints what testdata/witness.c prints.
func holdUntilKilled(arg string) error {
	f := strings.Fields(arg)
	library, server, name, file := f[0], f[1], f[2], f[3]
	told := make(chan struct{})
	lock, err := killLock(library, server, name, told)
	if err != nil {
		return err
	}
	fmt.Println("waits")
	if err := lock(); err != nil {
		return err
	}
	began := bootTime()
	witness, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	busy := 0
	if unix.Flock(int(witness.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		busy = 1
	}
	fmt.Printf("began %d 0 %d\nready\n", began, busy)
	if len(f) > 4 {
		return workUntilTold(f[4], told)
	}
	select {}
}

// workUntilTold writes the time into a file, as testdata/witness.c does, until the program is told that the lock is lost.
func workUntilTold(name string, told <-chan struct{}) error {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	for {
		select {
		case <-told:
			fmt.Println("told")
			select {}
		case <-time.After(200 * time.Microsecond):
		}
		if _, err := file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(bootTime())), 0); err != nil {
			return err
		}
	}
}

// killLock connects to the server, and returns the function that waits for the lock. It closes told when the library says
// that the lock is lost.
func killLock(library, server, name string, told chan struct{}) (lock func() error, err error) {
	ctx := context.Background()
	switch library {
	case "ours":
		cfg, err := zk.ParseURL(server)
		if dir, ok := strings.CutPrefix(server, "file://"); ok {
			var store *zklocal.Store
			if store, err = zklocal.Open(zklocal.Config{Dir: dir}); err == nil {
				cfg = store.Config()
			}
		}
		if err != nil {
			return nil, err
		}
		c, err := zk.Dial(ctx, cfg)
		if err != nil {
			return nil, err
		}
		m := holdfast.NewMutex(c, "/holdfast/locks/"+name)
		return func() error {
			h, err := m.Lock(ctx)
			if err == nil {
				context.AfterFunc(h.Context(), func() { close(told) })
			}
			return err
		}, nil
	case "go-zookeeper": // it has no default timeout
		c, events, err := rival.Connect([]string{server}, 10*time.Second, rival.WithLogInfo(false), rival.WithLogger(silentLogger{}))
		if err != nil {
			return nil, err
		}
		go func() {
			for e := range events {
				if e.State == rival.StateExpired {
					close(told)
					return
				}
			}
		}()
		return rival.NewLock(c, "/"+filepath.Base(name), rival.WorldACL(rival.PermAll)).Lock, nil
	default: // it tells nobody
		m := redsync.New(goredis.NewPool(redis.NewClient(&redis.Options{Addr: server}))).NewMutex(name, redsync.WithTries(math.MaxInt32))
		return func() error { return m.LockContext(ctx) }, nil
	}
}
