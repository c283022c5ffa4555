package asynqholdfast

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"holdfast"
	"holdfast/zk"
	"holdfast/zktest"
)

var redisSocket string

func TestMain(m *testing.M) {
	os.Exit(withRedis(m.Run))
}

// withRedis runs the tests with a Redis server, if there is one. It listens on a socket only.
func withRedis(run func() int) int {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		if os.Getenv("CI") == "true" {
			fmt.Println("install redis-server")
			return 1
		}
		fmt.Println("redis-server is not installed: the tests of asynq are left out")
		return run()
	}
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "redis")
	cmd := exec.Command(program, "--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "", "--appendonly", "no", "--loglevel", "warning")
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	redisSocket = socket
	ping := asynq.NewInspector(redis())
	defer ping.Close()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		_, err := ping.Queues()
		if err == nil {
			return run()
		}
		if time.Now().After(end) {
			fmt.Println("redis-server does not answer:", err)
			return 1
		}
	}
}

func redis() asynq.RedisClientOpt { return asynq.RedisClientOpt{Network: "unix", Addr: redisSocket} }

func redisServer() (asynq.RedisClientOpt, bool) { return redis(), redisSocket != "" }

// An enqueued task says which host has enqueued it, and when.
type enqueued struct {
	host int
	at   time.Time
}

// A fleet is some hosts that run the example's scheduler.
type fleet struct {
	t   *testing.T
	srv *zktest.Server
	all chan enqueued

	hosts []*host
}

type host struct {
	client *zk.Client
	cancel context.CancelFunc
	done   chan error
}

func newFleet(t *testing.T, n int) *fleet {
	if redisSocket == "" {
		t.Skip("no redis-server")
	}
	f := &fleet{t: t, srv: zktest.NewServer(zktest.TickTime(500 * time.Millisecond)), all: make(chan enqueued, 1000)}
	t.Cleanup(f.srv.Close)
	for i := range n {
		c := f.srv.Client()
		ctx, cancel := context.WithCancel(t.Context())
		h := &host{c, cancel, make(chan error, 1)}
		opts := &asynq.SchedulerOpts{LogLevel: asynq.FatalLevel, PostEnqueueFunc: func(_ *asynq.TaskInfo, err error) {
			if err != nil {
				t.Error(err)
			}
			f.all <- enqueued{i, time.Now()}
		}}
		go func() {
			h.done <- schedule(ctx, holdfast.NewElection(c, "/scheduler"), fmt.Sprint(i), redis(), opts)
		}()
		t.Cleanup(func() {
			cancel()
			if err := <-h.done; !errors.Is(err, context.Canceled) && !errors.Is(err, zk.ErrClosed) {
				t.Errorf("host %d: %v", i, err)
			}
		})
		f.hosts = append(f.hosts, h)
	}
	return f
}

// next returns the host of the next n tasks, which must be one, and unlike not.
func (f *fleet) next(n, not int) int {
	f.t.Helper()
	leader := -1
	for n > 0 {
		select {
		case e := <-f.all:
			switch {
			case leader == -1 && e.host == not: // it was enqueued before the change
			case leader == -1:
				leader = e.host
				n--
			case e.host != leader:
				f.t.Fatalf("hosts %d and %d enqueue", leader, e.host)
			default:
				n--
			}
		case <-time.After(30 * time.Second):
			f.t.Fatal("nobody enqueues")
		}
	}
	return leader
}

func (f *fleet) leader() holdfast.Leader {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 30*time.Second)
	defer cancel()
	l, err := holdfast.NewElection(f.srv.Client(), "/scheduler").Leader(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	return l
}

// One host enqueues. If its session expires, its client dies, or it stops, another one does, and it alone. A host whose
// session has expired can lead again, with a new Scheduler.
func TestOneSchedulerOfAFleetEnqueues(t *testing.T) {
	f := newFleet(t, 3)
	first := f.next(3, -1)

	f.srv.Expire(f.leader().Session)
	second := f.next(3, first)

	f.hosts[second].client.Close()
	third := f.next(3, second)
	if third == first {
		t.Errorf("host %d leads before host %d, which waits for longer", first, 3-first-second)
	}

	f.hosts[third].cancel()
	if fourth := f.next(3, third); fourth != first {
		t.Errorf("host %d leads; want host %d again", fourth, first)
	}
}

// Redis has the tasks that the schedulers enqueue.
func TestTheTasksAreInRedis(t *testing.T) {
	f := newFleet(t, 2)
	inspector := asynq.NewInspector(redis())
	defer inspector.Close()
	f.next(1, -1)
	q, err := inspector.GetQueueInfo("default")
	if err != nil || q.Pending == 0 {
		t.Errorf("the queue is %v: %v", q, err)
	}
}
