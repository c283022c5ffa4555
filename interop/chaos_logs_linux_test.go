package interop

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/chaos"
	"holdfast/internal/txlog"
)

// A logTenure is the time for which a place held a lock, as the logs of the servers tell. Its times are on the clock of
// the history.
type logTenure struct {
	lock, node     string
	session, token int64
	made           time.Duration // when its node was made
	from, to       time.Duration
	end            txlog.Type // how it ended; "" if it did not
}

// A logResult compares the tenures of the logs with the claims of the clients.
type logResult struct {
	Tenures   int            `json:"tenures"`
	Claims    int            `json:"claims"`
	Explained map[string]int `json:"explained"`
	Warnings  []string       `json:"warnings"`
	Different []string       `json:"different"`
}

func (r *logResult) String() string {
	return fmt.Sprintf("servers' logs: %d tenures, %d claims, explained %v, %d differences, %d warnings", r.Tenures, r.Claims, r.Explained, len(r.Different), len(r.Warnings))
}

// readTenures reads the logs of all servers.
func readTenures(dirs []string, offset time.Duration, warn func(error)) (all []*logTenure, err error) {
	open := make(map[string]*logTenure)
	_, err = txlog.Read(txlog.Config{Dirs: dirs, Warn: warn, Report: func(e txlog.Event) error {
		key := fmt.Sprint(e.Lock, " ", e.Kind, " ", e.Place.Token)
		at := time.Duration(e.At.UnixNano()) - offset
		switch t := open[key]; {
		case e.Type == txlog.Acquired && t == nil:
			t = &logTenure{lock: e.Lock, node: e.Place.Path, session: e.Place.Session, token: e.Place.Token, made: time.Duration(e.Place.Since.UnixNano()) - offset, from: at, to: chaos.Never}
			open[key], all = t, append(all, t)
		case t != nil && e.Type != txlog.Acquired && e.Type != txlog.Kept && e.Type != txlog.Joined:
			t.to, t.end = at, e.Type
			delete(open, key)
		}
		return nil
	}})
	return all, err
}

// logSlack is how exact the times of transactions are: whole milliseconds, rounded down.
const logSlack = 2 * time.Millisecond

// compareLogs checks that every claim of a client is within a tenure of the logs, and that every tenure without a claim
// belongs to an attempt that ended without the lock, or to a call that claims nothing.
func compareLogs(tenures []*logTenure, ops []chaos.Op) *logResult {
	r := &logResult{Tenures: len(tenures), Explained: make(map[string]int)}
	byToken := make(map[int64][]*logTenure)
	for _, t := range tenures {
		byToken[t.token] = append(byToken[t.token], t)
	}
	ends := make(map[int]time.Duration)
	attempts := make(map[int]chaos.Op)
	var breaks []chaos.Op
	for _, o := range ops {
		switch o.Kind {
		case chaos.Acquire, chaos.Try:
			attempts[o.Claim] = o // the later record counts
		case chaos.Release, chaos.Lose:
			if at, ok := ends[o.Claim]; !ok || o.Call < at {
				ends[o.Claim] = o.Call
			}
		case chaos.Break:
			breaks = append(breaks, o)
		}
	}
	claimed := make(map[*logTenure]bool)
	tried := make(map[string][]chaos.Op) // attempts, by lock
	for _, id := range sortedClaims(attempts) {
		o := attempts[id]
		tried[logLock(o.Lock)] = append(tried[logLock(o.Lock)], o)
		if o.Outcome != chaos.OK {
			continue
		}
		r.Claims++
		end, ok := ends[id]
		if !ok {
			end = o.Return
		}
		for _, t := range byToken[o.Token] {
			claimed[t] = true
		}
		r.claim(o, end, byToken[o.Token], breaks)
	}
	for _, t := range tenures {
		if !claimed[t] {
			r.unclaimed(t, tried[logLock(t.lock)])
		}
	}
	return r
}

// logLock returns the lock of the history that a lock of the logs belongs to. The locks of one tree are one.
func logLock(lock string) string {
	if parts := strings.SplitN(lock, "/", 5); len(parts) == 5 && chaosKind(lock) == "tree" {
		return strings.Join(parts[:4], "/")
	}
	return lock
}

