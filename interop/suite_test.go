//go:build unix

package interop

import (
	"context"
	"testing"
	"time"

	"holdfast/interop/peers"
	"holdfast/zk"
	"holdfast/zk/admin"
)

// operations are the methods that Client and Session share.
type operations interface {
	Create(ctx context.Context, path string, data []byte, mode zk.Mode, acl ...zk.ACL) (string, zk.Stat, error)
	CreateTTL(ctx context.Context, path string, data []byte, mode zk.Mode, ttl time.Duration, acl ...zk.ACL) (string, zk.Stat, error)
	Get(ctx context.Context, path string) ([]byte, zk.Stat, error)
	GetW(ctx context.Context, path string) ([]byte, zk.Stat, *zk.Watch, error)
	Exists(ctx context.Context, path string) (zk.Stat, bool, error)
	ExistsW(ctx context.Context, path string) (zk.Stat, bool, *zk.Watch, error)
	Children(ctx context.Context, path string) ([]string, zk.Stat, error)
	ChildrenW(ctx context.Context, path string) ([]string, zk.Stat, *zk.Watch, error)
	Set(ctx context.Context, path string, data []byte, version int32) (zk.Stat, error)
	Delete(ctx context.Context, path string, version int32) error
	GetACL(ctx context.Context, path string) ([]zk.ACL, zk.Stat, error)
	SetACL(ctx context.Context, path string, acl []zk.ACL, version int32) (zk.Stat, error)
	Sync(ctx context.Context, path string) error
	Multi(ctx context.Context, ops ...zk.Op) ([]zk.Result, error)
	MultiRead(ctx context.Context, ops ...zk.Op) ([]zk.Result, error)
	Pipeline(ctx context.Context, ops ...zk.Op) ([]zk.Result, error)
	AddWatch(ctx context.Context, path string, mode zk.WatchMode) (*zk.PersistentWatch, error)
	Ephemerals(ctx context.Context, prefix string) ([]string, error)

	admin.Caller
}

var (
	_ operations = (*zk.Client)(nil)
	_ operations = (*zk.Session)(nil)
)

// A caller makes the calls of a case.
type caller int

const (
	byClient caller = iota
	bySession
)

// A feature is one ability of our client, with the first release of ZooKeeper that has all its
// requests.
type feature struct {
	run   func(*exam)
	needs peers.Version
}

// A suiteCase is a feature for one caller.
type suiteCase struct {
	feature
	name   string
	caller caller
}

// suite returns all cases: single operations by a Client and by a Session, and the others.
func suite() []suiteCase {
	var all []suiteCase
	add := func(features map[string]feature, callers ...caller) {
		for name, f := range features {
			for _, by := range callers {
				all = append(all, suiteCase{f, name + map[caller]string{byClient: ", by a client", bySession: ", by a session"}[by], by})
			}
		}
	}
	add(operationCases, byClient, bySession)
	add(watchCases, byClient, bySession)
	add(persistentCases, byClient, bySession)
	add(connectionCases, byClient)
	add(sessionCases, byClient)
	return all
}

// An exam is one case in one cell.
type exam struct {
	*testing.T
	*cell
	ctx    context.Context
	path   string        // path of this case's directory at the server
	root   string        // the same path at our client; "" under a chroot
	gate   *gate         // the client's connection to the server
	broke  chan struct{} // has a token when the client knows that a connection broke
	sent   *sentRequests // requests of every client of the case
	client *zk.Client
	c      operations // the client or its session
}

func newExam(t *testing.T, c *cell, by caller) *exam {
	ctx, cancel := context.WithTimeout(t.Context(), stepTime)
	t.Cleanup(cancel)
	x := &exam{T: t, cell: c, ctx: ctx, path: where(t), gate: newGate(), broke: make(chan struct{}, 1), sent: &sentRequests{}}
	x.client = x.dial(func(cfg *zk.Config) {
		cfg.CreateChroot, cfg.Dial = true, x.gate.dial
		cfg.SessionTimeout = 30 * time.Second // a JVM that has just started is slow, especially with TLS
		cfg.Trace = &zk.Trace{Disconnected: func(int64, error) {
			select {
			case x.broke <- struct{}{}:
			default:
			}
		}}
	})
	x.c = x.client
	if by == bySession {
		x.c = x.session(x.client)
	}
	if !c.chroot {
		x.root = x.path
		x.create("/")
	}
	return x
}

