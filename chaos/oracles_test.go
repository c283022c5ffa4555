package chaos

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// The histories of these tests are in lines, one operation each:
//
//	acquire 1 0-2 t10 n5      claim 1, from 0 s to 2 s, token 10, number 5
//	acquire 2 1-x unknown     the outcome is unknown
//	try 3 1-2 failed
//	release 1 3-4
//	lose 1 3
//	break t10 3
//	observe 1-2 t10
//	change 1-2 x4             the limit of a semaphore becomes 4
//	acquire 4 0-9 t11 q2      its node was in the queue at 2 s
//	acquire 5 0-9 t11 T12     the token of the tree's root is 12
//	answer 1-2 t10 in1        a Once names the run that is claim 1
//
// with "shared", "strayed", "x2" (permits) and "in1" (inside claim 1) where they apply.

var (
	mutex     = Op{Lock: "/m", Type: Mutex}
	readWrite = Op{Lock: "/rw", Type: ReadWrite}
	semaphore = Op{Lock: "/s", Type: Semaphore, Limit: 3}
	election  = Op{Lock: "/e", Type: Election}
	once      = Op{Lock: "/o", Type: Once}
	most      = Op{Lock: "/o", Type: AtMostOnce}
)

func history(t *testing.T, of Op, text string) []Op {
	t.Helper()
	var ops []Op
	claims := map[int]Op{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		o := of
		o.Kind, o.Outcome = Kind(words[0]), OK
		args := words[1:]
		switch o.Kind {
		case Observe, Break, Change, Answer:
		default:
			o.Claim = number(t, args[0])
			args = args[1:]
			if had, ok := claims[o.Claim]; ok {
				kind := o.Kind
				o = had
				o.Kind = kind
			}
		}
		for _, w := range args {
			from, to, span := strings.Cut(w, "-")
			switch {
			case span:
				o.Call, o.Return = time.Duration(number(t, from))*time.Second, Never
				if to != "x" {
					o.Return = time.Duration(number(t, to)) * time.Second
				}
			case w == "node":
				o.Node = "/m/n"
			case w == "shared":
				o.Shared = true
			case w == "strayed":
				o.Strayed = true
			case w == "failed", w == "unknown":
				o.Outcome = Outcome(w)
			case w[0] == 'T':
				o.Tree = int64(number(t, w[1:]))
			case w[0] == 't':
				o.Token = int64(number(t, w[1:]))
			case w[0] == 's' && w != "shared" && w != "strayed":
				o.Session = int64(number(t, w[1:]))
			case w[0] == 'q':
				o.Queued = time.Duration(number(t, w[1:])) * time.Second
			case w[0] == 'n':
				o.Seq, o.HasSeq = int32(number(t, w[1:])), true
			case w[0] == 'x':
				o.Permits = number(t, w[1:])
				if o.Kind == Change {
					o.Permits, o.Limit = 0, number(t, w[1:])
				}
			case strings.HasPrefix(w, "h"):
				o.Handoff = number(t, w[1:])
			case strings.HasPrefix(w, "in"):
				o.Inside = number(t, w[2:])
			default:
				o.Call, o.Return = time.Duration(number(t, w))*time.Second, Never
			}
		}
		if o.Claim != 0 {
			claims[o.Claim] = o
			o.Client = o.Claim
		}
		ops = append(ops, o)
	}
	return ops
}

func number(t *testing.T, s string) int {
	t.Helper()
	n := 0
	for _, r := range s {
		if r < '0' || r > '9' {
			t.Fatalf("%q in a history: not a number", s)
		}
		n = 10*n + int(r-'0')
	}
	return n
}

