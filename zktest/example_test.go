package zktest_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

func Example() {
	srv := zktest.NewServer()
	defer srv.Close()
	c := srv.Client()
	path, _, err := c.Create(context.Background(), "/job-", nil, zk.EphemeralSequential)
	fmt.Println(path, err)
	// Output: /job-0000000000 <nil>
}

// A register is example code under test: it keeps a node as long as it runs, even if its
// sessions end.
func register(ctx context.Context, c *zk.Client, path string, registered chan<- int64) error {
	for {
		s, err := c.Session(ctx)
		if err != nil {
			return err
		}
		switch _, _, err := s.Create(ctx, path, nil, zk.Ephemeral); {
		case err == nil:
			registered <- s.ID()
			select {
			case <-s.Context().Done(): // register again in the next session
			case <-ctx.Done():
				return ctx.Err()
			}
		case !errors.Is(err, zk.ErrSessionExpired):
			return err
		}
	}
}

// Does the code register again when its session has expired?
func ExampleServer_Expire() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	registered := make(chan int64)
	go register(ctx, srv.Client(), "/service", registered)

	first := <-registered
	srv.Expire(first)
	second := <-registered
	stat, ok, err := srv.Client().Exists(ctx, "/service")
	fmt.Println(second != first, ok && stat.EphemeralOwner == second, err)
	// Output: true true <nil>
}

// Does a caller return in time when the server does not answer? In a test, run it in a synctest
// bubble, and the seconds pass in no time.
func ExampleServer_Stall() {
	srv := zktest.NewServer()
	defer srv.Close()
	c := srv.Client()
	resume := srv.Stall()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, _, err := c.Get(ctx, "/")
	fmt.Println(err)
	resume()
	_, _, err = c.Get(context.Background(), "/")
	fmt.Println(err)
	// Output:
	// zk: get /: context deadline exceeded
	// <nil>
}

// Does the code survive a restart of the server? Nodes and sessions do.
func ExampleServer_Restart() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c := srv.Client()
	if _, _, err := c.Create(ctx, "/mine", nil, zk.Ephemeral); err != nil {
		log.Fatal(err)
	}
	before, err := c.Session(ctx)
	if err != nil {
		log.Fatal(err)
	}
	srv.Restart()
	var ok bool
	for { // retry requests that were in flight when the connection broke
		if _, ok, err = c.Exists(ctx, "/mine"); !zk.SafeToRetry(err) {
			break
		}
	}
	after, _ := c.Session(ctx)
	fmt.Println(ok, err, after == before)
	// Output: true <nil> true
}

// Does a watch report a change that happened while the connection was broken?
func ExampleServer_CloseClientConnections() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	watcher, writer := srv.Client(), srv.Client()
	_, _, w, err := watcher.ExistsW(ctx, "/a")
	if err != nil {
		log.Fatal(err)
	}
	srv.CloseClientConnections()
	for {
		_, _, err := writer.Create(ctx, "/a", nil, zk.Persistent)
		if err == nil || errors.Is(err, zk.ErrNodeExists) {
			break
		}
	}
	ev := <-w.C
	fmt.Println(ev.Type, ev.Path)
	// Output: NodeCreated /a
}

// Does the code find out whether its request was executed, when the answer is lost?
func ExampleServer_Intercept() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c := srv.Client()
	srv.Intercept(zkproto.OpSetData, func(path string) zktest.Action {
		if path == "/zookeeper" {
			return zktest.DropReply // the request is executed, but the connection breaks before the answer
		}
		return zktest.Pass
	})
	_, err := c.Set(ctx, "/zookeeper", []byte("x"), zk.AnyVersion)
	fmt.Println(zk.MayHaveHappened(err), errors.Is(err, zk.ErrConnectionLoss))
	data, _, err := c.Get(ctx, "/zookeeper")
	fmt.Println(string(data), err)
	// Output:
	// true true
	// x <nil>
}

func ExampleAction() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c := srv.Client()
	for _, fault := range []zktest.Action{zktest.DropRequest, zktest.DropReply, zktest.Pass} {
		srv.Intercept(zkproto.OpCreate2, func(string) zktest.Action { return fault })
		_, _, err := c.Create(ctx, "/a", nil, zk.Persistent)
		_, ok, _ := c.Exists(ctx, "/a")
		fmt.Println("the caller sees an error:", err != nil, "the node is there:", ok)
		c.Delete(ctx, "/a", zk.AnyVersion)
	}
	// Output:
	// the caller sees an error: true the node is there: false
	// the caller sees an error: true the node is there: true
	// the caller sees an error: false the node is there: true
}

// On the real clock, use short sessions.
func ExampleOption() {
	srv := zktest.NewServer(zktest.TickTime(20 * time.Millisecond))
	defer srv.Close()
	cfg := srv.Config()
	cfg.SessionTimeout = 100 * time.Millisecond
	c, err := zk.Dial(context.Background(), cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	s, err := c.Session(context.Background())
	fmt.Println(s.Timeout(), err)
	// Output: 100ms <nil>
}

// Code with its own configuration gets Dial; the addresses do not matter.
func ExampleServer_Config() {
	srv := zktest.NewServer()
	defer srv.Close()
	cfg, err := zk.ParseURL("zk://zk1:2181,zk2:2181/app")
	if err != nil {
		log.Fatal(err)
	}
	cfg.CreateChroot = true
	cfg.Dial = srv.Config().Dial
	c, err := zk.Dial(context.Background(), cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	_, ok, err := srv.Client().Exists(context.Background(), "/app")
	fmt.Println(ok, err)
	// Output: true <nil>
}
