package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"holdfast"
	"holdfast/zk"
	"holdfast/zktest"
)

func backup(context.Context) error {
	fmt.Println("backing up")
	return nil
}

// The whole of it: connect, name the lock, do the work under it.
func Example() {
	srv := zktest.NewServer() // stands for your ensemble
	defer srv.Close()

	err := func(ctx context.Context) error {
		c, err := zk.Dial(ctx, srv.Config())
		if err != nil {
			return err
		}
		defer c.Close()

		nightly := holdfast.NewMutex(c, "/holdfast/locks/nightly")
		return holdfast.Do(ctx, nightly, func(ctx context.Context) error {
			return backup(ctx) // ctx ends if the lock is lost
		})
	}(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	// Output: backing up
}

// A Mutex is a name: who calls Lock gets a Hold, and lets go with its Unlock.
func ExampleMutex_Lock() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	m := holdfast.NewMutex(c, "/holdfast/locks/reindex", holdfast.WithOwner("api-7"))
	wait, cancel := context.WithTimeout(ctx, 10*time.Second) // bounds the wait only
	defer cancel()
	h, err := m.Lock(wait)
	if err != nil {
		log.Fatal(err)
	}
	defer h.Unlock()
	fmt.Println("held:", h.Context().Err() == nil, "proven:", time.Until(h.Deadline()) > 0)
	// Output: held: true proven: true
}

func ExampleMutex_TryLock() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	m := holdfast.NewMutex(c, "/holdfast/locks/reindex")
	h, err := m.TryLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = m.TryLock(ctx)
	fmt.Println("taken:", errors.Is(err, holdfast.ErrLocked))
	fmt.Println(h.Unlock())
	// Output:
	// taken: true
	// <nil>
}

// A lost lock ends the Hold's context, with the reason as its cause.
func ExampleHold_Context() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	h, err := holdfast.NewMutex(c, "/holdfast/locks/reindex").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	srv.Expire(h.Session()) // the network was away for too long
	<-h.Context().Done()
	fmt.Println("lost:", errors.Is(context.Cause(h.Context()), holdfast.ErrLost))
	fmt.Println("unlock tells it too:", errors.Is(h.Unlock(), holdfast.ErrLost))
	// Output:
	// lost: true
	// unlock tells it too: true
}

func ExampleList() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	m := holdfast.NewMutex(c, "/holdfast/locks/reindex", holdfast.WithOwner("api-7"), holdfast.WithReason("new mapping"))
	err = holdfast.Do(ctx, m, func(ctx context.Context) error {
		queue, err := holdfast.List(ctx, c, "/holdfast/locks/reindex")
		for _, e := range queue {
			fmt.Println(e.Held, e.Owner, e.Reason)
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: true api-7 new mapping
}
