//go:build unix

package holdfast_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"holdfast"
	"holdfast/zktest"
)

// processTime is how long this process has computed. Other processes do not count.
func processTime(t *testing.T) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// A directory with very many places takes List a time that grows with their number, and not with its square. Nodes of another
// program can all have one number.
func TestListOfVeryManyPlaces(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	c := srv.Client()
	quickest := func(n int) time.Duration {
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprintf("_c_00000000-0000-0000-0000-%012d-lock-0000000001", i)
		}
		path := fmt.Sprintf("/many-%d", n)
		fillQueue(t, c, path, nil, names...)
		least := time.Hour
		for range 3 {
			began := processTime(t)
			if entries, err := holdfast.List(t.Context(), c, path); err != nil || len(entries) != n {
				t.Fatal(len(entries), err)
			}
			least = min(least, processTime(t)-began)
		}
		return least
	}
	few, many := quickest(2_000), quickest(40_000)
	if many > 150*few { // a square would be 400
		t.Errorf("20 times as many places take %v instead of %v", many, few)
	}
}
