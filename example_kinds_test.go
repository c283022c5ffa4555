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
