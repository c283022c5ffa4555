package asynqholdfast

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/hibiken/asynq"

	"holdfast"
	"holdfast/zktest"
)

// schedule runs the scheduler on one host of all those that call it, until ctx ends.
func schedule(ctx context.Context, e *holdfast.Election, host string, redis asynq.RedisConnOpt, opts *asynq.SchedulerOpts) error {
	return e.Lead(ctx, []byte(host), func(ctx context.Context) error {
		// After Shutdown, a Scheduler cannot start again, so each term has one of its own.
		scheduler := asynq.NewScheduler(redis, opts)
		if _, err := scheduler.Register("@every 1s", asynq.NewTask("report", nil)); err != nil {
			return err
		}
		if err := scheduler.Start(); err != nil {
			return err
		}
		defer scheduler.Shutdown()
		<-ctx.Done()
		return ctx.Err() // Lead campaigns again
	})
}

func Example() {
	redis, ok := redisServer()
	if !ok {
		fmt.Println("the host 10.0.0.5 has enqueued a task") // TestMain says that there is no Redis
		return
	}
	srv := zktest.NewServer()
	defer srv.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	e := holdfast.NewElection(srv.Client(), "/myapp/scheduler")
	opts := &asynq.SchedulerOpts{
		LogLevel: asynq.FatalLevel,
		PostEnqueueFunc: func(_ *asynq.TaskInfo, err error) {
			if err == nil && ctx.Err() == nil {
				fmt.Println("the host 10.0.0.5 has enqueued a task")
				cancel()
			}
		},
	}
	if err := schedule(ctx, e, "10.0.0.5", redis, opts); ctx.Err() == nil {
		log.Fatal(err)
	}
	// Output: the host 10.0.0.5 has enqueued a task
}
