package cronholdfast_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"

	"holdfast/contrib/cronholdfast"
	"holdfast/zk"
	"holdfast/zktest"
)

func ExampleOncePerFire() {
	srv := zktest.NewServer()
	defer srv.Close()
	c, err := zk.Dial(context.Background(), srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	schedule, err := cron.ParseStandard("0 2 * * *")
	if err != nil {
		log.Fatal(err)
	}
	once, err := cronholdfast.OncePerFire(c, "/myapp/jobs", "report", schedule, cronholdfast.WithLocation(time.UTC))
	if err != nil {
		log.Fatal(err)
	}
	job := cron.FuncJob(func() { fmt.Println("the report is written") })
	crontab := cron.New(cron.WithLocation(time.UTC))
	crontab.Schedule(schedule, cron.NewChain(once).Then(job))
	crontab.Start()

	// Two hosts start the job.
	crontab.Entries()[0].WrappedJob.Run()
	crontab.Entries()[0].WrappedJob.Run()
	<-crontab.Stop().Done()
	// Output: the report is written
}

// The README shows lines of the example.
func TestTheReadmeShowsTheExample(t *testing.T) {
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
			t.Errorf("the example does not have these lines of the README:\n%s", b[1])
		}
	}
	if len(blocks) == 0 {
		t.Error("the README shows no code")
	}
}
