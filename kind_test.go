package holdfast

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func curatorName(seq int32) string { return protectedName() + fmt.Sprintf("%010d", seq) }

func TestMutexWaitsForTheContenderRightAhead(t *testing.T) {
	const g = "_c_6266cbe9-453b-4a50-8718-b39f57879b6e"
	tests := []struct {
		name    string
		names   []string
		me      string
		ahead   string
		present bool
	}{
		{"alone", []string{g + "-lock-0000000000"}, g + "-lock-0000000000", "", true},
		{"second", []string{g + "-lock-0000000007", "_c_x-lock-0000000003"}, g + "-lock-0000000007", "_c_x-lock-0000000003", true},
		{"the nearest of several", []string{"_c_x-lock-0000000003", "_c_z-lock-0000000006", g + "-lock-0000000007", "_c_y-lock-0000000005"}, g + "-lock-0000000007", "_c_z-lock-0000000006", true},
		{"those behind do not count", []string{g + "-lock-0000000007", "_c_x-lock-0000000008"}, g + "-lock-0000000007", "", true},
		{"my own node is gone", []string{"_c_x-lock-0000000008"}, g + "-lock-0000000007", "", false},
		{"everything is gone", nil, g + "-lock-0000000007", "", false},
		{"foreign names are not in the queue", []string{"lease_holder", "content", "", "lock-", "_c_x-lock-12", "_c_x-lock-0000000001x", g + "-lock-0000000007"}, g + "-lock-0000000007", "", true},
		{"a Curator reader keeps a mutex out", []string{g + "-__READ__0000000001", g + "-lock-0000000007"}, g + "-lock-0000000007", g + "-__READ__0000000001", true},
		{"a Curator writer keeps a mutex out", []string{g + "-__WRIT__0000000001", g + "-lock-0000000007"}, g + "-lock-0000000007", g + "-__WRIT__0000000001", true},
		{"a go-zookeeper node keeps a mutex out", []string{"_c_0123456789abcdef0123456789abcdef-lock-0000000001", g + "-lock-0000000007"}, g + "-lock-0000000007", "_c_0123456789abcdef0123456789abcdef-lock-0000000001", true},
		{"the prefix has no say", []string{"zzz-lock-0000000001", g + "-lock-0000000002", "aaa-lock-0000000003"}, g + "-lock-0000000002", "zzz-lock-0000000001", true},
		{"lock- inside the prefix", []string{"lock-0000000009-lock-0000000001", g + "-lock-0000000002"}, g + "-lock-0000000002", "lock-0000000009-lock-0000000001", true},
		{"over the wrap", []string{"a-lock-2147483647", "b-lock--2147483648"}, "b-lock--2147483648", "a-lock-2147483647", true},
		{"behind the wrap", []string{"a-lock--2147483648", "b-lock--2147483647"}, "b-lock--2147483647", "a-lock--2147483648", true},
		{"nine digits behind a sign", []string{"a-lock--1000000000", "b-lock--999999999"}, "b-lock--999999999", "a-lock--1000000000", true},
		{"from minus one to zero", []string{"a-lock--000000001", "b-lock-0000000000"}, "b-lock-0000000000", "a-lock--000000001", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ahead, present := mutexAhead(tt.names, tt.me)
			if ahead != tt.ahead || present != tt.present {
				t.Errorf("got %q, %v; want %q, %v", ahead, present, tt.ahead, tt.present)
			}
		})
	}
}

// In every queue, of whatever names in whatever order and also around the wrap,
// exactly one place has nobody ahead, and the others wait for the one before them.
func FuzzQueueHasOneHead(f *testing.F) {
	f.Add(uint64(1), int32(0), uint8(5))
	f.Add(uint64(2), int32(math.MaxInt32-2), uint8(9))
	f.Add(uint64(3), int32(-3), uint8(7))
	f.Add(uint64(4), int32(-1000000003), uint8(7))
	f.Fuzz(func(t *testing.T, seed uint64, first int32, n uint8) {
		rng := rand.New(rand.NewPCG(seed, seed))
		var order, names []string
		seq := first
		for range n {
			order = append(order, curatorName(seq))
			seq += 1 + rng.Int32N(100)
		}
		names = slices.Concat(order, []string{"foreign", "x__lock__0000000001"})
		rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for i, me := range order {
			want := ""
			if i > 0 {
				want = order[i-1]
			}
			if ahead, present := mutexAhead(names, me); ahead != want || !present {
				t.Fatalf("place %d of %v: got %q, %v; want %q", i, order, ahead, present, want)
			}
		}
		for i, c := range inQueue(names) {
			if c.name != order[i] {
				t.Fatalf("listed at %d: %q; want %q", i, c.name, order[i])
			}
		}
	})
}

func TestProtectedNameIsWhatCuratorLooksFor(t *testing.T) {
	a, b := protectedName(), protectedName()
	if a == b {
		t.Fatalf("two attempts have one name: %s", a)
	}
	// Curator: "_c_" + UUID.toString() + "-" + "lock-"
	const want = "_c_6266cbe9-453b-4a50-8718-b39f57879b6e-lock-"
	if len(a) != len(want) {
		t.Fatalf("got %q; want the form of %q", a, want)
	}
	for i := range want {
		if (want[i] == '-') != (a[i] == '-') {
			t.Fatalf("got %q; want the form of %q", a, want)
		}
	}
}
