package interop

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast"
	"holdfast/internal/queue"
	"holdfast/internal/txlog"
	"holdfast/interop/peers"
	"holdfast/zk"
)

var newestRounds = flag.Int("newest-rounds", 120, "rounds of calls that take each other's places, on each of two locks that another library wants, too")

// Calls with WithSupersede take each other's places in the queues of Curator's and kazoo's locks, among plain runs.
// Meanwhile connections break, answers are lost, sessions end, and commands are killed. The server's own log tells of every
// node who has removed it: nobody has removed a holder, or a node of another library or of a plain run. After each round,
// its newest call has run. No two ran at the same time, and no older one after a newer one.
func TestTheNewestBesideOtherLibraries(t *testing.T) {
	need(t, peers.NeedKazoo())
	classes := curatorClasses(t)
	holdfastBin(t)
	ctx, cancel := context.WithTimeout(t.Context(), peerStart)
	defer cancel()
	z, err := peers.StartZooKeeper(ctx, t.TempDir(), peers.ZooKeeperConfig{})
	closing(t, z, err)
	for _, layout := range []string{"curator", "kazoo"} {
		t.Run(layout, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute+time.Duration(*newestRounds)*time.Second)
			defer cancel()
			s := newSuperseding(ctx, t, z, layout)
			args := []string{z.Addrs()[0], strconv.Itoa(*newestRounds)}
			recipe := map[string]string{"curator": "mutex", "kazoo": "lock"}[layout]
			for range otherCallers {
				args = append(args, recipe, s.path, s.dir)
			}
			others := peers.Curator(ctx, classes, "SharedTurns", args...)
			if layout == "kazoo" {
				others = peers.Kazoo(ctx, filepath.Join("py", "shared_turns.py"), args...)
			}
			s.run(startTurnTaker(t, others))
			s.judge()
		})
	}
}

// otherCallers is how many callers of the other library there are.
const otherCallers = 2

// A superseding is a lock that calls with WithSupersede want, beside others.
type superseding struct {
	t       *testing.T
	ctx     context.Context
	z       *peers.ZooKeeper
	layout  string
	path    string
	dir     string // of the number and the turns
	rng     *rand.Rand
	clients []*zk.Client // the sessions of the last one are ended, so its holders write nothing
	proxies []*peers.Proxy
	began   time.Time
	rounds  int
	faults  map[string]int

	mu    sync.Mutex // guards the fields below
	calls map[string]*newestCall
	runs  int // turns of commands, which are not written down
}

// A newestCall is one call with WithSupersede, or a run. Its owner is its name.
type newestCall struct {
	round    int
	killed   bool
	unsure   bool // its session may end at any time, also before it knows of its node
	err      error
	by       holdfast.Entry // of the call that has its place; of a run, none
	acquired time.Duration  // 0: it has not, or it is a run
	told     int64          // its arrival, as others and its last node tell it; 0: they do not
}

func newSuperseding(ctx context.Context, t *testing.T, z *peers.ZooKeeper, layout string) *superseding {
	s := &superseding{
		t: t, ctx: ctx, z: z, layout: layout, path: "/newest-" + layout, dir: t.TempDir(), rng: rand.New(rand.NewPCG(1, 2)),
		began: time.Now(), faults: make(map[string]int), calls: make(map[string]*newestCall),
	}
	must(t, os.WriteFile(filepath.Join(s.dir, numberFile), []byte("0"), 0o600))
	for _, timeout := range []time.Duration{10 * time.Second, 10 * time.Second, 2 * time.Second} {
		proxy, err := peers.NewProxy(z.Addrs()[0])
		must(t, err)
		t.Cleanup(proxy.Close)
		s.proxies = append(s.proxies, proxy)
		s.clients = append(s.clients, dialURL(t, "zk://"+proxy.Addr(), func(cfg *zk.Config) { cfg.SessionTimeout = timeout }))
	}
	_, _, err := s.clients[0].Create(ctx, s.path, []byte{}, zk.Persistent) // kazoo fails on null
	must(t, err)
	return s
}

// run makes the rounds while the other library takes its turns.
func (s *superseding) run(others *turnTaker) {
	over, stop := context.WithCancel(s.ctx)
	defer stop()
	var plain sync.WaitGroup
	plain.Go(func() {
		for over.Err() == nil {
			if out, err := s.command(increment(filepath.Join(s.dir, numberFile)), "--who", "plain"); err != nil {
				s.t.Errorf("a plain run: %v\n%s", err, out)
			}
		}
	})
	must(s.t, others.begin())
	ended := make(chan error, 1)
	go func() { ended <- others.end() }()
	for left := true; (left || s.rounds < *newestRounds) && s.ctx.Err() == nil; {
		s.round()
		select {
		case err := <-ended:
			must(s.t, err)
			left = false
		default:
		}
	}
	stop()
	plain.Wait()
}

