//go:build unix

package interop

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"holdfast/zk"
	"holdfast/zk/admin"
)

// Connections and identities.
var connectionCases = map[string]feature{
	"is who it says it is":                          {isWhoItSays, v3_7},
	"nobody else may touch its nodes":               {nobodyElseMayTouch, v3_6},
	"reads after sync what another wrote":           {readsWhatAnotherWrote, v3_5},
	"sends nothing that the server would close on":  {sendsNothingTooLarge, v3_5},
	"serves many goroutines":                        {servesManyGoroutines, v3_5},
	"passes over servers that do not answer":        {passesOverDeadServers, v3_5},
	"reads the URL of the server":                   {readsTheURL, v3_5},
	"shows no chroot":                               {showsNoChroot, v3_6},
	"a lost reply may have happened":                {func(x *exam) { losesOnTheWay(x, reply) }, v3_7},
	"a lost request may have happened, but did not": {func(x *exam) { losesOnTheWay(x, request) }, v3_7},
	"what was not sent goes out later":              {sendsLater, v3_5},
	"a cancelled call returns at once":              {cancelledReturnsAtOnce, v3_5},
}

func isWhoItSays(x *exam) {
	infos, err := admin.WhoAmI(x.ctx, x.c)
	x.must(err)
	want := append([]admin.ClientInfo{{Scheme: "ip", User: "127.0.0.1"}}, x.known...)
	if !sameSet(infos, want) {
		x.Errorf("who am I: %+v; want %+v", infos, want)
	}
}

// Without identities, any client may touch the nodes.
func nobodyElseMayTouch(x *exam) {
	x.create("/n")
	x.create("/n/c")
	other := x.by(x.dial(func(cfg *zk.Config) {
		if x.stranger != nil {
			cfg.TLS, cfg.Auth = nil, nil
			x.stranger(x, cfg)
		}
	}))
	var want error
	if x.mine != nil {
		want = zk.ErrNoAuth
	}
	other.catchUp()
	n := x.at("/n")
	_, _, err := other.c.Get(x.ctx, n)
	x.wants("get", err, want)
	_, _, w, err := other.c.GetW(x.ctx, n)
	x.wants("get with a watch", err, want)
	if (w == nil) != (want != nil) {
		x.Errorf("watch %v with error %v", w, err)
	}
	_, _, err = other.c.Children(x.ctx, n)
	x.wants("children", err, want)
	_, err = admin.AllChildrenNumber(x.ctx, other.c, n)
	x.wants("number of all children", err, want)
	_, _, err = other.c.GetACL(x.ctx, n)
	x.wants("get ACL", err, want)
	_, err = other.c.Set(x.ctx, n, nil, 0)
	x.wants("set", err, want)
	_, _, err = other.c.Create(x.ctx, n+"/d", nil, zk.Persistent)
	x.wants("create", err, want)
	_, err = other.c.Multi(x.ctx, zk.CheckOp(n+"/c", 0))
	x.wants("check", err, want)
	x.wants("delete", other.c.Delete(x.ctx, n+"/c", 0), want)
	_, err = other.c.SetACL(x.ctx, n, openACL, 0)
	x.wants("set ACL", err, want)
}

func readsWhatAnotherWrote(x *exam) {
	other := x.dial()
	x.create("/n")
	for i := range 20 {
		x.set("/n")
		x.must(other.Sync(x.ctx, x.at("/n")))
		_, stat, err := other.Get(x.ctx, x.at("/n"))
		x.must(err)
		if stat.Version != int32(i+1) && x.members > 1 {
			x.by(other).catchUp()
			_, stat, err = other.Get(x.ctx, x.at("/n"))
			x.must(err)
		}
		if stat.Version != int32(i+1) {
			x.Errorf("version %d; want %d", stat.Version, i+1)
		}
	}
}

