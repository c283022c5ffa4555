package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"holdfast"
	"holdfast/zk"
	"holdfast/zktest"
)

// At most three permits are out at a time; a client may take several.
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
	h, err := licences.Acquire(ctx, 2)
	if err != nil {
		log.Fatal(err)
	}
	free, limit, err := licences.Available(ctx)
	fmt.Println(free, "of", limit, "free", err)
	_, err = licences.TryAcquire(ctx, 2)
	fmt.Println("too many:", errors.Is(err, holdfast.ErrLocked))
	fmt.Println(h.Unlock())

	// Do works with a Semaphore as with any lock.
	fmt.Println(holdfast.Do(ctx, licences.Locker(1), func(context.Context) error { return nil }))
	// Output:
	// 1 of 3 free <nil>
	// too many: true
	// <nil>
	// <nil>
}

// The generators of snowflake ids need worker numbers that differ. A generator stops when it loses its
// number, since another may get it then.
func ExampleSlots() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	workers := holdfast.NewSlots(c, "/holdfast/slots/snowflake", 1024)
	for range 2 {
		h, err := workers.Acquire(ctx)
		if err != nil {
			log.Fatal(err)
		}
		defer h.Unlock()
		next := func(millisecond, sequence int64) (id int64, err error) {
			if h.Context().Err() != nil {
				return 0, context.Cause(h.Context())
			}
			return millisecond<<22 | int64(h.Slot())<<12 | sequence, nil
		}
		id, err := next(1000, 7)
		fmt.Println("worker", h.Slot(), "makes", id, err)
	}
	free, n, err := workers.Available(ctx)
	fmt.Println(free, "of", n, "free", err)
	// Output:
	// worker 0 makes 4194304007 <nil>
	// worker 1 makes 4194308103 <nil>
	// 1022 of 1024 free <nil>
}

// A process that remembers its number gets it again, unless another process took it meanwhile.
func ExampleSlots_Acquire() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	ports := holdfast.NewSlots(c, "/holdfast/slots/ports", 10)
	remembered := 3
	for range 2 {
		h, err := ports.Acquire(ctx, remembered)
		if err != nil {
			log.Fatal(err)
		}
		defer h.Unlock()
		fmt.Println(":", 8000+h.Slot())
	}
	// Output:
	// : 8003
	// : 8000
}

// Many goroutines of one program want one lock: they hand it on locally.
func ExampleWithLocalHandoff() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	// After a hundred local turns, waiters of other clients get theirs.
	m := holdfast.NewMutex(c, "/holdfast/locks/stock", holdfast.WithLocalHandoff(100))
	stock := 1000
	var wg sync.WaitGroup
	for range 1000 {
		wg.Go(func() {
			err := holdfast.Do(ctx, m, func(context.Context) error {
				stock--
				return nil
			})
			if err != nil {
				log.Print(err)
			}
		})
	}
	wg.Wait()
	fmt.Println(stock)
	// Output: 0
}

// One process takes the same lock again and again. While nobody else wants it, only the first time costs a request.
func ExampleWithKeep() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	m := holdfast.NewMutex(c, "/holdfast/locks/stock", holdfast.WithKeep(time.Minute))
	for range 1000 {
		h, err := m.Lock(ctx)
		if err != nil {
			log.Fatal(err)
		}
		if err := h.Unlock(); err != nil {
			log.Fatal(err)
		}
	}
	queue, err := holdfast.List(ctx, c, "/holdfast/locks/stock")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("kept:", queue[0].Kept)

	// Another client gets the lock at once.
	other, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer other.Close()
	h, err := holdfast.NewMutex(other, "/holdfast/locks/stock").TryLock(ctx)
	fmt.Println(err)
	h.Unlock()
	// Output:
	// kept: true
	// <nil>
}

// Two accounts are locked as one, in the same order everywhere.
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

// One node: the client that creates it has the lock.
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