func sortedClaims(attempts map[int]chaos.Op) (ids []int) {
	for id := range attempts {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// claim checks one claim, which ended at end.
func (r *logResult) claim(o chaos.Op, end time.Duration, tenures []*logTenure, breaks []chaos.Op) {
	var last *logTenure
	for _, t := range tenures {
		if t.from <= o.Return+logSlack && (t.to == chaos.Never || t.to+logSlack >= end) {
			r.Explained["claims within their tenure"]++
			return
		}
		last = t
	}
	if last == nil {
		r.Different = append(r.Different, fmt.Sprintf("%v: no tenure has the token", o))
		return
	}
	for _, b := range breaks {
		same := b.Token == o.Token && b.Lock == o.Lock || b.Node != "" && b.Node == o.Node || b.Session != 0 && b.Session == o.Session
		if same && b.Call <= end {
			r.Explained["claims that a fault has ended, or of a process that did not run"]++
			return
		}
	}
	if last.end == txlog.Removed && last.from <= o.Return+logSlack { // a permit or a part of a tree
		r.Explained["claims whose node a fault has removed"]++
		return
	}
	r.Different = append(r.Different, fmt.Sprintf("%v until %v: the tenure is %+v", o, end, *last))
}

// unclaimed explains a tenure without a claim.
func (r *logResult) unclaimed(t *logTenure, tried []chaos.Op) {
	switch kind := chaosKind(t.lock); {
	case kind == "once" || kind == "most" || kind == "shards" || kind == "lead": // a candidate that yields to a preferred one was first for a moment
		r.Explained["tenures of calls that find the work done, or of workers, or of candidates that yield"]++
		return
	case kind == "semaphore" && strings.HasSuffix(t.lock, "/locks") || kind == "slots" && strings.HasSuffix(t.lock, "/slot-queue"):
		r.Explained["turnstiles, which look like locks while there are no permits yet"]++
		return
	case kind == "tree": // a call may give up a part and make it again, which no claim tells
		r.Explained["parts of trees"]++
		return
	case slices.ContainsFunc(tried, func(o chaos.Op) bool {
		return o.Outcome != chaos.OK && o.Call <= t.to && (o.Return == chaos.Never || o.Outcome == chaos.Unknown || o.Return+time.Second >= t.from)
	}):
		r.Explained["tenures of attempts that ended without the lock"]++
		return
	case (t.end == txlog.Expired || t.end == txlog.Closed || t.end == txlog.Removed) && slices.ContainsFunc(tried, func(o chaos.Op) bool {
		return o.Token != t.token && o.Call <= t.made+logSlack && o.Return+logSlack >= t.made
	}):
		r.Explained["nodes that an attempt left in a session that was over, and acquired the lock with another one"]++
		return
	}
	r.Different = append(r.Different, fmt.Sprintf("nobody claimed %+v", *t))
}

// fromLogs compares what the logs of the servers tell with the claims of the clients.
func (c *chaosRun) fromLogs(ops []chaos.Op) *logResult {
	offset := time.Duration(time.Now().UnixNano()) - monotonic()
	var warnings []string
	tenures, err := readTenures(c.z.DataDirs(), offset, func(err error) { warnings = append(warnings, err.Error()) })
	if err != nil {
		return &logResult{Different: []string{err.Error()}}
	}
	tenures = slices.DeleteFunc(tenures, func(t *logTenure) bool { return !strings.HasPrefix(t.lock, "/chaos/") })
	r := compareLogs(tenures, ops)
	r.Warnings = warnings
	return r
}

// A claim outside every tenure is found, and so is a tenure that nobody can have had.
func TestChaosComparesClaimsWithLogs(t *testing.T) {
	lock := chaosPath("mutex", 0)
	held := chaos.Op{Claim: 1, Kind: chaos.Acquire, Outcome: chaos.OK, Lock: lock, Token: 5, Session: 9, Call: 1 * time.Second, Return: 2 * time.Second}
	over := held
	over.Kind, over.Call, over.Return = chaos.Release, 4*time.Second, chaos.Never
	failed := held
	failed.Outcome, failed.Token = chaos.Unknown, 0
	broken := chaos.Op{Kind: chaos.Break, Lock: lock, Token: 5, Call: 3 * time.Second}
	tenure := func(from, to time.Duration) []*logTenure {
		return []*logTenure{{lock: lock, token: 5, session: 9, from: from, to: to, end: txlog.Released}}
	}
	for _, c := range []struct {
		name    string
		tenures []*logTenure
		ops     []chaos.Op
		want    int
	}{
		{"within", tenure(1500*time.Millisecond, 4*time.Second), []chaos.Op{held, over}, 0},
		{"no tenure", nil, []chaos.Op{held, over}, 1},
		{"claimed too early", tenure(3*time.Second, 4*time.Second), []chaos.Op{held, over}, 1},
		{"claimed too long", tenure(time.Second, 3*time.Second), []chaos.Op{held, over}, 1},
		{"ended by a fault", tenure(time.Second, 3*time.Second), []chaos.Op{held, over, broken}, 0},
		{"nobody", tenure(time.Second, 3*time.Second), nil, 1},
		{"left in a session that was over", []*logTenure{{lock: lock, token: 3, made: 1500 * time.Millisecond, from: 3 * time.Second, to: 4 * time.Second, end: txlog.Expired}, tenure(1500*time.Millisecond, 4*time.Second)[0]}, []chaos.Op{held, over}, 0},
		{"an attempt that was given up", tenure(time.Second, 3*time.Second), []chaos.Op{failed}, 0},
	} {
		if r := compareLogs(c.tenures, c.ops); len(r.Different) != c.want {
			t.Errorf("%s: %v: %q; want %d differences", c.name, r, r.Different, c.want)
		}
	}
}