func servesManyGoroutines(x *exam) {
	const goroutines, each = 32, 20
	var mu sync.Mutex
	var made []string
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			last := ""
			for range each {
				path, stat, err := x.c.Create(x.ctx, x.at("/n-"), nil, zk.PersistentSequential, x.mine...)
				if err != nil {
					x.Error(err)
					return
				}
				if path <= last {
					x.Errorf("%s after %s", path, last)
				}
				last = path
				if _, got, err := x.c.Get(x.ctx, path); err != nil || got != stat {
					x.Errorf("get %s: %+v, %v; want %+v", path, got, err, stat)
				}
				mu.Lock()
				made = append(made, path)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(made)
	for i, path := range made {
		if want := x.at(fmt.Sprintf("/n-%010d", i)); path != want {
			x.Fatalf("number %d of all is %s; want %s", i, path, want)
		}
	}
	if len(made) != goroutines*each {
		x.Errorf("%d nodes; want %d", len(made), goroutines*each)
	}
}

func passesOverDeadServers(x *exam) {
	// The server accepts and closes, which costs an attempt. A port without a listener may be
	// another program's in the next moment.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	x.must(err)
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	for range 3 { // in random order
		c := x.dial(func(cfg *zk.Config) { cfg.Servers = append(cfg.Servers, l.Addr().String()) })
		_, _, err = c.Get(x.ctx, x.at("/"))
		x.must(err)
		x.must(c.Close())
	}
}

func readsTheURL(x *exam) {
	chroot := x.path
	url := x.url(x) + chroot + "?timeout=7s&tick=500ms"
	cfg, err := zk.ParseURL(url)
	x.must(err)
	scheme, servers, _ := strings.Cut(x.url(x), "://")
	if !slices.Equal(cfg.Servers, strings.Split(servers, ",")) || cfg.Chroot != chroot ||
		cfg.SessionTimeout != 7*time.Second || cfg.TickTime != 500*time.Millisecond || (cfg.TLS != nil) != (scheme == "zks") {
		x.Errorf("%s is read as %+v", url, cfg)
	}
	x.enter(x, &cfg)
	c, err := zk.Dial(x.ctx, cfg)
	x.must(err)
	defer c.Close()
	if s := x.session(c); s.Timeout() != 7*time.Second {
		x.Errorf("session timeout %v", s.Timeout())
	}
	_, _, err = c.Get(x.ctx, "/") // the directory of this case, which only we may read
	x.must(err)
}

// A client with a chroot sends and receives paths below it, in results, errors and events.
func showsNoChroot(x *exam) {
	in := x.by(nil)
	in.client = x.dial(func(cfg *zk.Config) { cfg.Chroot += x.root + "/sub/dir"; cfg.CreateChroot = true })
	in.root, in.c = "", in.client
	x.catchUp()
	if _, exists, err := x.c.Exists(x.ctx, x.at("/sub/dir")); err != nil || !exists {
		x.Fatalf("the chroot does not exist: %v", err)
	}

	tree, missing := in.watch("/", zk.WatchPersistentRecursive), in.existsW("/n", false)
	path, _, err := in.c.Create(x.ctx, "/n", nil, zk.Persistent, x.mine...)
	x.must(err)
	seq, _, err := in.c.Create(x.ctx, "/n/s-", nil, zk.EphemeralSequential, x.mine...)
	x.must(err)
	results, err := in.c.Multi(x.ctx, zk.CreateOp("/m", nil, zk.Ephemeral, x.mine...), zk.CreateOp("/m2", nil, zk.Container, x.mine...))
	x.must(err)
	piped, err := in.c.Pipeline(x.ctx, zk.CreateOp("/p", nil, zk.Ephemeral, x.mine...), zk.ChildrenOp("/n"))
	x.must(err)
	own, err := in.c.Ephemerals(x.ctx, "/")
	x.must(err)
	got := []string{path, seq, results[0].Path, results[1].Path, piped[0].Path}
	if want := []string{"/n", "/n/s-0000000000", "/m", "/m2", "/p"}; !slices.Equal(got, want) {
		x.Errorf("created %q; want %q", got, want)
	}
	if !sameSet(own, []string{"/n/s-0000000000", "/m", "/p"}) {
		x.Errorf("ephemerals %q", own)
	}
	in.next(missing, zk.EventNodeCreated, "/n")
	for _, path := range got {
		in.tells(tree, zk.EventNodeCreated, path)
	}
	if n, err := admin.AllChildrenNumber(x.ctx, in.c, "/"); err != nil || n != 5 {
		x.Errorf("%d nodes below the chroot, %v; want 5", n, err)
	}

	_, _, err = in.c.Get(x.ctx, "/none")
	paths := []error{err}
	_, err = in.c.Multi(x.ctx, zk.CheckOp("/none", 0))
	paths = append(paths, err)
	_, err = in.c.Pipeline(x.ctx, zk.GetOp("/none"))
	paths = append(paths, err)
	_, err = in.c.MultiRead(x.ctx, zk.GetOp("/none"))
	paths = append(paths, err, in.c.Delete(x.ctx, "/none", 0))
	for _, err := range paths {
		var e *zk.Error
		if !errors.As(err, &e) || e.Path != "/none" || strings.Contains(err.Error(), "/sub") {
			x.Errorf("error %v; want one of /none", err)
		}
	}

	x.catchUp()
	if _, _, err := x.c.Get(x.ctx, x.at("/sub/dir/n/s-0000000000")); err != nil {
		x.Errorf("from outside: %v", err)
	}
}