// dial makes another client like the case's.
func (x *exam) dial(change ...func(*zk.Config)) *zk.Client {
	x.Helper()
	all := []func(*zk.Config){func(cfg *zk.Config) { x.enter(x, cfg) }}
	all = append(all, change...)
	return dialURL(x, x.home(), append(all, x.sent.read)...)
}

// home returns the server's URL, with the chroot if there is one.
func (x *exam) home() string {
	if x.chroot {
		return x.url(x) + x.path
	}
	return x.url(x)
}

func (x *exam) session(c *zk.Client) *zk.Session {
	x.Helper()
	s, err := c.Session(x.ctx)
	x.must(err)
	return s
}

// at returns a path in the directory of the case.
func (x *exam) at(path string) string {
	if path == "/" && x.root != "" {
		return x.root
	}
	return x.root + path
}

func (x *exam) must(err error) {
	x.Helper()
	must(x, err)
}

func (x *exam) wants(what string, err, want error) {
	x.Helper()
	wants(x.T, what, err, want)
}

// The common operations with their usual arguments: paths in the directory of the case, no
// particular data, any version, our ACL, no error.

func (x *exam) create(path string) zk.Stat {
	x.Helper()
	_, stat, err := x.c.Create(x.ctx, x.at(path), nil, zk.Persistent, x.mine...)
	x.must(err)
	return stat
}

func (x *exam) ephemeral(path string) zk.Stat {
	x.Helper()
	_, stat, err := x.c.Create(x.ctx, x.at(path), nil, zk.Ephemeral, x.mine...)
	x.must(err)
	return stat
}

func (x *exam) set(path string) {
	x.Helper()
	_, err := x.c.Set(x.ctx, x.at(path), []byte("new"), zk.AnyVersion)
	x.must(err)
}

func (x *exam) delete(path string) {
	x.Helper()
	x.must(x.c.Delete(x.ctx, x.at(path), zk.AnyVersion))
}

func (x *exam) getW(path string) *zk.Watch {
	x.Helper()
	_, _, w, err := x.c.GetW(x.ctx, x.at(path))
	x.must(err)
	return w
}

func (x *exam) childrenW(path string) *zk.Watch {
	x.Helper()
	_, _, w, err := x.c.ChildrenW(x.ctx, x.at(path))
	x.must(err)
	return w
}

// existsW also expects the node to exist, or not.
func (x *exam) existsW(path string, want bool) *zk.Watch {
	x.Helper()
	_, exists, w, err := x.c.ExistsW(x.ctx, x.at(path))
	x.must(err)
	if exists != want {
		x.Fatalf("%s exists: %t", path, exists)
	}
	return w
}

func (x *exam) watch(path string, mode zk.WatchMode) *zk.PersistentWatch {
	x.Helper()
	w, err := x.c.AddWatch(x.ctx, x.at(path), mode)
	x.must(err)
	return w
}

// by returns x with another client.
func (x *exam) by(c operations) *exam {
	other := *x
	other.c = c
	return &other
}

// catchUp returns when the server shows everything that any client was told is done.
func (x *exam) catchUp() {
	x.Helper()
	x.must(catchUp(x.ctx, x.c, x.at("/")))
}

// next waits for the event of w and expects this one.
func (x *exam) next(w *zk.Watch, want zk.EventType, path string) {
	x.Helper()
	next(x.ctx, x.T, w, want, x.at(path))
}

// tells waits for the next event of w and expects this one.
func (x *exam) tells(w *zk.PersistentWatch, want zk.EventType, path string) {
	x.Helper()
	tells(x.ctx, x.T, w, want, x.at(path))
}

func (x *exam) silent(w *zk.Watch) {
	x.Helper()
	silent(x.T, w)
}

// atMost takes this event of w, if it has one so far.
func (x *exam) atMost(w *zk.PersistentWatch, want zk.EventType, path string) {
	x.Helper()
	select {
	case e := <-w.C:
		if e.Type != want || e.Path != x.at(path) || e.Err != nil {
			x.Errorf("event %+v; want %v of %s, or none", e, want, x.at(path))
		}
	default:
	}
}

func (x *exam) quiet(w *zk.PersistentWatch) {
	x.Helper()
	quiet(x.T, w)
}
