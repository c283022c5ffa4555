package holdfast_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast"
	"holdfast/zk"
	"holdfast/zktest"
)

// fillQueue makes places in the queue of a lock by hand.
func fillQueue(t *testing.T, c *zk.Client, path string, data []byte, names ...string) {
	t.Helper()
	if _, _, err := c.Create(t.Context(), path, nil, zk.Persistent); err != nil {
		t.Fatal(err)
	}
	for some := range slices.Chunk(names, 500) {
		var ops []zk.Op
		for _, name := range some {
			ops = append(ops, zk.CreateOp(path+"/"+name, data, zk.Persistent))
		}
		if _, err := c.Multi(t.Context(), ops...); err != nil {
			t.Fatal(err)
		}
	}
}

// List says who holds a lock as the waiters see it, also where nodes made by hand share a number, or numbers wrap.
func TestListSaysWhoHolds(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		for seed := range uint64(200) {
			rng := rand.New(rand.NewPCG(seed, 1))
			path := fmt.Sprintf("/l%d", seed)
			start, span := int32(rng.IntN(3)*0x3fffffff), 1+rng.IntN(6)
			var names []string
			numbers := make(map[string]int32)
			for i := range 1 + rng.IntN(8) {
				kind := []string{"lock", "__WRIT__", "__READ__"}[rng.IntN(3)]
				if kind == "lock" {
					kind = "-lock-"
				}
				number := start + int32(rng.IntN(span))
				names = append(names, fmt.Sprintf("_c_00000000-0000-0000-0000-%012d%s%010d", i, kind, number))
				numbers[names[i]] = number
			}
			fillQueue(t, c, path, nil, names...)
			entries, err := holdfast.List(t.Context(), c, path)
			if err != nil || len(entries) != len(names) {
				t.Fatalf("%v: %d entries, %v", names, len(entries), err)
			}
			for _, e := range entries {
				waits := slices.ContainsFunc(entries, func(o holdfast.Entry) bool {
					return numbers[o.Name]-numbers[e.Name] < 0 && !(e.Shared && o.Shared)
				})
				if e.Held == waits {
					t.Errorf("%v: %s held %v", names, e.Name, e.Held)
				}
			}
		}
	})
}

// Nodes with so much data that the client does not take the answers together are listed in parts.
func TestListOfNodesWithMuchData(t *testing.T) {
	if testing.Short() {
		t.Skip("needs some hundred megabytes")
	}
	srv := zktest.NewServer()
	defer srv.Close()
	c := srv.Client()
	data := []byte(strings.Repeat("x", 1_000_000))
	for i := range 150 {
		name := fmt.Sprintf("_c_00000000-0000-0000-0000-%012d-lock-%010d", i, i)
		if i == 0 {
			fillQueue(t, c, "/l", data, name)
		} else if _, _, err := c.Create(t.Context(), "/l/"+name, data, zk.Persistent); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := holdfast.List(t.Context(), c, "/l")
	if err != nil || len(entries) != 150 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	for i, e := range entries {
		if e.Held != (i == 0) || !strings.HasSuffix(e.Name, fmt.Sprintf("%010d", i)) || len(e.Owner) > 5000 {
			t.Errorf("%d: %s, held %v", i, e.Name, e.Held)
		}
	}
}

// What other programs write into their nodes does not fill the memory of a program that lists.
func TestListCutsLongTexts(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		long := strings.Repeat("é", 200_000)
		fillQueue(t, c, "/l", []byte(long), "_c_00000000-0000-0000-0000-000000000001-lock-0000000001")
		entries, err := holdfast.List(t.Context(), c, "/l")
		if err != nil || len(entries) != 1 || entries[0].Owner != strings.Repeat("é", 2048)+"…" {
			t.Errorf("%d entries, %v; want the beginning of the owner", len(entries), err)
		}
		h := lock(t, holdfast.NewMutex(c, "/m", holdfast.WithOwner(long), holdfast.WithReason("x"), holdfast.WithLabels(map[string]string{"a": long})))
		entries, err = holdfast.List(t.Context(), c, "/m")
		if err != nil || len(entries) != 1 || len(entries[0].Owner) > 5000 || entries[0].Reason != "x" || len(entries[0].Labels) > 0 {
			t.Errorf("%d entries, %v", len(entries), err)
		}
		unlock(t, h)
	})
}

// The labels of a node are in the list, and stay when the holder writes its node again.
func TestLabelsAreListed(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		labels := map[string]string{"team": "search"}
		h := lock(t, holdfast.NewMutex(c, lockPath, holdfast.WithOwner("ada"), holdfast.WithLabels(labels)))
		labels["team"] = "another"
		for range 3 { // the second: the holder has said since when it holds the lock; the third: a request came
			entries, err := holdfast.List(t.Context(), c, lockPath)
			if err != nil || len(entries) != 1 || len(entries[0].Labels) != 1 || entries[0].Labels["team"] != "search" || entries[0].Owner != "ada" {
				t.Fatalf("%+v, %v", entries, err)
			}
			time.Sleep(2 * time.Second)
			if err := holdfast.Revoke(t.Context(), client(t, srv), lockPath, h.Token()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
		}
		unlock(t, h)
		_, err := holdfast.NewElection(c, "/holdfast/locks/e", holdfast.WithLabels(labels)).Campaign(t.Context(), nil)
		wantErr(t, err, zk.ErrBadArguments)
	})
}
