package chaos

import (
	"slices"
	"testing"
	"time"
)

func TestLastingIsJudged(t *testing.T) {
	claim := func(id int, token int64, call, ret, end int) []Op {
		o := Op{Claim: id, Kind: Acquire, Lock: "/m", Type: Mutex, Token: token, Call: seconds(call), Return: seconds(ret), Outcome: OK}
		r := o
		r.Kind, r.Call, r.Return = Release, seconds(end), seconds(end)
		return []Op{o, r}
	}
	reserve := func(token int64, lasts, call, ret int, outcome Outcome) []Op {
		return []Op{{Kind: Reserve, Lock: "/m", Token: token, Lasts: seconds(lasts), Call: seconds(call), Return: seconds(ret), Outcome: outcome}}
	}
	run := func(kind Kind, token int64, began, call, ret int, outcome Outcome) []Op {
		return []Op{{Kind: kind, Lock: "/t", Token: token, Lasts: seconds(10), Began: seconds(began), Queued: seconds(began), Call: seconds(call), Return: seconds(ret), Outcome: outcome}}
	}
	refused := func(token int64, began, queued int) []Op {
		o := run(Turn, token, began, queued+1, queued+2, Failed)
		o[0].Queued = seconds(queued)
		return o
	}
	taken := func(token int64, at int) []Op {
		return []Op{{Kind: Break, Lock: "/m", Token: token, Call: seconds(at), Return: Never}}
	}
	first := append(claim(1, 10, 0, 1, 4), reserve(10, 20, 2, 3, OK)...)
	for _, tt := range []struct {
		name string
		ops  [][]Op
		want string // "": nothing
	}{
		{"granted after the reservation", [][]Op{first, claim(2, 11, 5, 22, 23)}, ""},
		{"granted within it", [][]Op{first, claim(2, 11, 5, 21, 23)}, "reservation"},
		{"granted to its holder again", [][]Op{first, claim(2, 10, 5, 21, 23)}, ""},
		{"it may not have been made", [][]Op{claim(1, 10, 0, 1, 4), reserve(10, 20, 2, 3, Unknown), claim(2, 11, 5, 6, 7)}, ""},
		{"it was ended", [][]Op{first, reserve(10, 0, 3, 4, OK), claim(2, 11, 5, 6, 7)}, ""},
		{"it may have been replaced", [][]Op{first, reserve(10, 1, 3, 4, Unknown), claim(2, 11, 5, 6, 7)}, ""},
		{"it was replaced by a shorter one", [][]Op{first, reserve(10, 5, 3, 4, OK), claim(2, 11, 5, 7, 8)}, "reservation"},
		{"taken away before it, and its holder learns of the lock later", [][]Op{first, claim(2, 9, 0, 5, 7), taken(9, 1)}, ""},
		{"granted within it, and taken away later", [][]Op{first, claim(2, 11, 5, 7, 9), taken(11, 8)}, "reservation"},
		{"another lock", [][]Op{first, {{Kind: Acquire, Claim: 2, Lock: "/n", Type: Mutex, Token: 11, Call: 1, Return: seconds(6), Outcome: OK}}}, ""},

		{"two runs a period apart", [][]Op{run(Done, 1, 0, 5, 6, OK), run(Turn, 2, 10, 11, 12, OK), run(Done, 2, 10, 13, 14, OK)}, ""},
		{"two runs of one period", [][]Op{run(Done, 1, 0, 5, 6, OK), run(Done, 2, 9, 13, 14, OK)}, "turn"},
		{"a run begins within the period", [][]Op{run(Done, 1, 0, 5, 6, OK), run(Turn, 2, 9, 13, 14, OK)}, "turn"},
		{"a run begins before the other is recorded", [][]Op{run(Done, 1, 0, 5, 16, OK), run(Turn, 2, 9, 13, 14, OK)}, ""},
		{"the other may not be recorded", [][]Op{run(Done, 1, 0, 5, 6, Unknown), run(Turn, 2, 9, 13, 14, OK), run(Done, 2, 9, 15, 16, OK)}, ""},
		{"refused because of a run", [][]Op{run(Done, 1, 0, 5, 6, OK), refused(1, 0, 9)}, ""},
		{"refused because of a run that may be recorded", [][]Op{run(Done, 1, 0, 5, 6, Unknown), refused(1, 0, 9)}, ""},
		{"refused because of no run", [][]Op{run(Done, 1, 0, 5, 6, OK), refused(2, 0, 9)}, "turn"},
		{"refused after the period", [][]Op{run(Done, 1, 0, 5, 6, OK), refused(1, 0, 10)}, "turn"},
	} {
		vs := Lasting(slices.Concat(tt.ops...))
		if (len(vs) > 0) != (tt.want != "") || len(vs) > 0 && vs[0].Oracle != tt.want {
			t.Errorf("%s: %v; want %q", tt.name, vs, tt.want)
		}
	}
}

func TestLeftoversAreFound(t *testing.T) {
	release := Op{Kind: Release, Lock: "/m", Token: 7, Call: 1, Return: 2, Outcome: OK}
	unknown := release
	unknown.Token, unknown.Outcome, unknown.Return = 8, Unknown, Never
	for _, tt := range []struct {
		held []int64
		want int
	}{{nil, 0}, {[]int64{6, 8}, 0}, {[]int64{7}, 1}} {
		vs := Leftovers([]Op{release, unknown}, tt.held)
		if len(vs) != tt.want || tt.want > 0 && vs[0].Oracle != "detached" {
			t.Errorf("%v: %v; want %d", tt.held, vs, tt.want)
		}
	}
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
