package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"

	"holdfast"
	"holdfast/layout"
	"holdfast/zk"
	"holdfast/zktest"
)

// A function that works under any kind of lock.
func ExampleLocker() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	guarded := func(name string, l holdfast.Locker) {
		err := holdfast.Do(ctx, l, func(context.Context) error {
			fmt.Println("under", name)
			return nil
		})
		if err != nil {
			log.Print(err)
		}
	}
	guarded("a mutex", holdfast.NewMutex(c, "/holdfast/locks/a"))
	guarded("a read lock", holdfast.NewRWMutex(c, "/holdfast/locks/b").RLocker())
	guarded("two of five permits", holdfast.NewSemaphore(c, "/holdfast/locks/c", 5).Locker(1))
	guarded("one node", holdfast.NewNodeLock(c, "/holdfast/locks/d"))
	// Output:
	// under a mutex
	// under a read lock
	// under two of five permits
	// under one node
}

// A program declares the options of all its locks once.
func ExampleOption() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	ours := []holdfast.Option{holdfast.WithOwner("billing-3"), holdfast.WithLayout(layout.Kazoo)}
	h, err := holdfast.NewMutex(c, "/locks/invoices", ours...).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer h.Unlock()
	queue, err := holdfast.List(ctx, c, "/locks/invoices", layout.Kazoo)
	fmt.Println(queue[0].Owner, err)
	// Output: billing-3 <nil>
}

// An Entry names the holder and how long it has held the lock; Break and Revoke take an Entry.
func ExampleEntry() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	const path = "/holdfast/locks/export"
	h, err := holdfast.NewMutex(c, path, holdfast.WithOwner("stuck")).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	queue, err := holdfast.List(ctx, c, path)
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range queue {
		if e.Held && e.Owner == "stuck" { // and time.Since(e.Since) is too long
			fmt.Println("breaking:", holdfast.Break(ctx, c, path, e.Token))
		}
	}
	<-h.Lost()
	fmt.Println("told:", errors.Is(h.Unlock(), holdfast.ErrLost))
	// Output:
	// breaking: <nil>
	// told: true
}

// A custom layout, for programs that already name their nodes in their own way.
func ExampleLayout() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	jobs := holdfast.WithLayout(holdfast.Layout{
		Name:      "jobs",
		Mutex:     "job.{uuid}.",      // the server appends the number
		Exclusive: []string{"job.*."}, // contenders; everything else is ignored
		Parent:    zk.Container,
	})
	err = holdfast.Do(ctx, holdfast.NewMutex(c, "/jobs/nightly", jobs), func(context.Context) error { return nil })
	fmt.Println(err)

	_, err = holdfast.NewRWMutex(c, "/jobs/nightly", jobs).RLock(ctx)
	fmt.Println("it has no read side:", errors.Is(err, holdfast.ErrLayout))
	// Output:
	// <nil>
	// it has no read side: true
}

// A leader's value is its address, and its term is a fencing token.
func ExampleLeader() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	e := holdfast.NewElection(c, "/holdfast/elections/compactor")
	if _, err := e.Leader(ctx); errors.Is(err, holdfast.ErrNoLeader) {
		fmt.Println("vacant")
	}
	office, err := e.Campaign(ctx, []byte("node-2:7000"))
	if err != nil {
		log.Fatal(err)
	}
	defer office.Unlock()
	leader, err := e.Leader(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s leads, and that is us: %t\n", leader.Value, leader.Term == office.Token())
	// Output:
	// vacant
	// node-2:7000 leads, and that is us: true
}

// Errors name the operation and the lock, and wrap the cause.
func ExampleError() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	m := holdfast.NewMutex(c, "/holdfast/locks/db", holdfast.WithACL(zk.ACL{Perms: zk.PermRead, Scheme: "world", ID: "anyone"}))
	_, err = m.Lock(ctx)
	var failed *holdfast.Error
	if errors.As(err, &failed) {
		fmt.Println(failed.Op, failed.Path)
	}
	fmt.Println(errors.Is(err, zk.ErrNoAuth), errors.Is(err, fs.ErrPermission))
	// Output:
	// lock /holdfast/locks/db
	// true true
}

// Two locks in one directory have a token each.
func ExampleLockToken() {
	srv := zktest.NewServer()
	defer srv.Close()
	var both []holdfast.Locker
	for _, name := range []string{"red", "blue"} {
		both = append(both, holdfast.NewMutex(srv.Client(), "/app/locks", holdfast.WithLayout(layout.Named(name))))
	}
	h, err := holdfast.NewMultiLock(both...).Lock(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer h.Unlock()
	for _, t := range h.Tokens() {
		fmt.Println(t.Path, t.Layout, t.Token > 0)
	}
	// Output:
	// /app/locks named:blue true
	// /app/locks named:red true
}

// Nodes that the lock ignores, and the programs that may have made them.
func ExampleForeignNode() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx, c := context.Background(), srv.Client()
	h, err := holdfast.NewMutex(c, "/app/nightly", holdfast.WithLayout(layout.SessionID)).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer h.Unlock()
	_, err = holdfast.NewMutex(c, "/app/nightly").Lock(ctx)
	fmt.Println(errors.Is(err, holdfast.ErrKind))
	found, err := holdfast.Foreign(ctx, c, "/app/nightly")
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range found {
		fmt.Println(f.Path == h.Path(), f.Kind)
	}
	// Output:
	// true
	// true a lock with a queue, layout sessionid
}
