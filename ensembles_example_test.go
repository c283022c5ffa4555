package holdfast_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"holdfast"
	"holdfast/zk"
	"holdfast/zktest"
)

// An ensemble is one of several over which locks are split. It keeps its name when its
// servers change, because the name decides which locks it has.
type ensemble struct {
	Name   string
	Config zk.Config
}

// home returns the ensemble of a lock, by rendezvous hashing: every ensemble draws a number
// for the lock, and the highest wins. A new ensemble takes its share from all others, and
// no lock moves between those. All programs must use the same names and the same function,
// so it is SHA-256, which every language has.
func home(ensembles []*ensemble, lock string) *ensemble {
	var best *ensemble
	var most uint64
	for _, e := range ensembles {
		sum := sha256.Sum256([]byte(e.Name + "\x00" + lock))
		if draw := binary.BigEndian.Uint64(sum[:]); best == nil || draw > most {
			best, most = e, draw
		}
	}
	return best
}

// Locks are split over several ensembles that do not know each other. The program has a
// client for each, and the lock's name selects it.
func Example_severalEnsembles() {
	ctx := context.Background()
	var ensembles []*ensemble
	clients := make(map[string]*zk.Client)
	for _, name := range []string{"amber", "birch", "cedar"} {
		srv := zktest.NewServer() // stands for an ensemble of yours
		defer srv.Close()
		e := &ensemble{name, srv.Config()}
		c, err := zk.Dial(ctx, e.Config)
		if err != nil {
			log.Fatal(err)
		}
		defer c.Close()
		ensembles, clients[name] = append(ensembles, e), c
	}

	for _, lock := range []string{"/locks/orders", "/locks/billing", "/locks/search"} {
		e := home(ensembles, lock)
		h, err := holdfast.NewMutex(clients[e.Name], lock).Lock(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(lock, "is on", e.Name)
		h.Unlock()
	}
	// Output:
	// /locks/orders is on birch
	// /locks/billing is on amber
	// /locks/search is on cedar
}

// While an ensemble is being added, some programs do not know it yet. A program that does
// takes a moving lock in both places, the old one first. Once every program knows the new
// list, the new place alone is enough.
func Example_severalEnsembles_adding() {
	ctx := context.Background()
	var before []*ensemble
	clients := make(map[string]*zk.Client)
	for _, name := range []string{"amber", "birch", "cedar"} {
		srv := zktest.NewServer()
		defer srv.Close()
		e := &ensemble{name, srv.Config()}
		c, err := zk.Dial(ctx, e.Config)
		if err != nil {
			log.Fatal(err)
		}
		defer c.Close()
		before, clients[name] = append(before, e), c
	}
	before, after := before[:2], before

	both := func(lock string, f func(context.Context) error) error {
		was, is := home(before, lock), home(after, lock)
		if was.Name == is.Name {
			return holdfast.Do(ctx, holdfast.NewMutex(clients[is.Name], lock), f)
		}
		return holdfast.Do(ctx, holdfast.NewMutex(clients[was.Name], lock), func(ctx context.Context) error {
			return holdfast.Do(ctx, holdfast.NewMutex(clients[is.Name], lock), f)
		})
	}
	for _, lock := range []string{"/locks/orders", "/locks/billing", "/locks/search"} {
		err := both(lock, func(context.Context) error {
			fmt.Println(lock, "was on", home(before, lock).Name, "and is on", home(after, lock).Name)
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// /locks/orders was on birch and is on birch
	// /locks/billing was on amber and is on amber
	// /locks/search was on birch and is on cedar
}

const (
	simulatedLocks   = 1_000_000
	simulatedClients = 100_000
)

func namedEnsembles(n int) []*ensemble {
	list := make([]*ensemble, n)
	for i := range list {
		list[i] = &ensemble{Name: fmt.Sprintf("ensemble-%d", i+1)}
	}
	return list
}

// homes returns the home of each simulated lock, as an index into the list. Half of the
// locks have names that differ only in their last digits.
func homes(list []*ensemble) []uint8 {
	of := make(map[*ensemble]uint8)
	for i, e := range list {
		of[e] = uint8(i)
	}
	all := make([]uint8, simulatedLocks)
	var wg sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(all); i += workers {
				name := "/locks/job-" + strconv.Itoa(i)
				if i%2 == 1 {
					name = "/locks/" + strconv.FormatUint(uint64(uint32(i)*2654435761), 16) + "/tenant"
				}
				all[i] = of[home(list, name)]
			}
		})
	}
	wg.Wait()
	return all
}

var homesOnFive = sync.OnceValue(func() []uint8 { return homes(namedEnsembles(5)) })

func share(homes []uint8, ensembles int) []int {
	n := make([]int, ensembles)
	for _, h := range homes {
		n[h]++
	}
	return n
}

// A million locks are spread evenly. A new ensemble gets its share from all others, and no
// other lock moves. When an ensemble goes, its locks are spread over the rest.
func TestAMillionLocksSpreadEvenlyAndMoveLittle(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: go test without -short runs it")
	}
	six := namedEnsembles(6)
	of5, of6 := homesOnFive(), homes(six)
	for n, counts := range map[int][]int{5: share(of5, 5), 6: share(of6, 6)} {
		mean := float64(simulatedLocks) / float64(n)
		// Five standard deviations of a fair die with n sides. The names are the same on every
		// run, so the bound never fails by chance.
		bound := 5 * math.Sqrt(mean*(1-1/float64(n)))
		for i, c := range counts {
			if math.Abs(float64(c)-mean) > bound {
				t.Errorf("%d ensembles: %d of %d locks are on ensemble %d; want %.0f ± %.0f", n, c, simulatedLocks, i, mean, bound)
			}
		}
		t.Logf("%d ensembles: %v", n, counts)
	}
	moved, from := 0, make([]int, 5)
	for i := range of6 {
		if of5[i] == of6[i] {
			continue
		}
		moved++
		from[of5[i]]++
		if of6[i] != 5 {
			t.Fatalf("lock %d moves from %d to %d when ensemble 5 is added; want all moves to go there", i, of5[i], of6[i])
		}
	}
	t.Logf("a sixth ensemble takes %d locks, from each %v", moved, from)
	if want := share(of6, 6)[5]; moved != want {
		t.Errorf("%d locks move; want the %d that the new ensemble has", moved, want)
	}
	mean := float64(moved) / 5
	for i, c := range from {
		if math.Abs(float64(c)-mean) > 5*math.Sqrt(mean) {
			t.Errorf("the new ensemble takes %d locks from ensemble %d; want %.0f ± %.0f", c, i, mean, 5*math.Sqrt(mean))
		}
	}
}

// A client has a session on every ensemble that has one of its locks. With many locks per
// client, nearly every client has a session on each ensemble.
func TestSplittingDividesLocksButNotAlwaysSessions(t *testing.T) {
	const ensembles = 5
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	home := homesOnFive()
	for _, locks := range []int{1, 4, 16} { // per client
		sessions := make([]int, ensembles)
		for range simulatedClients {
			var on [ensembles]bool
			for range locks {
				on[home[rnd.IntN(len(home))]] = true
			}
			for e, is := range on {
				if is {
					sessions[e]++
				}
			}
		}
		// Expected: 1 − (1 − 1/n)^k of the clients. The draw and the ensembles' unequal shares
		// add some error.
		want := simulatedClients * (1 - math.Pow(1-1.0/ensembles, float64(locks)))
		t.Logf("%d clients with %d locks each on %d ensembles: sessions %v, %.0f expected", simulatedClients, locks, ensembles, sessions, want)
		if low, high := slices.Min(sessions), slices.Max(sessions); float64(low) < 0.96*want || float64(high) > 1.04*want {
			t.Errorf("%d locks for each client: sessions %v; want about %.0f on each ensemble", locks, sessions, want)
		}
	}
}
