package chaos

import (
	"testing"
	"time"
)

// turns returns a history of n claims, one after the other; change may corrupt it.
func turns(n int, change func(i int, acquire, end *Op)) []Op {
	var ops []Op
	for i := range n {
		at := time.Duration(10 * i)
		a := Op{Lock: "/m", Type: Mutex, Claim: i + 1, Kind: Acquire, Call: at + 1, Return: at + 3, Outcome: OK, Token: int64(i + 1)}
		e := a
		e.Kind, e.Call, e.Return = Release, at+5, at+7
		if change != nil {
			change(i, &a, &e)
		}
		ops = append(ops, a, e)
	}
	return ops
}

func TestLongHistoriesAreCut(t *testing.T) {
	const n = 3 * pieceLength
	refused := Op{Lock: "/m", Type: Mutex, Claim: n + 1, Kind: Try, Call: 10*n - 12, Return: 10*n - 11, Outcome: Failed}
	for _, tt := range []struct {
		name   string
		change func(i int, acquire, end *Op)
		more   []Op
		bad    bool
		least  int // pieces
	}{
		{"as it should be", nil, nil, false, 5},
		{"the token goes back behind a cut", func(i int, a, _ *Op) {
			if i == n-1 {
				a.Token = 1
			}
		}, nil, true, 5},
		{"two hold behind a cut", func(i int, _, e *Op) {
			if i == n-2 {
				e.Call, e.Return = 10*n+5, 10*n+6
			}
		}, nil, true, 5},
		{"refused behind a cut", nil, []Op{refused}, true, 5},
		{"refused behind a cut, and somebody lingers", func(i int, _, e *Op) {
			if i == 7 {
				e.Kind, e.Return = Lose, Never
			}
		}, []Op{refused}, false, 5},
		{"always held, so there is no place to cut", func(i int, a, e *Op) {
			a.Call = max(0, time.Duration(10*(i-1)))
			e.Return += 10
		}, nil, false, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ops := append(turns(n, tt.change), tt.more...)
			r := Linearizable(ops, time.Minute)
			if r.Undecided > 0 || r.Pieces < tt.least {
				t.Errorf("%d undecided of %d pieces; want none of at least %d", r.Undecided, r.Pieces, tt.least)
			}
			if got := len(r.Violations) > 0; got != tt.bad {
				t.Errorf("found %v; want something: %v", r.Violations, tt.bad)
			}
		})
	}
}

// Many claims that end at an unknown time could be put into very many orders.
func TestAHardPieceIsUndecidedNotRight(t *testing.T) {
	var ops []Op
	for i := range 200 {
		o := Op{Lock: "/s", Type: Semaphore, Limit: 100, Claim: i + 1, Kind: Acquire, Call: 1, Return: 1000, Outcome: OK, Token: 1 + int64(i)*7%200}
		end := o
		end.Kind, end.Call, end.Return = Release, 2, 1001
		ops = append(ops, o, end)
	}
	ops[0].Limit, ops[0].Permits = 100, 101 // which is impossible
	r := Linearizable(ops, time.Millisecond)
	if r.Undecided != 1 || len(r.Violations) != 0 {
		t.Errorf("%d undecided, violations %v; want the piece given up", r.Undecided, r.Violations)
	}
}