func TestOraclesFindWhatIsWrong(t *testing.T) {
	const lin = "linearizability"
	for _, tt := range []struct {
		name string
		of   Op
		ops  string
		want []string // the violated rules, each once
	}{
		{"one after the other", mutex, `
			acquire 1 0-1 t10 n0
			release 1 2-3
			acquire 2 0-4 t11 n1
			release 2 5-6`, nil},
		{"granted while the release is under way", mutex, `
			acquire 1 0-1 t10 n0
			acquire 2 0-3 t11 n1
			release 1 2-5
			release 2 6-7`, nil},
		{"two hold", mutex, `
			acquire 1 0-1 t10 n0
			acquire 2 0-3 t11 n1
			release 1 4-5
			release 2 6-7`, []string{"overlap", lin}},
		{"handed on", mutex, `
			acquire 1 0-1 t10 n0 node h1
			acquire 2 0-4 t10 n0 node h1
			release 1 2-5
			release 2 6-7`, nil},
		{"handed on after its node was broken", mutex, `
			acquire 1 0-1 t10 n0 node h1
			break 2 node t10
			acquire 2 3-5 t10 n0 node h1
			release 1 4-6
			acquire 3 0-6 t11 n1
			release 2 7-8
			release 3 9-9`, nil},
		{"handed on after its session was ended", mutex, `
			acquire 1 0-1 t10 n0 node s5 h1
			break 2 s5
			acquire 3 0-3 t11 n1 s6
			acquire 2 4-5 t10 n0 node s5 h1
			release 1 4-6
			release 2 7-8
			release 3 9-9`, nil},
		{"handed on while it is held", mutex, `
			acquire 1 0-1 t10 n0 node h1
			acquire 2 0-4 t10 n0 node h1
			release 1 5-6
			release 2 7-8`, []string{"overlap", lin}},
		{"handed on too often", mutex, `
			acquire 1 0-1 t10 n0 node h1
			acquire 2 0-4 t10 n0 node h1
			acquire 3 0-6 t10 n0 node h1
			release 1 2-5
			release 2 5-6
			release 3 7-8`, []string{"handoff"}},
		{"handed on by a lock that does not", mutex, `
			acquire 1 0-1 t10 n0 node
			acquire 2 0-4 t10 n0 node
			release 1 2-5
			release 2 6-7`, []string{"token order", lin}},
		{"handed to another node", mutex, `
			acquire 1 0-1 t10 n0 node h1
			acquire 2 0-4 t10 n0 h1
			release 1 2-5
			release 2 6-7`, []string{"token order"}},
		{"two hold, never released", mutex, `
			acquire 1 0-1 t10
			acquire 2 2-3 t11`, []string{"overlap", lin}},
		{"lost in time", mutex, `
			acquire 1 0-1 t10
			lose 1 4
			acquire 2 2-5 t11`, nil},
		{"lost too late", mutex, `
			acquire 1 0-1 t10
			lose 1 6
			acquire 2 2-5 t11
			release 2 7-8`, []string{"overlap", lin}},
		{"lost and then unlocked: the loss counts", mutex, `
			acquire 1 0-1 t10
			lose 1 4
			release 1 8-9
			acquire 2 2-5 t11`, nil},
		{"taken away", mutex, `
			acquire 1 0-1 t10
			break 4 t10
			acquire 2 2-5 t11
			lose 1 6`, nil},
		{"taken away from another", mutex, `
			acquire 1 0-1 t10
			break 4 t9
			acquire 2 2-5 t11
			lose 1 6`, []string{"overlap", lin}},
		{"taken away before the client knew that it had it", mutex, `
			acquire 1 0-4 t10
			break 2 t10
			acquire 2 1-3 t11
			release 2 5-6`, nil},
		{"an unknown attempt claims nothing", mutex, `
			acquire 1 0-x unknown
			acquire 2 1-3 t11
			release 2 5-6`, nil},
		{"the token goes back", mutex, `
			acquire 1 0-1 t10
			release 1 2-3
			acquire 2 4-5 t9
			release 2 6-7`, []string{"token order", "token order", lin}},
		{"one token twice", mutex, `
			acquire 1 0-1 t10
			release 1 2-3
			acquire 2 0-5 t10
			release 2 6-7`, []string{"token order", lin}},
		{"overtaken", mutex, `
			acquire 1 0-1 t12 n2
			release 1 2-3
			acquire 2 0-4 t11 n1
			release 2 5-6`, []string{"FIFO", "token order", lin}},
		{"overtaken, with tokens by the order of the grants", mutex, `
			acquire 1 0-6 t12 q1
			acquire 2 2-3 t11
			release 2 4-5
			release 1 7-8`, []string{"FIFO"}},
		{"overtaken, with numbers by the order of the grants", mutex, `
			acquire 1 0-6 t12 n2 q1
			acquire 2 2-3 t11 n1 q2
			release 2 4-5
			release 1 7-8`, []string{"FIFO"}},
		{"it began before the other was in the queue", mutex, `
			acquire 1 0-6 t12 q3
			acquire 2 2-3 t11 q2
			release 2 4-5
			release 1 7-8`, nil},
		{"numbers begin again with the parent", mutex, `
			acquire 1 0-1 t10 n7
			release 1 2-3
			acquire 2 4-5 t11 n0
			release 2 6-7`, nil},
		{"refused while it was held", mutex, `
			acquire 1 0-1 t10
			try 2 2-3 failed
			release 1 4-5`, nil},
		{"refused because somebody waited", mutex, `
			acquire 1 0-5 t10
			try 2 2-3 failed`, nil},
		{"refused because another tried", mutex, `
			try 1 0-5 failed
			try 2 2-3 failed`, nil},
		{"refused because of nobody", mutex, `
			acquire 1 0-1 t10
			release 1 2-3
			try 2 4-5 failed`, []string{"try", lin}},
		{"refused because of a node of an earlier session", mutex, `
			acquire 1 0-1 t10 strayed
			release 1 2-3
			try 2 4-5 failed`, nil},
		{"refused for what a lost claim left behind", mutex, `
			acquire 1 0-1 t10
			lose 1 2
			try 2 4-5 failed`, nil},
		{"refused for what a lost claim left behind, after the next", mutex, `
			acquire 1 0-1 t10
			lose 1 2
			acquire 2 2-3 t11
			release 2 4-5
			try 3 6-7 failed`, []string{lin}}, // the sweep does not see that far
		{"refused for what nobody knows", mutex, `
			acquire 1 0-1 unknown
			try 2 4-5 failed`, nil},
		{"re-entrant", mutex, `
			acquire 1 0-1 t10
			acquire 2 2-3 t10 in1
			release 2 4-5
			release 1 6-7
			acquire 3 4-8 t11`, nil},
		{"an earlier node of the same name was taken away", mutex, `
			break 1 node
			acquire 1 2-3 t11 node
			acquire 2 2-5 t12
			release 1 6-7`, []string{"overlap", lin}},
		{"re-entrant, into a claim that was taken away before", mutex, `
			acquire 1 0-1 t10
			break 2 t10
			acquire 2 3-6 t11
			acquire 3 4-5 t10 in1
			lose 1 7
			lose 3 7`, nil},
		{"re-entrant, gone with the first release", mutex, `
			acquire 1 0-1 t10
			acquire 2 2-3 t10 in1
			release 2 4-5
			acquire 3 1-6 t11
			release 1 7-8`, []string{"overlap", lin}},

		{"readers share", readWrite, `
			acquire 1 0-1 t10 n0 shared
			acquire 2 0-2 t11 n1 shared
			release 1 3-4
			acquire 3 0-6 t12 n2
			release 2 5-7
			release 3 8-9`, nil},
		{"readers are told in any order", readWrite, `
			acquire 1 0-3 t10 n0 shared
			acquire 2 0-2 t11 n1 shared`, nil},
		{"a writer among readers", readWrite, `
			acquire 1 0-1 t10 shared
			acquire 2 0-2 t11 shared
			release 1 3-4
			acquire 3 0-5 t12
			release 2 6-7`, []string{"overlap", lin}},
		{"a reader beside a writer", readWrite, `
			acquire 1 0-1 t10
			acquire 2 0-2 t11 shared`, []string{"overlap", lin}},
		{"a reader that passed a writer in the queue", readWrite, `
			acquire 1 0-1 t10 shared q1
			acquire 2 1-8 t11 q2
			acquire 3 3-4 t12 shared q3
			release 1 5-6
			release 3 5-6
			release 2 9-10`, []string{"FIFO", "token order", lin}},
		{"a reader that passed a reader in the queue", readWrite, `
			acquire 2 1-8 t11 shared q2
			acquire 3 3-4 t12 shared q3
			release 3 5-6
			release 2 9-10`, nil},
		{"two writers", readWrite, `
			acquire 1 0-1 t10
			acquire 2 0-2 t11`, []string{"overlap", lin}},
		{"a writer's token below a reader's before it", readWrite, `
			acquire 1 0-1 t10 n3 shared
			release 1 2-3
			acquire 2 0-4 t9 n2`, []string{"token order", "FIFO", lin}},
		{"a reader that passed a writer who waits", readWrite, `
			acquire 2 0-2 t11 n1 shared
			release 2 3-4
			acquire 1 0-5 t10 n0`, []string{"token order", "FIFO", lin}},
		{"step down", readWrite, `
			acquire 1 0-1 t10
			acquire 2 2-3 t10 shared in1
			release 1 4-5
			acquire 3 2-6 t12 shared
			release 2 7-8
			release 3 7-8
			acquire 4 2-9 t13`, nil},
		{"step down, and another writer slips in", readWrite, `
			acquire 1 0-1 t10
			acquire 2 2-3 t10 shared in1
			release 1 4-5
			acquire 3 2-6 t12
			release 2 7-8`, []string{"overlap", lin}},
		{"a reader refused because of readers", readWrite, `
			acquire 1 0-1 t10 shared
			try 2 2-3 failed shared`, []string{"try", lin}},
		{"a writer refused because of readers", readWrite, `
			acquire 1 0-1 t10 shared
			try 2 2-3 failed`, nil},

		{"up to the limit", semaphore, `
			acquire 1 0-1 t10 x2
			acquire 2 0-2 t11
			release 1 3-4
			acquire 3 0-5 t12 x2`, nil},
		{"beyond the limit", semaphore, `
			acquire 1 0-1 t10 x2
			acquire 2 0-2 t11
			acquire 3 0-3 t12
			release 1 4-5`, []string{"permit limit", lin}},
		{"beyond the limit, after a loss that came too late", semaphore, `
			acquire 1 0-1 t10 x3
			acquire 2 0-3 t11
			lose 1 4`, []string{"permit limit", lin}},
		{"refused with permits left", semaphore, `
			acquire 1 0-1 t10
			try 2 2-3 failed x2`, []string{lin}}, // the sweep does not count
		{"refused without", semaphore, `
			acquire 1 0-1 t10
			try 2 2-3 failed x3`, nil},
		{"refused by the rest of permits of which one was taken away", semaphore, `
			acquire 1 0-1 t10 x2
			break 2 t10
			acquire 2 3-4 t11 x2
			release 2 5-6
			try 3 7-8 failed x2`, nil},
		{"refused after the only permit was taken away", semaphore, `
			acquire 1 0-1 t10
			break 2 t10
			acquire 2 3-4 t11 x3
			release 2 5-6
			try 3 7-8 failed x2`, []string{lin}},
		{"a later permit with a smaller token", semaphore, `
			acquire 1 0-1 t10
			acquire 2 2-3 t9`, []string{"token order", lin}},

		{"a limit that grows", semaphore, `
			acquire 1 0-1 t10 x3
			change 2-3 x4
			acquire 2 0-4 t11
			release 1 5-6
			release 2 5-6`, nil},
		{"a limit that has not grown yet", semaphore, `
			acquire 1 0-1 t10 x3
			acquire 2 0-2 t11
			change 3-4 x4
			release 1 5-6
			release 2 5-6`, []string{"permit limit", lin}},
		{"a limit that shrinks", semaphore, `
			acquire 1 0-1 t10 x2
			change 2-3 x1
			acquire 2 0-6 t11
			release 1 4-5`, nil},
		{"beyond a limit that has shrunk", semaphore, `
			acquire 1 0-1 t10 x1
			change 2-3 x1
			acquire 2 4-5 t11
			release 1 6-7`, []string{"permit limit", lin}},
		{"granted while the limit shrinks", semaphore, `
			acquire 1 0-1 t10 x1
			change 1-3 x1
			acquire 2 2-5 t11
			release 1 6-7`, nil},
		{"refused since the limit has shrunk", semaphore, `
			acquire 1 0-1 t10
			change 2-3 x1
			try 2 4-5 failed`, nil},
		{"changed back and forth, and beyond it", semaphore, `
			acquire 1 0-1 t10 x3
			change 1-2 x5
			change 3-4 x3
			acquire 2 5-6 t11
			release 1 7-8`, []string{"permit limit", lin}},

		{"terms", election, `
			acquire 1 0-1 t10
			observe 0-2 t10
			release 1 3-4
			acquire 2 0-5 t11
			observe 3-6 t10
			observe 5-6 t11`, nil},
		{"two leaders", election, `
			acquire 1 0-1 t10
			acquire 2 0-3 t11
			release 1 4-5`, []string{"overlap", lin}},
		{"a leader of yesterday", election, `
			acquire 1 0-1 t10
			release 1 3-4
			acquire 2 0-5 t11
			observe 6-7 t10`, []string{"term", lin}},
		{"a leader who has resigned", election, `
			acquire 1 0-1 t10
			release 1 3-4
			observe 6-7 t10`, []string{lin}},
		{"a leader who never knew", election, `
			acquire 1 0-1 t10
			release 1 3-4
			observe 6-7 t12`, nil},
		{"observers that go back", election, `
			observe 1-2 t12
			observe 3-4 t11`, []string{"term"}},

		{"a key that ran once", once, `
			acquire 1 0-1 t10
			release 1 2-x
			answer 0-3 t10 in1
			answer 4-5 t10 in1`, nil},
		{"two runs at a time", once, `
			acquire 1 0-1 t10
			acquire 2 0-2 t11
			release 1 3-x
			answer 0-4 t11 in2`, []string{"overlap", lin}},
		{"another run after a crash", once, `
			acquire 1 0-1 t10
			lose 1 2
			acquire 2 0-4 t11
			release 2 5-x
			answer 0-6 t11 in2`, nil},
		{"another run with a smaller token", once, `
			acquire 1 0-1 t11
			lose 1 2
			acquire 2 0-4 t10
			release 2 5-x`, []string{"token order", lin}},
		{"it runs again after its result", once, `
			acquire 1 0-1 t10
			release 1 2-x
			answer 0-3 t10 in1
			acquire 2 4-5 t11
			release 2 6-x`, []string{"once"}},
		{"it runs again, and its result was told later", once, `
			acquire 1 0-1 t10
			release 1 2-x
			acquire 2 0-3 t11
			release 2 4-x
			answer 0-5 t10 in1`, []string{"once"}},
		{"two results", once, `
			acquire 1 0-1 t10
			release 1 2-x
			acquire 2 0-3 t11
			release 2 4-x
			answer 0-5 t11 in2
			answer 0-6 t10 in1`, []string{"once"}},
		{"the result of no run", once, `
			acquire 1 0-1 t10
			release 1 2-x
			answer 0-3 t10 in2`, []string{"once"}},
		{"the result of a run with another token", once, `
			acquire 1 0-1 t10
			release 1 2-x
			answer 0-3 t9 in1`, []string{"once", "once"}},
		{"no result, though it runs at least once", once, `
			acquire 1 0-1 t10
			lose 1 2
			answer 0-3 t10 failed`, []string{"once"}},
		{"at most once", most, `
			acquire 1 0-1 t10
			lose 1 2
			answer 0-3 t10 failed
			answer 4-5 t10 failed`, nil},
		{"at most once, with a result", most, `
			acquire 1 0-1 t10
			release 1 2-x
			answer 0-5 t10 failed
			answer 0-3 t10 in1`, nil},
		{"at most once, and it runs again after a crash", most, `
			acquire 1 0-1 t10
			lose 1 2
			acquire 2 3-4 t11`, []string{"once"}},
		{"at most once, and its result is gone", most, `
			acquire 1 0-1 t10
			release 1 2-x
			answer 0-3 t10 in1
			answer 4-5 t10 failed`, []string{"once"}},
		{"at most once, and another has begun", most, `
			acquire 1 0-1 t10
			lose 1 2
			answer 0-3 t11 failed`, []string{"once"}},
		{"at most once, before anybody recorded the run", most, `
			answer 0-3 t10 failed`, nil},

		{"below one ancestor", readWrite, `
			acquire 1 0-1 t10 T21 shared
			acquire 2 0-2 t11 T20 shared
			release 1 3-4
			release 2 3-4
			acquire 3 0-5 t12 T22`, nil},
		{"an ancestor after its descendant, with a smaller token", readWrite, `
			acquire 1 0-1 t10 T21 shared
			release 1 3-4
			acquire 2 0-5 t11 T20`, []string{"tree token"}},
		{"a descendant after its ancestor, with a smaller token", readWrite, `
			acquire 1 0-1 t10 T21
			release 1 3-4
			acquire 2 0-5 t11 T20 shared`, []string{"tree token"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ops := history(t, tt.of, tt.ops)
			r := Linearizable(ops, time.Minute)
			if r.Undecided > 0 {
				t.Errorf("%d undecided", r.Undecided)
			}
			found := append(Sweep(ops), r.Violations...)
			var got []string
			for _, v := range found {
				got = append(got, v.Oracle)
			}
			slices.Sort(got)
			want := slices.Sorted(slices.Values(tt.want))
			if !slices.Equal(got, want) {
				t.Errorf("found %q; want %q\n%v", got, want, found)
			}
		})
	}
}

