package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"holdfast"
	"holdfast/layout"
	"holdfast/zk"
	"holdfast/zktest"
)

func backup(context.Context) error {
	fmt.Println("backing up")
	return nil
}

// A whole program: connect, name the lock, do the work under it.
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

// A Mutex is a name: Lock returns a Hold, and its Unlock releases the lock.
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
	srv.Expire(h.SessionID()) // the network was away for too long
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

// Readers share, writers exclude, and nobody overtakes.
func ExampleRWMutex() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	m := holdfast.NewRWMutex(c, "/holdfast/locks/catalogue")
	one, err := m.RLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	two, err := m.RLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = m.TryLock(ctx)
	fmt.Println("beside readers:", errors.Is(err, holdfast.ErrLocked))
	fmt.Println(one.Unlock(), two.Unlock())

	// A writer that has finished its changes continues as a reader. No other writer can come
	// between.
	w, err := m.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	r, err := m.RLock(w.Context())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(w.Unlock(), "still held:", r.Context().Err() == nil, "same token:", r.Token() == w.Token())
	fmt.Println(r.Unlock())
	// Output:
	// beside readers: true
	// <nil> <nil>
	// <nil> still held: true same token: true
	// <nil>
}

// A caller that holds the lock can call a function that takes it.
func ExampleReentrant() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	m := holdfast.NewMutex(c, "/holdfast/locks/reindex", holdfast.Reentrant())
	inner := func(ctx context.Context) error {
		return holdfast.Do(ctx, m, func(context.Context) error {
			fmt.Println("inner")
			return nil
		})
	}
	err = holdfast.Do(ctx, m, func(ctx context.Context) error {
		fmt.Println("outer")
		return inner(ctx) // the context says that the lock is held
	})
	fmt.Println(err)
	// Output:
	// outer
	// inner
	// <nil>
}

// A transaction guarded by Commit writes to ZooKeeper only while the lock is held, however
// long the holder was asleep.
func ExampleHold_Commit() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, _, err := c.Create(ctx, "/position", []byte("0"), zk.Persistent); err != nil {
		log.Fatal(err)
	}

	h, err := holdfast.NewMutex(c, "/holdfast/locks/import").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = h.Commit(ctx, zk.SetOp("/position", []byte("100"), zk.AnyVersion))
	fmt.Println(err)

	// An operator sees that the import hangs.
	if err := holdfast.Break(ctx, c, "/holdfast/locks/import", h.Token()); err != nil {
		log.Fatal(err)
	}
	_, err = h.Commit(ctx, zk.SetOp("/position", []byte("200"), zk.AnyVersion))
	fmt.Println("lost:", errors.Is(err, holdfast.ErrLost))
	data, _, err := c.Get(ctx, "/position")
	fmt.Println(string(data), err)
	// Output:
	// <nil>
	// lost: true
	// 100 <nil>
}

// A holder that can stop early checks whether a client asks it to release.
func ExampleRevoke() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	h, err := holdfast.NewMutex(c, "/holdfast/locks/compact").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := holdfast.Revoke(ctx, c, "/holdfast/locks/compact", h.Token()); err != nil {
		log.Fatal(err)
	}
	<-h.Revoked()
	fmt.Println("letting go:", h.Unlock())
	// Output: letting go: <nil>
}

// Locks with the node names of other programs, and with our own.
func ExampleWithLayout() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	own := holdfast.Layout{
		Name:      "ours",
		Mutex:     "job.{uuid}.",      // the server appends the number
		Exclusive: []string{"job.*."}, // contenders; everything else is ignored
	}
	for _, layout := range []holdfast.Layout{layout.Kazoo, layout.Named("db"), own} {
		m := holdfast.NewMutex(c, "/locks/"+layout.Name, holdfast.WithLayout(layout))
		err := holdfast.Do(ctx, m, func(context.Context) error { return nil })
		fmt.Println(layout.Name, err)
	}
	// Output:
	// kazoo <nil>
	// named:db <nil>
	// ours <nil>
}
