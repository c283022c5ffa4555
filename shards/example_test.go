package shards_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"holdfast"
	"holdfast/shards"
	"holdfast/zk"
	"holdfast/zktest"
)

// Two workers share eight partitions. Each has four of them.
func ExampleShards() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	began := make(chan int, 8)
	consume := func(ctx context.Context, s shards.Shard) error {
		began <- s.Number
		<-ctx.Done() // the shard is to move, or it is lost: save the work and return
		return ctx.Err()
	}
	var workers sync.WaitGroup
	for _, host := range []string{"host-1", "host-2"} {
		c := srv.Client()
		workers.Go(func() {
			partitions := shards.New(c, "/holdfast/shards/orders", 8, shards.WithLock(holdfast.WithOwner(host)), shards.WithSettle(100*time.Millisecond))
			if err := partitions.Run(ctx, consume); !errors.Is(err, context.Canceled) {
				log.Print(err)
			}
		})
	}
	for range 8 {
		<-began
	}
	assigned, err := shards.New(srv.Client(), "/holdfast/shards/orders", 8).Assignment(ctx)
	for _, w := range assigned {
		fmt.Println(w.Owner, "has", len(w.Shards), "partitions")
	}
	fmt.Println(err)
	cancel()
	workers.Wait()
	// Unordered output:
	// host-1 has 4 partitions
	// host-2 has 4 partitions
	// <nil>
}

// The offset of each shard is kept in ZooKeeper. Commit writes it only while the shard is ours.
func ExampleShard() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx, cancel := context.WithCancel(context.Background())
	c := srv.Client()
	if _, _, err := c.Create(ctx, "/offset-0", []byte("0"), zk.Persistent); err != nil {
		log.Fatal(err)
	}
	orders := shards.New(c, "/holdfast/shards/orders", 1, shards.WithSettle(0))
	err := orders.Run(ctx, func(ctx context.Context, s shards.Shard) error {
		_, err := s.Hold.Commit(ctx, zk.SetOp(fmt.Sprintf("/offset-%d", s.Number), []byte("17"), zk.AnyVersion))
		fmt.Println("saved:", err, s.Token > 0)
		cancel() // the program ends
		<-ctx.Done()
		return ctx.Err()
	})
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// saved: <nil> true
	// true
}

// A worker has its settings from options, and its locks have theirs from WithLock.
func ExampleOption() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c := srv.Client()
	jobs := shards.New(c, "/holdfast/shards/jobs", 1,
		shards.WithSettle(0),
		shards.WithMoveLimit(5*time.Second),
		shards.WithLock(holdfast.WithOwner("host-1"), holdfast.WithReason("nightly")),
	)
	err := jobs.Run(ctx, func(ctx context.Context, s shards.Shard) error {
		entries, err := holdfast.List(ctx, c, jobs.Path(s.Number))
		for _, e := range entries {
			fmt.Println(e.Owner, "has", s.Number, "for", e.Reason)
		}
		cancel()
		return err
	})
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// host-1 has 0 for nightly
	// true
}

// An absent worker has no session. Its shards are given to others soon.
func ExampleWorker() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx, cancel := context.WithCancel(context.Background())
	c := srv.Client()
	jobs := shards.New(c, "/holdfast/shards/jobs", 1, shards.WithSettle(0), shards.WithWeight(2))
	err := jobs.Run(ctx, func(context.Context, shards.Shard) error {
		assigned, err := jobs.Assignment(ctx)
		if err != nil {
			return err
		}
		for _, w := range assigned {
			fmt.Println(w.Shards, "weight", w.Weight, "present:", w.Session != 0)
		}
		cancel()
		return nil
	})
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// [0] weight 2 present: true
	// true
}
