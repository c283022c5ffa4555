package once_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"holdfast"
	"holdfast/once"
	"holdfast/zk"
	"holdfast/zktest"
)

// Several hosts run one report a night: the date is the key.
func ExampleOnce() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	for _, host := range []string{"web1", "web2"} { // each in its own process
		reports := once.New(c, "/holdfast/once/report", once.WithLock(holdfast.WithOwner(host)), once.ForgetAfter(30*24*time.Hour))
		r, err := reports.Key("2026-11-23").Do(ctx, func(context.Context) ([]byte, error) {
			return []byte("17 pages"), nil
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s ran: %v; %s by %s\n", host, r.Ran, r.Value, r.Owner)
	}
	// Output:
	// web1 ran: true; 17 pages by web1
	// web2 ran: false; 17 pages by web1
}

// Hosts with different clocks fire a job every five minutes. It runs once if the clocks differ by less than
// half of that.
func ExampleJob() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	cleanup := once.New(c, "/holdfast/once/cleanup").Every(150 * time.Second)
	for range 3 {
		r, err := cleanup.Do(ctx, func(context.Context) ([]byte, error) {
			fmt.Println("cleaning up")
			return nil, nil
		})
		fmt.Println(r.Ran, err)
	}
	// Output:
	// cleaning up
	// true <nil>
	// false <nil>
	// false <nil>
}

// An invoice must not be sent twice. If the first attempt fails half way, a person has to look.
func ExampleOption_atMostOnce() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	invoices := once.New(c, "/holdfast/once/invoices", once.AtMostOnce())
	send := func(context.Context) ([]byte, error) { return nil, errors.New("the mail server hung up") }
	_, err = invoices.Key("invoice 4711").Do(ctx, send)
	fmt.Println(err)
	_, err = invoices.Key("invoice 4711").Do(ctx, send)
	fmt.Println("begun before:", errors.Is(err, once.ErrBegun))

	fmt.Println(invoices.Key("invoice 4711").Forget(ctx)) // the person has found that it was not sent
	r, err := invoices.Key("invoice 4711").Do(ctx, func(context.Context) ([]byte, error) { return nil, nil })
	fmt.Println(r.Ran, err)
	// Output:
	// the mail server hung up
	// begun before: true
	// <nil>
	// true <nil>
}

// A Result names the run that answers a call, for log lines and for later writes that check its token.
func ExampleResult() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	o := once.New(c, "/holdfast/once/import", once.WithLock(holdfast.WithOwner("web1")))
	first, err := o.Key("file 1").Do(ctx, func(context.Context) ([]byte, error) { return []byte("12 rows"), nil })
	if err != nil {
		log.Fatal(err)
	}
	later, err := o.Key("file 1").Do(ctx, func(context.Context) ([]byte, error) { return nil, nil })
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(later.Token == first.Token, later.At.Equal(first.At), string(later.Value), later.Owner)
	// Output: true true 12 rows web1
}

// A lock that is held for other reasons also guards what is done once for each date.
func ExampleTurn() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	reports := once.New(c, "/holdfast/once/reports", once.WithLock(holdfast.WithOwner("web1")))
	for range 2 {
		err := holdfast.Do(ctx, holdfast.NewMutex(c, "/holdfast/locks/reports"), func(ctx context.Context) error {
			h, _ := holdfast.FromContext(ctx)
			turn, last, err := reports.Key("2026-11-23").Turn(ctx, h)
			switch {
			case err != nil:
				return err
			case turn == nil:
				fmt.Println("done by", last.Owner)
				return nil
			}
			fmt.Println("writing the report")
			_, err = turn.Done(ctx, nil)
			return err
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// writing the report
	// done by web1
}
