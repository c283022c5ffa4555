// Command cycles is the load of BenchmarkBefore, which builds it with the library of two commits. It connects to the
// ensemble at its argument. For each line of its standard input, the name of a row and a duration, it loads the locks of
// the row for that long, and answers with the number of cycles a second. A cycle is one lock and unlock.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"holdfast"
	"holdfast/zk"
)

func main() {
	var dialled []*zk.Client
	dial := func() *zk.Client {
		c, err := zk.Dial(context.Background(), zk.Config{Servers: strings.Split(os.Args[1], ","), SessionTimeout: 10 * time.Second})
		must(err)
		dialled = append(dialled, c)
		return c
	}
	c := dial()
	mutex, reader := holdfast.NewMutex(c, "/cycles/mutex"), holdfast.NewRWMutex(c, "/cycles/rw").RLocker()
	semaphore := onePermit(holdfast.NewSemaphore(c, "/cycles/semaphore", 3))
	node := holdfast.NewNodeLock(c, "/cycles/node")
	local := holdfast.NewMutex(c, "/cycles/local", holdfast.WithLocalHandoff(1000))
	many, line := make([]holdfast.Locker, 64), make([]holdfast.Locker, 16)
	for i := range many {
		many[i] = holdfast.NewMutex(c, fmt.Sprintf("/cycles/many-%d", i))
	}
	for i := range line {
		line[i] = holdfast.NewMutex(dial(), "/cycles/line")
	}
	rows := map[string]func(time.Duration) float64{
		"Mutex":                 func(d time.Duration) float64 { return rate(d, mutex) },
		"64-Mutexes":            func(d time.Duration) float64 { return rate(d, many...) },
		"Mutex-of-16-sessions":  func(d time.Duration) float64 { return rate(d, line...) },
		"WithLocalHandoff-64":   func(d time.Duration) float64 { return rate(d, times(64, local)...) },
		"RWMutex-8-readers":     func(d time.Duration) float64 { return rate(d, times(8, reader)...) },
		"Semaphore":             func(d time.Duration) float64 { return rate(d, semaphore) },
		"Semaphore-3-permits-8": func(d time.Duration) float64 { return rate(d, times(8, semaphore)...) },
		"NodeLock":              func(d time.Duration) float64 { return rate(d, node) },
	}
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		name, text, _ := strings.Cut(in.Text(), " ")
		d, err := time.ParseDuration(text)
		must(err)
		fmt.Println(rows[name](d))
	}
	for _, c := range dialled {
		must(c.Close())
	}
}

func times(n int, l holdfast.Locker) []holdfast.Locker {
	all := make([]holdfast.Locker, n)
	for i := range all {
		all[i] = l
	}
	return all
}

// rate has a goroutine for each of the locks.
func rate(d time.Duration, locks ...holdfast.Locker) float64 {
	var workers sync.WaitGroup
	cycles := make([]int, len(locks))
	began := time.Now()
	for i, l := range locks {
		workers.Go(func() {
			for ; time.Since(began) < d; cycles[i]++ {
				h, err := l.Lock(context.Background())
				must(err)
				must(h.Unlock())
			}
		})
	}
	workers.Wait()
	sum := 0
	for _, n := range cycles {
		sum += n
	}
	return float64(sum) / time.Since(began).Seconds()
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// onePermit returns the Locker of one permit. Earlier libraries have a method of its own for it.
func onePermit(s any) holdfast.Locker {
	if s, ok := s.(interface{ Locker() holdfast.Locker }); ok {
		return s.Locker()
	}
	return s.(interface{ Locker(n int) holdfast.Locker }).Locker(1)
}
