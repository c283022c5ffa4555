package names

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// curatorName returns a name in Curator's form, for one side of the lock.
func curatorName(s Side, seq int32) string {
	a, err := Default.Attempt(s, 1)
	if err != nil {
		panic(err)
	}
	return a.Prefix + fmt.Sprintf("%010d", seq)
}

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
			var want error
			if !tt.present {
				want = ErrGone
			}
			if ahead, err := Default.Ahead(tt.names, tt.me); ahead.Near != tt.ahead || err != want {
				t.Errorf("got %q, %v; want %q, %v", ahead.Near, err, tt.ahead, want)
			}
		})
	}
}

// Apache's servers give out the last number repeatedly. Two places with that number would both hold the
// lock, so neither does; readers may.
func TestNobodyHoldsTheLockWithAnothersNumber(t *testing.T) {
	const twins = "2147483647"
	for _, tt := range []struct {
		me, other string
		want      error
	}{
		{"_c_a-lock-" + twins, "_c_b-lock-" + twins, ErrSameNumber},
		{"_c_a-lock-" + twins, "_c_b-__READ__" + twins, ErrSameNumber},
		{"_c_a-__READ__" + twins, "_c_b-__WRIT__" + twins, ErrSameNumber},
		{"_c_a-__READ__" + twins, "_c_b-__READ__" + twins, nil},
	} {
		if _, err := Default.Ahead([]string{tt.me, tt.other}, tt.me); err != tt.want {
			t.Errorf("%s beside %s: %v, want %v", tt.me, tt.other, err, tt.want)
		}
	}
}

func TestReaderWaitsForTheNearestWriterAheadOnly(t *testing.T) {
	const r, w, m = "_c_a-__READ__", "_c_b-__WRIT__", "_c_c-lock-"
	me := r + "0000000009"
	tests := []struct {
		name  string
		names []string
		ahead string
	}{
		{"readers ahead do not count", []string{r + "0000000001", r + "0000000002"}, ""},
		{"the nearest writer", []string{w + "0000000001", w + "0000000005", r + "0000000007", r + "0000000008"}, w + "0000000005"},
		{"a mutex is a writer", []string{w + "0000000001", m + "0000000006"}, m + "0000000006"},
		{"writers behind do not count (kazoo #649)", []string{w + "0000000010", m + "0000000011"}, ""},
		{"over the wrap", []string{w + "-000000001"}, w + "-000000001"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ahead, err := Default.Ahead(append(tt.names, me), me)
			if ahead.Near != tt.ahead || err != nil {
				t.Errorf("got %q, %v; want %q", ahead.Near, err, tt.ahead)
			}
			if _, err := Default.Ahead(tt.names, me); err != ErrGone {
				t.Errorf("a list without our own node: %v", err)
			}
		})
	}
}

// The queue is compared with the simplest model: a line ordered by arrival. Kinds, the
// listing's order and the counter's value vary, even around the wrap. A waiter waits for the
// nearest incompatible place ahead. Those that wait for nobody may hold the lock together, and
// there is always one.
func FuzzQueueIsALine(f *testing.F) {
	f.Add(uint64(1), int32(0), uint8(5))
	f.Add(uint64(2), int32(math.MaxInt32-2), uint8(9))
	f.Add(uint64(3), int32(-3), uint8(7))
	f.Add(uint64(4), int32(-1000000003), uint8(7))
	f.Add(uint64(5), int32(math.MinInt32), uint8(40))
	f.Fuzz(func(t *testing.T, seed uint64, first int32, n uint8) {
		if n == 0 {
			return
		}
		rng := rand.New(rand.NewPCG(seed, seed))
		var line []string
		var reader []bool
		seq := first
		for range n {
			s := Side(rng.IntN(3))
			line, reader = append(line, curatorName(s, seq)), append(reader, s == Read)
			seq += 1 + rng.Int32N(100)
		}
		names := slices.Concat(line, []string{"foreign", "x__lock__0000000001"})
		rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })

		holdingWriters, holding := 0, 0
		for i, me := range line {
			want := ""
			for j := range i {
				if !reader[i] || !reader[j] {
					want = line[j]
				}
			}
			if ahead, err := Default.Ahead(names, me); ahead.Near != want || err != nil {
				t.Fatalf("place %d of %v: got %q, %v; want %q", i, line, ahead.Near, err, want)
			}
			if want == "" {
				holding++
				if !reader[i] {
					holdingWriters++
				}
			}
		}
		if holding == 0 || holdingWriters > 0 && holding > 1 {
			t.Fatalf("%d hold the lock, %d of them writers: %v", holding, holdingWriters, line)
		}
		for i, c := range Default.InQueue(names) {
			if c.Name != line[i] || c.Shared != reader[i] {
				t.Fatalf("listed at %d: %+v; want %q, reader %v", i, c, line[i], reader[i])
			}
		}
	})
}