func TestOverdueFindsWhoWasNotWoken(t *testing.T) {
	for _, tt := range []struct {
		name string
		ops  string
		want int // violations
	}{
		{"in time", `
			acquire 1 0-1 t10
			release 1 5-6
			acquire 2 0-7 t11
			release 2 8-9`, 0},
		{"late", `
			acquire 1 0-1 t10
			release 1 5-6
			acquire 2 0-9 t11
			release 2 10-11`, 1},
		{"late after its holder was thrown out", `
			acquire 1 0-1 t10
			break 5 t10
			acquire 2 0-9 t11
			lose 1 6
			release 2 10-11`, 1},
		{"it came late itself", `
			acquire 1 0-1 t10
			release 1 2-3
			acquire 2 8-9 t11
			release 2 10-11`, 0},
		{"another gave up when its turn came", `
			acquire 1 0-1 t10
			release 1 2-3
			acquire 3 0-7 unknown
			acquire 2 0-9 t12
			release 2 10-11`, 0},
		{"another was thrown out when its turn came", `
			acquire 1 0-1 t10
			release 1 2-3
			break 7 t11
			acquire 2 0-9 t12
			release 2 10-11`, 0},
		{"two in a row", `
			acquire 1 0-1 t10
			release 1 2-3
			acquire 2 0-8 t11
			release 2 9-10
			acquire 3 0-15 t12
			release 3 16-17`, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			found := Overdue(history(t, mutex, tt.ops), 2*time.Second)
			if len(found) != tt.want {
				t.Errorf("found %v; want %d", found, tt.want)
			}
		})
	}
}

func TestHistoryIsReadAsWritten(t *testing.T) {
	ops := history(t, readWrite, `
		acquire 1 0-1 t10 n7 shared
		acquire 2 0-x unknown x2
		release 1 4-x`)
	var b bytes.Buffer
	if err := Write(&b, ops); err != nil {
		t.Fatal(err)
	}
	b.WriteString(`{"client":1,"ki`) // the process was killed
	got, err := Read(&b)
	if err != nil || !reflect.DeepEqual(got, ops) {
		t.Errorf("read %v, %v; want %v", got, err, ops)
	}
	if _, err := Read(strings.NewReader("{}\nnonsense\n")); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("an invalid history was read with %v; want an error that names line 2", err)
	}
}