// A service runs while its process leads, and again after each loss of the lead.
func ExampleElection_Lead() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	e := holdfast.NewElection(c, "/holdfast/locks/scheduler")
	terms := 0
	err = e.Lead(ctx, []byte("10.0.0.5:8080"), func(ctx context.Context) error {
		if terms++; terms == 2 {
			return nil // the work is done: resign
		}
		office, _ := holdfast.FromContext(ctx)
		srv.Expire(office.SessionID()) // as after a long pause
		<-ctx.Done()
		fmt.Println("lost:", errors.Is(context.Cause(ctx), holdfast.ErrLost))
		return ctx.Err() // Lead campaigns again
	})
	fmt.Println(terms, "terms,", err)
	// Output:
	// lost: true
	// 2 terms, <nil>
}

// Candidates campaign; anyone can follow the leader and its address.
func ExampleElection() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	e := holdfast.NewElection(c, "/holdfast/locks/scheduler")
	office, err := e.Campaign(ctx, []byte("10.0.0.5:8080")) // waits until we lead
	if err != nil {
		log.Fatal(err)
	}
	l, err := e.Leader(ctx)
	fmt.Println(string(l.Value), l.Term == office.Token(), err)

	moves := []string{"10.0.0.5:9090"}
	for l, err := range e.Leaders(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		if l.Term == 0 {
			fmt.Println("no leader")
			break
		}
		fmt.Println("leader:", string(l.Value))
		if len(moves) == 0 {
			err = office.Unlock() // resign
		} else {
			err = e.Proclaim(ctx, office, []byte(moves[0]))
			moves = nil
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// 10.0.0.5:8080 true <nil>
	// leader: 10.0.0.5:8080
	// leader: 10.0.0.5:9090
	// no leader
}

// A worker takes one task after the other from a list in ZooKeeper. The task's result and the release of its
// lock are one transaction.
func ExampleHold_CommitAndUnlock() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	h, err := holdfast.NewMutex(c, "/holdfast/locks/task-7").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = h.CommitAndUnlock(ctx, zk.CreateOp("/result-7", []byte("42"), zk.Persistent))
	fmt.Println(err)
	fmt.Println(h.Err())
	// Output:
	// <nil>
	// not held
}

// Metrics: how long callers wait for a lock, and how long they hold it. The observer's context carries what
// a trace needs from one event to the next.
func ExampleObserver() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	type span struct{}
	o := &holdfast.Observer{
		Queued: func(ctx context.Context, e holdfast.Event) context.Context {
			return context.WithValue(ctx, span{}, "span of "+e.Path)
		},
		Acquired: func(ctx context.Context, e holdfast.Event) {
			fmt.Println(ctx.Value(span{}), e.Op, "waited:", e.Took >= 0, e.Err)
		},
		Released: func(ctx context.Context, e holdfast.Event) {
			fmt.Println(ctx.Value(span{}), "released, held:", e.Took > 0, e.Err)
		},
	}
	err = holdfast.Do(ctx, holdfast.NewMutex(c, "/reports", holdfast.WithObserver(o)), func(context.Context) error { return nil })
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// span of /reports lock waited: true <nil>
	// span of /reports released, held: true <nil>
}

// Which locks does a program lose, and why?
func ExampleEvent() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	told := make(chan holdfast.Event, 1)
	o := &holdfast.Observer{Lost: func(_ context.Context, e holdfast.Event) { told <- e }}
	h, err := holdfast.NewMutex(c, "/reports", holdfast.WithObserver(o)).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	srv.Expire(h.SessionID())
	e := <-told
	fmt.Println(e.Path, e.Layout, e.Hold == h, errors.Is(e.Err, zk.ErrSessionExpired))
	// Output: /reports curator true true
}

// Two builds work in different directories of one checkout. A third wants all of it.
func ExampleTree() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	checkout := holdfast.NewTree(c, "/holdfast/locks/checkout")
	parser, err := checkout.Path("src/parser").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	printer, err := checkout.Path("src/printer").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = checkout.Path("src").TryLock(ctx)
	fmt.Println("src is locked below:", errors.Is(err, holdfast.ErrLocked))
	fmt.Println(parser.Unlock(), printer.Unlock())
	src, err := checkout.Path("src").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("a later token:", src.Token() > parser.Token() && src.Token() > printer.Token())
	fmt.Println(src.Unlock())
	// Output:
	// src is locked below: true
	// <nil> <nil>
	// a later token: true
	// <nil>
}
