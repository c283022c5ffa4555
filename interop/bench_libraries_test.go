//go:build linux

package interop

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	rival "github.com/go-zookeeper/zk"
	"github.com/redis/go-redis/v9"
	etcd "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"holdfast"
	"holdfast/zk"
)

// The contestants that are Go libraries, each as the function that makes one session of it.

// openOurs makes sessions of our client for our Mutex.
func openOurs(url string, opts ...holdfast.Option) func(ctx context.Context) (session, error) {
	return func(ctx context.Context) (session, error) {
		cfg, err := zk.ParseURL(url)
		if err != nil {
			return session{}, err
		}
		cfg.SessionTimeout = benchTimeout
		return openOursWith(ctx, cfg, opts...)
	}
}

func openOursWith(ctx context.Context, cfg zk.Config, opts ...holdfast.Option) (session, error) {
	c, err := zk.Dial(ctx, cfg)
	if err != nil {
		return session{}, err
	}
	return session{
		lock: func(name string, _ int) (grab, error) {
			m := holdfast.NewMutex(c, "/bench/"+name, opts...)
			return func(ctx context.Context) (func() error, error) {
				hold, err := m.Lock(ctx)
				if err != nil {
					return nil, err
				}
				return hold.Unlock, nil
			}, nil
		},
		close: func() { c.Close() },
	}, nil
}

func dialBench(ctx context.Context, url string) (*zk.Client, error) {
	cfg, err := zk.ParseURL(url)
	if err != nil {
		return nil, err
	}
	cfg.SessionTimeout = benchTimeout
	return zk.Dial(ctx, cfg)
}

// openTwoWrites is what a lock on ZooKeeper cannot do without, and nothing else: the
// create of a node and its delete, through our client, one after the other.
func openTwoWrites(url string) func(ctx context.Context) (session, error) {
	return func(ctx context.Context) (session, error) {
		c, err := dialBench(ctx, url)
		if err != nil {
			return session{}, err
		}
		return session{
			lock: func(name string, _ int) (grab, error) {
				parent := "/bench-" + strings.ReplaceAll(name, "/", "-")
				if _, _, err := c.Create(context.Background(), parent, nil, zk.Persistent); err != nil && !isThere(err) {
					return nil, err
				}
				return func(ctx context.Context) (func() error, error) {
					path, _, err := c.Create(ctx, parent+"/n-", nil, zk.EphemeralSequential)
					return func() error { return c.Delete(ctx, path, zk.AnyVersion) }, err
				}, nil
			},
			close: func() { c.Close() },
		}, nil
	}
}

// openGoZooKeeper makes sessions of go-zookeeper for its Lock.
func openGoZooKeeper(addr string) func(ctx context.Context) (session, error) {
	return func(ctx context.Context) (session, error) {
		c, events, err := rival.Connect([]string{addr}, benchTimeout, rival.WithLogInfo(false), rival.WithLogger(silentLogger{}))
		if err != nil {
			return session{}, err
		}
		for c.State() != rival.StateHasSession {
			select {
			case <-events:
			case <-ctx.Done():
				c.Close()
				return session{}, fmt.Errorf("go-zookeeper has no session on %s: %w", addr, context.Cause(ctx))
			}
		}
		return session{
			lock: func(name string, _ int) (grab, error) {
				// A Lock is one place in the queue, so each worker has its own.
				l := rival.NewLock(c, "/bench/"+name, rival.WorldACL(rival.PermAll))
				return func(context.Context) (func() error, error) { return l.Unlock, l.Lock() }, nil
			},
			close: c.Close,
		}, nil
	}
}

// openEtcd makes clients of etcd for its Mutex. Who holds one is a lease, not a Mutex: two
// workers of one lease are both let in, so each worker of a lock has a lease of its own.
func openEtcd(addr string) func(ctx context.Context) (session, error) {
	return func(ctx context.Context) (session, error) {
		c, err := etcd.New(etcd.Config{Endpoints: []string{"http://" + addr}, DialTimeout: benchTimeout, Logger: zap.NewNop()})
		if err != nil {
			return session{}, err
		}
		var leases []*concurrency.Session
		return session{
			lock: func(name string, nth int) (grab, error) {
				for len(leases) <= nth {
					s, err := concurrency.NewSession(c, concurrency.WithTTL(int(benchTimeout.Seconds())))
					if err != nil {
						return nil, err
					}
					leases = append(leases, s)
				}
				m := concurrency.NewMutex(leases[nth], "/bench/"+name)
				return func(ctx context.Context) (func() error, error) {
					return func() error { return m.Unlock(ctx) }, m.Lock(ctx)
				}, nil
			},
			close: func() {
				for _, s := range leases {
					s.Close()
				}
				c.Close()
			},
		}, nil
	}
}

// openRedsync makes clients of redis for redsync's Mutex. It tries again every 50 to 250 ms, which is
// its default. It does not give up, and a lock lasts as long as a session of the others. A client
// has a connection for each worker.
func openRedsync(addr string) func(ctx context.Context) (session, error) {
	return func(ctx context.Context) (session, error) {
		c := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 256})
		if err := c.Ping(ctx).Err(); err != nil {
			c.Close()
			return session{}, err
		}
		rs := redsync.New(goredis.NewPool(c))
		return session{
			lock: func(name string, _ int) (grab, error) {
				m := rs.NewMutex("bench/"+name, redsync.WithTries(math.MaxInt32), redsync.WithExpiry(benchTimeout))
				return func(ctx context.Context) (func() error, error) {
					return func() error {
						_, err := m.UnlockContext(ctx)
						return err
					}, m.LockContext(ctx)
				}, nil
			},
			close: func() { c.Close() },
		}, nil
	}
}

// openDisk makes sessions of the bare log: two records a cycle, each synced. A durable lock
// service cannot do less.
func openDisk(tb testing.TB) func(ctx context.Context) (session, error) {
	return func(context.Context) (session, error) {
		l, err := newBareLog(filepath.Join(tb.TempDir(), "bare"))
		if err != nil {
			return session{}, err
		}
		return session{
			lock: func(string, int) (grab, error) {
				return func(context.Context) (func() error, error) { return l.append, l.append() }, nil
			},
			close: func() { l.file.Close() },
		}, nil
	}
}

// A bareLog is a file that grows by records. Like the store's journal, it reserves space before it
// writes, so a sync does not wait for a change of the file's size.
type bareLog struct {
	file     *os.File
	mu       sync.Mutex
	off, end int64 // the next record, and the end of the reserved space
}

const (
	recordSize = 200     // about what a create takes in the store's journal
	bareRoom   = 4 << 20 // what the store's journal reserves at a time: journalRoom
)

func newBareLog(path string) (*bareLog, error) {
	file, err := os.Create(path)
	return &bareLog{file: file}, err
}

func (l *bareLog) append() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.off+recordSize > l.end {
		l.end += bareRoom
		err := syscall.Fallocate(int(l.file.Fd()), 0, 0, l.end)
		if err != nil && !errors.Is(err, errors.ErrUnsupported) { // then the file grows by its writes, as the journal does
			return os.NewSyscallError("fallocate", err)
		}
	}
	if _, err := l.file.WriteAt(make([]byte, recordSize), l.off); err != nil {
		return err
	}
	l.off += recordSize
	return syscall.Fdatasync(int(l.file.Fd()))
}

// isThere: somebody has made the node before.
func isThere(err error) bool { return errors.Is(err, zk.ErrNodeExists) }
