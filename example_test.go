package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"strings"
	"sync"
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
		h, err := workers.Acquire(ctx, 1)
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
		h, err := ports.Acquire(ctx, 1, remembered)
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

// A job takes two of the four GPUs of a machine, all or none. A job that needs all of them waits in line, and no
// smaller one overtakes it.
func ExampleSlots_Acquire_several() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	gpus := holdfast.NewSlots(c, "/holdfast/locks/gpu", 4)
	other, err := gpus.Acquire(ctx, 1, 1)
	if err != nil {
		log.Fatal(err)
	}
	defer other.Unlock()
	err = holdfast.Do(ctx, gpus.Locker(2), func(ctx context.Context) error {
		h, _ := holdfast.FromContext(ctx)
		visible := strings.Trim(strings.ReplaceAll(fmt.Sprint(h.Slots()), " ", ","), "[]")
		job := exec.CommandContext(ctx, "sh", "-c", "echo training on $CUDA_VISIBLE_DEVICES")
		job.Env = append(os.Environ(), "CUDA_VISIBLE_DEVICES="+visible)
		out, err := job.Output()
		fmt.Print(string(out))
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	_, err = gpus.TryAcquire(ctx, 4)
	fmt.Println(err)
	// Output:
	// training on 0,2
	// holdfast: try acquire /holdfast/locks/gpu: locked by another
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

// A candidate with a larger number leads when it is there.
func ExampleWithPreference() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	standby, giveUp := context.WithCancel(ctx)
	defer giveUp()
	candidate := func(preference int) *holdfast.Election {
		return holdfast.NewElection(srv.Client(), "/holdfast/locks/scheduler", holdfast.WithPreference(preference, time.Millisecond))
	}
	leads, ended := make(chan bool), make(chan error)
	go func() {
		ended <- candidate(0).Lead(standby, []byte("standby"), func(ctx context.Context) error {
			close(leads)
			<-ctx.Done()
			fmt.Println("standby:", context.Cause(ctx))
			giveUp() // or Lead would campaign again
			return errors.New("it does not campaign again")
		})
	}()
	<-leads
	office, err := candidate(1).Campaign(ctx, []byte("main"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("main leads:", office.Err() == nil)
	fmt.Println(<-ended)
	// Output:
	// standby: the leader hands over to another candidate
	// main leads: true
	// it does not campaign again
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

// Of the deploys that arrive while one runs, only the newest is to follow.
func ExampleWithSupersede() {
	ctx := context.Background()
	srv := zktest.NewServer()
	defer srv.Close()
	client := srv.Client()
	defer client.Close()
	deploy := func(commit string) *holdfast.Mutex {
		return holdfast.NewMutex(client, "/deploy/main", holdfast.WithSupersede(), holdfast.WithOwner("commit "+commit))
	}

	running, err := deploy("1a").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	older := make(chan error, 1)
	go func() {
		_, err := deploy("2b").Lock(ctx)
		older <- err
	}()
	for waiting, _ := holdfast.List(ctx, client, "/deploy/main"); len(waiting) < 2; {
		waiting, _ = holdfast.List(ctx, client, "/deploy/main")
	}
	newest := make(chan error, 1)
	go func() {
		h, err := deploy("3c").Lock(ctx)
		if err == nil {
			err = h.Unlock()
		}
		newest <- err
	}()

	err = <-older
	by, _ := holdfast.SupersededBy(err)
	fmt.Println(errors.Is(err, holdfast.ErrSuperseded), by.Owner)
	running.Unlock()
	fmt.Println(<-newest)
	// Output:
	// true commit 3c
	// <nil>
}
