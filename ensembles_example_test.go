package holdfast_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log"

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
