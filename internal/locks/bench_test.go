package locks

import (
	"fmt"
	"testing"

	"holdfast/zk"
	"holdfast/zktest"
)

// fill makes locks with places in their queues. No session owns them, since a server bounds those of one session.
func fill(b *testing.B, c *zk.Client, locks, places int) {
	b.Helper()
	for l := range locks {
		dir := fmt.Sprintf("/l%05d", l)
		ops := []zk.Op{zk.CreateOp(dir, nil, zk.Container)}
		for p := range places {
			ops = append(ops, zk.CreateOp(fmt.Sprintf("%s/_c_6266cbe9-453b-4a50-8718-%012d-lock-", dir, p), []byte(`{"owner":"ann@web1:100"}`), zk.PersistentSequential))
			if len(ops) == 500 || p == places-1 {
				if _, err := c.Pipeline(b.Context(), ops...); err != nil {
					b.Fatal(err)
				}
				ops = nil
			}
		}
	}
}

// BenchmarkRead reads 10,000 locks with 100,000 waiters.
func BenchmarkRead(b *testing.B) {
	srv := zktest.NewServer()
	defer srv.Close()
	c := srv.Client()
	fill(b, c, 10_000, 11)
	b.ReportAllocs()
	for b.Loop() {
		if s, err := Read(b.Context(), c, Query{Prefix: "/"}); err != nil || len(s.Locks) != 10_000 {
			b.Fatal(len(s.Locks), err)
		}
	}
}

// BenchmarkAt looks at one lock with 100,000 waiters.
func BenchmarkAt(b *testing.B) {
	srv := zktest.NewServer()
	defer srv.Close()
	c := srv.Client()
	fill(b, c, 1, 100_001)
	b.ReportAllocs()
	for b.Loop() {
		s, err := At(b.Context(), c, "/l00000")
		if err != nil || len(s.Locks) != 1 || s.Locks[0].Waiters() != 100_000 {
			b.Fatal(err)
		}
	}
}
