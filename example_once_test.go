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
		reports := holdfast.NewOnce(c, "/holdfast/once/report", holdfast.WithOwner(host), holdfast.ForgetAfter(30*24*time.Hour))
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

	cleanup := holdfast.NewOnce(c, "/holdfast/once/cleanup").Every(150 * time.Second)
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
func ExampleAtMostOnce() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	invoices := holdfast.NewOnce(c, "/holdfast/once/invoices", holdfast.AtMostOnce())
	send := func(context.Context) ([]byte, error) { return nil, errors.New("the mail server hung up") }
	_, err = invoices.Key("invoice 4711").Do(ctx, send)
	fmt.Println(err)
	_, err = invoices.Key("invoice 4711").Do(ctx, send)
	fmt.Println("begun before:", errors.Is(err, holdfast.ErrBegun))

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

	o := holdfast.NewOnce(c, "/holdfast/once/import", holdfast.WithOwner("web1"))
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
