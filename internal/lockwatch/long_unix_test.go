//go:build unix

package lockwatch

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"holdfast/layout"
	"holdfast/zk"
)

// processTime is how long this process has computed. Other processes do not count.
func processTime(t *testing.T) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// A long queue takes a reading a time that grows with its length, and not with its square.
func TestReadingsOfLongQueues(t *testing.T) {
	quickest := func(n int, form string) time.Duration {
		full := tree{"/locks": {info: info{known: true}}, "/locks/l": {info: info{known: true}}}
		full["/locks"].children = []string{"l"}
		for i := range n {
			name := fmt.Sprintf("_c_00000000-0000-0000-0000-%012d%s%010d", (i*7919)%n, form, i)
			full["/locks/l"].children = append(full["/locks/l"].children, name)
			full["/locks/l/"+name] = &node{info: info{known: true, stat: zk.Stat{EphemeralOwner: 7, Czxid: int64(i + 1)}}}
		}
		empty := tree{"/locks": full["/locks"], "/locks/l": {info: info{known: true}}}
		least := time.Hour
		for range 3 {
			m := newModel(grammar(layout.Curator), "/locks/", func(Event) {})
			began, at := processTime(t), time.Now()
			m.load(full, at)
			m.update(empty, at, make(map[string]string))
			m.update(full, at, make(map[string]string))
			if len(m.locks[lockKey{path: "/locks/l"}].queue) != n {
				t.Fatal("the model does not have the queue")
			}
			least = min(least, processTime(t)-began)
		}
		return least
	}
	for _, form := range []string{"-lock-", "__READ__"} {
		few, many := quickest(3_000, form), quickest(60_000, form)
		if many > 150*few { // a square would be 400
			t.Errorf("%s: a queue that is 20 times as long takes %v instead of %v", form, many, few)
		}
		t.Logf("%v, and %v for 20 times as many", few, many)
	}
}
