package zk_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"slices"
	"time"

	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

func ExampleOp() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c := srv.Client()
	var ops []zk.Op
	for _, name := range []string{"/a", "/b", "/c"} {
		ops = append(ops, zk.CreateOp(name, nil, zk.Persistent))
	}
	if _, err := c.Multi(ctx, ops...); err != nil { // all of them, or none
		log.Fatal(err)
	}
	names, _, err := c.Children(ctx, "/")
	slices.Sort(names)
	fmt.Println(names, err)
	// Output: [a b c zookeeper] <nil>
}

func ExampleResult() {
	srv := zktest.NewServer()
	defer srv.Close()
	results, err := srv.Client().Pipeline(context.Background(),
		zk.CreateOp("/job-", nil, zk.PersistentSequential), zk.GetOp("/none"), zk.ChildrenOp("/zookeeper"))
	fmt.Println(err) // the first one
	for _, r := range results {
		fmt.Printf("%q %d %v\n", r.Path, len(r.Children), r.Err)
	}
	// Output:
	// zk: get /none: node does not exist
	// "/job-0000000000" 0 <nil>
	// "" 0 zk: get /none: node does not exist
	// "" 2 <nil>
}

// A node and the missing nodes above it.
func ExampleCalls_CreateAll() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx, c := context.Background(), srv.Client()
	fmt.Println(c.CreateAll(ctx, "/app/prod/config"))
	fmt.Println(c.CreateAll(ctx, "/app/prod")) // it exists
	// Output:
	// <nil>
	// <nil>
}

func ExampleCalls_MultiRead() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c := srv.Client()
	if _, _, err := c.Create(ctx, "/a", []byte("x"), zk.Persistent); err != nil {
		log.Fatal(err)
	}
	r, err := c.MultiRead(ctx, zk.GetOp("/a"), zk.ChildrenOp("/a"))
	fmt.Println(string(r[0].Data), r[1].Children, err)
	// Output: x [] <nil>
}

func ExampleMode() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c := srv.Client()
	for _, mode := range []zk.Mode{zk.Persistent, zk.Ephemeral, zk.EphemeralSequential} {
		path, stat, err := c.Create(ctx, fmt.Sprintf("/n%d", mode), nil, mode)
		fmt.Println(path, stat.EphemeralOwner != 0, err)
	}
	// Output:
	// /n0 false <nil>
	// /n1 true <nil>
	// /n30000000002 true <nil>
}

// A node that the server removes when it has not been written to for a day.
func ExampleCalls_CreateTTL() {
	srv := zktest.NewServer()
	defer srv.Close()
	path, _, err := srv.Client().CreateTTL(context.Background(), "/cache", []byte("x"), zk.Persistent, 24*time.Hour)
	fmt.Println(path, err)
	// Output: /cache <nil>
}

// Replace the data only if no other client has changed it since: the version shows it.
func ExampleStat() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c := srv.Client()
	if _, _, err := c.Create(ctx, "/counter", []byte("1"), zk.Persistent); err != nil {
		log.Fatal(err)
	}
	_, stat, err := c.Get(ctx, "/counter")
	if err != nil {
		log.Fatal(err)
	}
	stat, err = c.Set(ctx, "/counter", []byte("2"), stat.Version)
	fmt.Println(stat.Version, err)
	_, err = c.Set(ctx, "/counter", []byte("2"), 0) // another client, which read the value earlier
	fmt.Println(errors.Is(err, zk.ErrBadVersion))
	// Output:
	// 1 <nil>
	// true
}

func ExampleError() {
	srv := zktest.NewServer()
	defer srv.Close()
	_, _, err := srv.Client().Get(context.Background(), "/none")
	fmt.Println(err)
	fmt.Println(errors.Is(err, zk.ErrNoNode), errors.Is(err, fs.ErrNotExist))
	var e *zk.Error
	fmt.Println(errors.As(err, &e) && e.Op == "get" && e.Path == "/none")
	// Output:
	// zk: get /none: node does not exist
	// true true
	// true
}

func ExampleCode() {
	srv := zktest.NewServer()
	defer srv.Close()
	err := srv.Client().Delete(context.Background(), "/zookeeper", zk.AnyVersion)
	var code zk.Code
	if errors.As(err, &code) {
		fmt.Println(int(code), code)
	}
	// Output: -8 bad arguments
}

// The connection breaks after the request: it may or may not have been executed.
func ExampleMayHaveHappened() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c := srv.Client()
	srv.Intercept(zkproto.OpCreate2, func(string) zktest.Action { return zktest.DropReply })
	_, _, err := c.Create(ctx, "/a", nil, zk.Persistent)
	fmt.Println(errors.Is(err, zk.ErrConnectionLoss), zk.MayHaveHappened(err))
	if zk.MayHaveHappened(err) {
		_, ok, err := c.Exists(ctx, "/a") // so look
		fmt.Println(ok, err)
	}
	// Output:
	// true true
	// true <nil>
}

// A caller may retry reads, and requests that were certainly not executed.
func ExampleSafeToRetry() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c := srv.Client()
	faults := 2
	srv.Intercept(zkproto.OpGetData, func(path string) zktest.Action {
		if path == "/zookeeper" && faults > 0 { // the client also reads nodes on its own
			faults--
			return zktest.DropRequest
		}
		return zktest.Pass
	})
	var err error
	for tries := 1; tries <= 5; tries++ {
		if _, _, err = c.Get(ctx, "/zookeeper"); !zk.SafeToRetry(err) {
			fmt.Println("after", tries, "tries:", err)
			break
		}
	}
	// Output: after 3 tries: <nil>
}

func ExampleValidatePath() {
	fmt.Println(zk.ValidatePath("/jobs/a"))
	fmt.Println(zk.ValidatePath("jobs/a"))
	// Output:
	// <nil>
	// invalid path "jobs/a": it does not start with /
}
