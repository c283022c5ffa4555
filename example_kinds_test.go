package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"holdfast"
	"holdfast/zk"
	"holdfast/zktest"
)

// At most three at a time, whoever they are; one may ask for several.
func ExampleSemaphore() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	licences := holdfast.NewSemaphore(c, "/holdfast/locks/licences", 3)
	h, err := licences.AcquireN(ctx, 2)
	if err != nil {
		log.Fatal(err)
	}
	free, limit, err := licences.Available(ctx)
	fmt.Println(free, "of", limit, "free", err)
	_, err = licences.TryAcquireN(ctx, 2)
	fmt.Println("too many:", errors.Is(err, holdfast.ErrLocked))
	fmt.Println(h.Unlock())

	// With Do, as any lock.
	fmt.Println(holdfast.Do(ctx, licences.Locker(), func(context.Context) error { return nil }))
	// Output:
	// 1 of 3 free <nil>
	// too many: true
	// <nil>
	// <nil>
}

// Two accounts are locked as one, in an order that everybody keeps.
func ExampleMultiLock() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	from, to := holdfast.NewMutex(c, "/accounts/17"), holdfast.NewMutex(c, "/accounts/4")
	h, err := holdfast.NewMultiLock(from, to).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = to.TryLock(ctx)
	fmt.Println("taken:", errors.Is(err, holdfast.ErrLocked))
	fmt.Println("tokens:", len(h.Tokens()))
	fmt.Println(h.Unlock())
	// Output:
	// taken: true
	// tokens: 2
	// <nil>
}

// One node, and whoever makes it has the lock.
func ExampleNodeLock() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	l := holdfast.NewNodeLock(c, "/holdfast/locks/migration")
	h, err := l.TryLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(h.Path())
	_, err = l.TryLock(ctx)
	fmt.Println("taken:", errors.Is(err, holdfast.ErrLocked))
	fmt.Println(h.Unlock())
	// Output:
	// /holdfast/locks/migration
	// taken: true
	// <nil>
}