// command runs a command that has the lock for one turn. If it ends well, it has added one to the number.
func (s *superseding) command(what string, flags ...string) (string, error) {
	cmd := underLock(s.ctx, s.t, "zk://"+s.z.Addrs()[0], s.path, what, append(flags, "--layout", s.layout)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := peers.Run(cmd)
	if err == nil {
		s.mu.Lock()
		s.runs++
		s.mu.Unlock()
	}
	return out.String(), err
}

// round makes some calls at about the same time, with a fault in some rounds, and waits until all of them have ended.
func (s *superseding) round() {
	s.rounds++
	n := s.rounds
	var fault func() error
	what := []string{"connection broken", "answer lost", "session ended"}[n/5%3]
	switch hurt := s.proxies[n/15%len(s.proxies)]; {
	case n%40 == 17:
		what, fault = "client cut off", s.cutOff
	case n%40 == 33:
		what, fault = "run killed", s.killRun(s.newcomer(0, true))
	case n%5 > 0:
	case what == "connection broken":
		fault = func() error { hurt.Sever(); return nil }
	case what == "answer lost":
		fault = func() error { hurt.LoseWrite(); return nil }
	default:
		fault = s.endSession
	}
	var all sync.WaitGroup
	for i := range 1 + s.rng.IntN(5) {
		client := s.rng.IntN(len(s.clients))
		owner := s.newcomer(i+1, false)
		if i == 0 && n%10 == 3 {
			all.Go(func() { s.runOf(owner) })
		} else {
			all.Go(func() { s.call(owner, client, fault != nil) })
		}
		pause(s.ctx, time.Duration(s.rng.IntN(4000))*time.Microsecond)
	}
	if fault != nil {
		s.faults[what]++
		if err := fault(); err != nil {
			s.t.Errorf("%s: %v", what, err)
		}
	}
	all.Wait()
}

// newcomer adds a call, and returns its owner.
func (s *superseding) newcomer(i int, killed bool) string {
	owner := fmt.Sprintf("round %d, call %d", s.rounds, i)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[owner] = &newestCall{round: s.rounds, killed: killed}
	return owner
}

// cutOff cuts the last client off, mostly for longer than its session lasts.
func (s *superseding) cutOff() error {
	p := s.proxies[len(s.proxies)-1]
	p.Cut(true, true)
	pause(s.ctx, 500*time.Millisecond+time.Duration(s.rng.IntN(3000))*time.Millisecond)
	p.Cut(false, false)
	return nil
}

// endSession ends the session of the last client, as its owner could.
func (s *superseding) endSession() error {
	for _, secret := range s.proxies[len(s.proxies)-1].Sessions() {
		if _, err := closeSession(s.ctx, s.z.Addrs()[0], secret); err != nil && s.ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// killRun starts a run that holds the lock until it is killed, and returns what kills it.
func (s *superseding) killRun(owner string) func() error {
	cmd := underLock(s.ctx, s.t, "zk://"+s.z.Addrs()[0], s.path, hold, "--supersede", "--who", owner, "--layout", s.layout, "--session-timeout", "2s")
	p, err := peers.Start(cmd)
	must(s.t, err)
	pause(s.ctx, time.Duration(s.rng.IntN(200))*time.Millisecond)
	return p.Kill
}

// runOf is one call by a command.
func (s *superseding) runOf(owner string) {
	out, err := s.command(increment(filepath.Join(s.dir, numberFile)), "--supersede", "--who", owner)
	s.mu.Lock()
	defer s.mu.Unlock()
	var code *exec.ExitError
	switch n := s.calls[owner]; {
	case errors.As(err, &code) && code.ExitCode() == 75 && strings.Contains(out, "superseded by round "):
		n.err = holdfast.ErrSuperseded
	case err != nil:
		s.t.Errorf("%s: %v\n%s", owner, err, out)
	}
}

// call is one call of Lock.
func (s *superseding) call(owner string, client int, fault bool) {
	lay, err := holdfast.ParseLayout(s.layout)
	must(s.t, err)
	h, err := holdfast.NewMutex(s.clients[client], s.path, holdfast.WithLayout(lay), holdfast.WithSupersede(), holdfast.WithOwner(owner)).Lock(s.ctx)
	at := monotonic()
	ends := client == len(s.clients)-1 // its session
	s.mu.Lock()
	n := s.calls[owner]
	n.err, n.unsure = err, fault && ends
	if n.by, _ = holdfast.SupersededBy(err); err == nil {
		n.acquired = at
	}
	s.mu.Unlock()
	if err != nil {
		return
	}
	if data, _, err := s.clients[client].Get(h.Context(), h.Path()); err == nil {
		note, _ := queue.ParseNote(data)
		n.told = cmp.Or(note.Arrived, h.Token())
	}
	if !ends {
		err = takeTurn(s.dir, "W", path.Base(h.Path()), h.Token())
	}
	if unlock := h.Unlock(); !n.unsure {
		err = errors.Join(err, unlock)
	}
	if err != nil {
		s.t.Errorf("%s: %v", owner, err)
	}
}

// judge looks at the calls, at the holders' book and at the server's log.
func (s *superseding) judge() {
	nodes, foreign := s.history()
	first := s.arrivals(nodes)
	superseded := 0
	rounds := make(map[int]string) // the newest of each
	for owner, n := range s.calls {
		if newest := rounds[n.round]; first[owner] != 0 && first[newest] < first[owner] {
			rounds[n.round] = owner
		}
		if n.err == nil {
			continue
		}
		superseded++
		switch {
		case !errors.Is(n.err, holdfast.ErrSuperseded):
			s.t.Errorf("%s: %v", owner, n.err)
		case n.by.Owner != "" && (n.by.Token <= first[owner] || !slices.Contains(nodes[n.by.Owner], n.by.Token)):
			s.t.Errorf("%s, arrival %d, was superseded by %+v, arrival %d", owner, first[owner], n.by, first[n.by.Owner])
		}
	}
	for round := 1; round <= s.rounds; round++ {
		if newest := rounds[round]; newest == "" || !s.calls[newest].killed && s.calls[newest].err != nil {
			s.t.Errorf("round %d is over, and its newest call, %q, has not run: %v", round, newest, s.calls[newest])
		}
	}
	var ran []string
	for owner, n := range s.calls {
		if n.acquired != 0 && !n.unsure {
			ran = append(ran, owner)
		}
	}
	slices.SortFunc(ran, func(a, b string) int { return int(s.calls[a].acquired - s.calls[b].acquired) })
	for i := 1; i < len(ran); i++ {
		if first[ran[i]] < first[ran[i-1]] {
			s.t.Errorf("%s ran after %s, which is newer: %d, %d", ran[i], ran[i-1], first[ran[i]], first[ran[i-1]])
		}
	}
	turns := s.book()
	measured(s.t, "%d rounds of %d calls, %d of them superseded, beside %d turns of %d callers of the other library and %d runs; faults %v; %d turns; %.1f s",
		s.rounds, len(s.calls), superseded, foreign, otherCallers, s.runs, s.faults, turns, time.Since(s.began).Seconds())
	if superseded < s.rounds/2 || foreign < otherCallers**newestRounds {
		s.t.Error("that is too little to show anything")
	}
}

// arrivals returns the czxid of the first node of each call, or, if its session may have ended before it knew of that one,
// of the first that it knew of. Others may have made room for the earlier one, too.
func (s *superseding) arrivals(nodes map[string][]int64) map[string]int64 {
	for _, n := range s.calls {
		if by := s.calls[n.by.Owner]; by != nil {
			by.told = max(by.told, n.by.Token)
		}
	}
	first := make(map[string]int64)
	for owner, all := range nodes {
		n := s.calls[owner]
		if first[owner] = all[0]; n.unsure && slices.Contains(all, n.told) {
			first[owner] = n.told
		}
		if n.told != 0 && n.told != first[owner] {
			s.t.Errorf("%s: its arrival is %d, and its nodes are %d", owner, n.told, all)
		}
	}
	return first
}

// book checks the turns that the holders have written down, and the number.
func (s *superseding) book() int {
	text, err := os.ReadFile(filepath.Join(s.dir, turnsFile))
	must(s.t, err)
	turns, err := parseTurns(string(text))
	must(s.t, err)
	if err := checkTurns(turns, 1); err != nil {
		s.t.Error(err)
	}
	number, err := readNumber(filepath.Join(s.dir, numberFile))
	must(s.t, err)
	if want := len(turns) + s.runs; number != want {
		s.t.Errorf("the number is %d after %d turns: updates were lost", number, want)
	}
	return number
}

// history reads the server's log. It returns the czxids of the nodes of each call, and how often the other library queued.
// A node that another session has removed was that of a superseding waiter.
func (s *superseding) history() (nodes map[string][]int64, foreign int) {
	nodes = make(map[string][]int64)
	_, err := txlog.Read(txlog.Config{
		Dirs:  s.z.DataDirs(),
		Wants: func(lock string) bool { return lock == s.path },
		Warn:  func(err error) { s.t.Error(err) },
		Report: func(e txlog.Event) error {
			owner := e.Place.Owner
			call := s.calls[owner]
			switch {
			case e.Type == txlog.Joined && call == nil && owner != "plain":
				foreign++
			case e.Type == txlog.Joined && call != nil:
				nodes[owner] = append(nodes[owner], e.Place.Token)
			case e.Type == txlog.Removed && (call == nil || e.Place.Held):
				s.t.Errorf("the session 0x%x has removed %s of %q, held: %t, zxid %d", uint64(e.By), e.Place.Name, owner, e.Place.Held, e.Zxid)
			}
			return nil
		},
	})
	must(s.t, err)
	return nodes, foreign
}
