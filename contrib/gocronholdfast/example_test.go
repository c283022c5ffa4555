package gocronholdfast_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"

	"holdfast"
	"holdfast/contrib/gocronholdfast"
	"holdfast/zk"
	"holdfast/zktest"
)

func ExampleLocker() {
	srv := zktest.NewServer()
	defer srv.Close()
	c, err := zk.Dial(context.Background(), srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	locker, err := gocronholdfast.NewLocker(c, "/myapp/jobs", gocronholdfast.WithInterval(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		log.Fatal(err)
	}
	_, err = s.NewJob(
		gocron.DurationJob(time.Minute),
		gocron.NewTask(locker.Wrap("report", func(ctx context.Context) error {
			return writeReport(ctx) // stops when ctx ends
		})),
		gocron.WithName("report"), // the name of the lock
		gocron.WithStartAt(gocron.WithStartImmediately()),
	)
	if err != nil {
		log.Fatal(err)
	}
	s.Start()
	<-written
	if err := s.Shutdown(); err != nil {
		log.Fatal(err)
	}
	// Output: the report is written
}

var written = make(chan struct{})

func writeReport(context.Context) error {
	fmt.Println("the report is written")
	close(written)
	return nil
}

// A job that fires each day at 2:00 UTC has the date as its slot. The scheduler reads its times in UTC, too.
func ExampleWithSlot() {
	srv := zktest.NewServer()
	defer srv.Close()
	c := srv.Client()

	slot := gocronholdfast.WithSlot(func(_ string, now time.Time) string {
		return now.UTC().Add(10 * time.Hour).Format(time.DateOnly) // from 14:00 to 14:00
	})
	locker, err := gocronholdfast.NewLocker(c, "/myapp/jobs", slot)
	if err != nil {
		log.Fatal(err)
	}
	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker), gocron.WithLocation(time.UTC))
	if err != nil {
		log.Fatal(err)
	}
	defer s.Shutdown()
	_, err = gocronholdfast.NewLocker(c, "/myapp/jobs")
	fmt.Println(err)
	// Output: gocronholdfast: bad arguments: without WithInterval or WithSlot, each host would run each fire: give one of them
}

func ExampleElector() {
	srv := zktest.NewServer()
	defer srv.Close()
	c := srv.Client()

	elector := gocronholdfast.NewElector(c, "/myapp/scheduler", []byte("10.0.0.5"))
	defer elector.Close()
	s, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	if err != nil {
		log.Fatal(err)
	}
	defer s.Shutdown()
	for l, err := range holdfast.NewElection(c, "/myapp/scheduler").Leaders(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		if l.Term > 0 {
			fmt.Println("the leader is", string(l.Value))
			break
		}
	}
	// Output: the leader is 10.0.0.5
}

// The README shows lines of the examples.
func TestTheReadmeShowsTheExamples(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(string(readme), -1)
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	for _, b := range blocks {
		if !strings.Contains(squeeze(string(source)), squeeze(b[1])) {
			t.Errorf("no example has these lines of the README:\n%s", b[1])
		}
	}
	if len(blocks) == 0 {
		t.Error("the README shows no code")
	}
}
