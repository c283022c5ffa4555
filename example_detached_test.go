package holdfast_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"holdfast"
	"holdfast/zk"
	"holdfast/zktest"
)

// A deployment has several stages, each a process of its own. The first acquires the lock, and the last
// releases it.
func ExampleDetached() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	stage := func(f func(*holdfast.Detached)) {
		c, err := zk.Dial(ctx, srv.Config())
		if err != nil {
			log.Fatal(err)
		}
		defer c.Close()
		f(holdfast.NewDetached(c, "/holdfast/locks/deploy", 2*time.Hour, holdfast.WithReason("release 42")))
	}
	var id string
	stage(func(d *holdfast.Detached) {
		claim, err := d.Lock(ctx)
		if err != nil {
			log.Fatal(err)
		}
		id = claim.ID
	})
	stage(func(d *holdfast.Detached) {
		_, err := d.TryLock(ctx)
		fmt.Println(err)
	})
	stage(func(d *holdfast.Detached) { fmt.Println(d.Unlock(ctx, id)) })
	// Output:
	// holdfast: try lock /holdfast/locks/deploy: locked by another
	// <nil>
}

// The id and the token of a claim are for later stages.
func ExampleClaim() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	d := holdfast.NewDetached(c, "/holdfast/locks/deploy", 0)
	claim, err := d.TryLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(claim.ID), claim.Token > 0, claim.Expires.IsZero())
	fmt.Println(d.Unlock(ctx, claim.ID))
	// Output:
	// 32 true true
	// <nil>
}
