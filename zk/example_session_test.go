package zk_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync/atomic"
	"time"

	"holdfast/zk"
	"holdfast/zktest"
)

// A Client continues when its session is over. Work that depends on ephemeral nodes must stop.
func ExampleClient() {
	srv := zktest.NewServer() // stands for your ensemble
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	first, err := c.Session(ctx)
	if err != nil {
		log.Fatal(err)
	}
	srv.Expire(first.ID()) // as after a long outage
	<-first.Context().Done()
	fmt.Println(context.Cause(first.Context()))

	_, _, err = first.Get(ctx, "/")
	fmt.Println(err)
	_, _, err = c.Get(ctx, "/") // waits for the next session
	fmt.Println(err)
	// Output:
	// session expired
	// zk: get /: session expired
	// <nil>
}

// Nodes created on a Session end with it. So must all work that relies on them.
func ExampleSession() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c := srv.Client()
	s, err := c.Session(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, stat, err := s.Create(ctx, "/worker-1", nil, zk.Ephemeral)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(stat.EphemeralOwner == s.ID(), s.Timeout())
	fmt.Println(s.Deadline().After(time.Now())) // until then the session is certain to live
	// Output:
	// true 40s
	// true
}

// Some work must stop before the server may give our node away. It uses the session's context, and the
// lease makes that end early enough, even on ensembles.
func ExampleLease() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	s, err := srv.Client().Session(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if _, _, err := s.Create(ctx, "/leader", nil, zk.Ephemeral); err != nil {
		log.Fatal(err)
	}
	lease, err := s.Lease(ctx, "/leader")
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release()
	select {
	case <-s.Context().Done():
		fmt.Println("stop: somebody else may lead now")
	case <-lease.Gone():
		fmt.Println("stop: the node was removed")
	default:
		fmt.Println("leading")
	}
	// Output: leading
}

// For a single server, its answers are proof enough; LeaseAuto asks whether the server is alone.
func ExampleLeaseMode() {
	srv := zktest.NewServer()
	defer srv.Close()
	cfg := srv.Config()
	cfg.Lease = zk.LeasePing
	c, err := zk.Dial(context.Background(), cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	s, err := c.Session(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	_, err = s.Lease(context.Background(), "/")
	fmt.Println(err)
	// Output: <nil>
}

func ExampleConfig() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	cfg := zk.Config{
		Servers:        []string{"zk1:2181", "zk2:2181", "zk3:2181"},
		Chroot:         "/app",
		CreateChroot:   true,
		SessionTimeout: 10 * time.Second,
		Auth:           []zk.Auth{zk.DigestAuth("app", "secret")},
	}
	cfg.Dial = srv.Config().Dial // the example has no such hosts
	c, err := zk.Dial(ctx, cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	path, _, err := c.Create(ctx, "/jobs", nil, zk.Persistent)
	if err != nil {
		log.Fatal(err)
	}
	_, ok, err := srv.Client().Exists(ctx, "/app/jobs") // the path without the chroot
	fmt.Println(path, ok, err)
	// Output: /jobs true <nil>
}

func ExampleParseURL() {
	cfg, err := zk.ParseURL("zk://zk1:2181,zk2:2181/app?timeout=10s&tick=500ms")
	fmt.Println(cfg.Servers, cfg.Chroot, cfg.SessionTimeout, cfg.TickTime, err)
	_, err = zk.ParseURL("zk://app:secret@zk1/")
	fmt.Println(err)
	// Output:
	// [zk1:2181 zk2:2181] /app 10s 500ms <nil>
	// zk: server URL …"@zk1/": credentials do not belong in a URL
}

func ExampleTrace() {
	srv := zktest.NewServer()
	defer srv.Close()
	cfg := srv.Config()
	cfg.Trace = &zk.Trace{
		SessionCreated: func(_ int64, timeout time.Duration) { fmt.Println("session of", timeout) },
		RequestDone:    func(_ context.Context, op, path string, _ time.Duration, err error) { fmt.Println(op, path, err) },
		SessionOver:    func(_ int64, cause error) { fmt.Println("over:", cause) },
	}
	ctx := context.Background()
	c, err := zk.Dial(ctx, cfg)
	if err != nil {
		log.Fatal(err)
	}
	c.Get(ctx, "/zookeeper")
	c.Get(ctx, "/none")
	c.Close()
	// Output:
	// session of 40s
	// get /zookeeper <nil>
	// get /none zk: get /none: node does not exist
	// over: client closed
}

// An identity is proven on every connection, before any other request.
func ExampleAuth() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	cfg := srv.Config()
	cfg.Auth = []zk.Auth{zk.DigestAuth("app", "secret")}
	c, err := zk.Dial(ctx, cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	// "auth" stands for the identity that creates the node.
	if _, _, err := c.Create(ctx, "/mine", nil, zk.Persistent, zk.ACL{Perms: zk.PermAll, Scheme: "auth"}); err != nil {
		log.Fatal(err)
	}
	_, _, err = srv.Client().Get(ctx, "/mine")
	fmt.Println(err, errors.Is(err, zk.ErrNoAuth))
	// Output: zk: get /mine: not permitted by the node's ACL true
}

func ExampleACL() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c := srv.Client()
	_, _, err := c.Create(ctx, "/config", []byte("v1"), zk.Persistent,
		zk.ACL{Perms: zk.PermRead, Scheme: "world", ID: "anyone"},
		zk.DigestACL(zk.PermAll, "admin", "secret"))
	if err != nil {
		log.Fatal(err)
	}
	data, _, err := c.Get(ctx, "/config")
	fmt.Println(string(data), err)
	_, err = c.Set(ctx, "/config", []byte("v2"), zk.AnyVersion)
	fmt.Println(err)
	// Output:
	// v1 <nil>
	// zk: set /config: not permitted by the node's ACL
}

func ExampleDigestACL() {
	fmt.Println(zk.DigestACL(zk.PermRead|zk.PermWrite, "super", "test"))
	// Output: {3 digest super:D/InIHSb7yEEbrWz8b9l71RjZJU=}
}

// A package that builds on the client counts its requests, for each client alone.
func ExampleShared() {
	srv := zktest.NewServer()
	defer srv.Close()
	var requests zk.Shared[atomic.Int64] // a variable of the package
	a, b := srv.Client(), srv.Client()
	requests.Of(a).Add(2)
	requests.Of(b).Add(1)
	fmt.Println(requests.Of(a).Load(), requests.Of(b).Load())
	// Output: 2 1
}
