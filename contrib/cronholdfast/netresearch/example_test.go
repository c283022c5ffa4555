package netresearch_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/netresearch/go-cron"

	"holdfast/contrib/cronholdfast/netresearch"
	"holdfast/zktest"
)

// A job with a context stops when the lock is lost.
func ExampleOncePerFire() {
	srv := zktest.NewServer()
	defer srv.Close()
	clock := cron.NewFakeClock(time.Date(2026, 3, 1, 1, 59, 0, 0, time.UTC))

	schedule, err := cron.ParseStandard("0 2 * * *")
	if err != nil {
		log.Fatal(err)
	}
	ran := make(chan struct{})
	for range 2 { // hosts
		once, err := netresearch.OncePerFire(srv.Client(), "/myapp/jobs", "report", schedule,
			netresearch.WithLocation(time.UTC), netresearch.WithClock(clock))
		if err != nil {
			log.Fatal(err)
		}
		crontab := cron.New(cron.WithLocation(time.UTC), cron.WithClock(clock))
		job := cron.FuncJobWithContext(func(ctx context.Context) {
			fmt.Println("the report is written:", ctx.Err())
			close(ran)
		})
		if _, err := crontab.ScheduleJob(schedule, cron.NewChain(once).Then(job)); err != nil {
			log.Fatal(err)
		}
		crontab.Start()
		defer func() { <-crontab.Stop().Done() }()
	}
	clock.BlockUntil(2)
	clock.Advance(time.Minute)
	<-ran
	// Output: the report is written: <nil>
}
