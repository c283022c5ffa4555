package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"holdfast/chaos"
	"holdfast/internal/proc"
	"holdfast/zk"
)

// A world is one run of the simulation: clients, their network, a server and the faults. The seed
// decides all of it.
type world struct {
	seed    uint64
	rng     *rand.Rand // for setting the world up
	net     *network
	log     *chaos.Log
	began   time.Time
	tick    time.Duration
	timeout time.Duration // session timeout
	lasts   time.Duration // time until everything is made whole
	quorum  bool
	kind    string  // options.Locks
	skew    float64 // the factor by which clients believe a second to be longer

	servers servers
	many    *manyServers // the same, if it is an ensemble
	growsTo int          // number of voters to come, if there is one server at first; the nemesis's
	addrs   []string     // addresses of the servers
	chroot  string       // of all clients
	login   login        // of all clients

	admin   *zk.Client
	clients []*client
	locks   []lockSpec
	faults  tally
	virtual time.Duration
	commits int
	onces   map[string]int // what its workers did, see startOnces

	sharding  *sharding // nil if there is none
	newest    *successions
	processes *processes // nil if the clients are on different machines
	audit     *audit     // of what observers are told

	draining atomic.Bool // no new attempts, and no worker gives up
	calm     bool        // no network, server or client fails

	mu       sync.Mutex // guards the fields below
	trace    []string
	wrong    []chaos.Violation
	counters map[string]*counted // by path, see worker.add
	updates  int64               // attempted updates
	live     map[*liveClaim]bool // see claimed
	said     map[int64]string    // by the term of a leader, see leads
	forced   map[int64]bool      // sessions, see endedByForce
	removals []removal           // see hitByName
}

// A client of the world, with its line. When it is killed, another takes its place.
type client struct {
	number  int
	line    *line
	zk      atomic.Pointer[zk.Client]
	session atomic.Int64  // 0 between two sessions
	pause   time.Duration // average pause of its workers between two locks
	belongs *belonging    // nil unless it is a process, see processes
}

// result is the outcome of a world.
type result struct {
	Seed       uint64
	Virtual    time.Duration
	Attempts   int
	Claims     int
	Handed     int // of these, claims after another of the same client
	Lost       int
	Commits    int
	Queued     int // claims whose time in the queue is known
	Operations int // in pieces checked by Porcupine
	Pieces     int
	Undecided  int
	Steps      int // of locks that were held against the specification
	Judged     int // claims of slots that are judged by their numbers
	Lossy      int // frames that were lost and sent again
	Behind     int // connections that servers refused because they were behind
	Observed   int // Holds that observers were told of
	Shards     sharded
	Faults     tally
	Onces      map[string]int
	Violations []chaos.Violation
	ops        []chaos.Op
	trace      []string
}

// options of a world that the seed does not decide.
type options struct {
	Skew      float64 // see world.skew; 0 leaves it to the seed
	NoAdmin   bool    // no faults of which a client cannot be told in time
	Shards    bool    // every client has a worker of shards, see sim_shards_test.go
	GoOn      bool    // continue after a violation, to count them
	Deadlocks bool    // workers take locks in random orders, too; see startDiners
	Processes bool    // the clients are processes of one machine, see sim_processes_test.go
	Once      bool    // workers call a Once, too; see startOnces
	Lasting   string  // the kind of what outlasts holders; "" leaves it out, see sim_lasting_test.go
	Locks     string  // the kind of locks; "" leaves it to the seed, among those of chooseLocks
}

// simulate runs one world. Violations are in the result; a goroutine that does not end makes the bubble
// panic.
func simulate(t *testing.T, seed uint64, o options) result {
	cryptotest.SetGlobalRandom(t, seed) // names of nodes, ids of sessions
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var w *world
	synctest.Test(t, func(t *testing.T) {
		w = newWorld(seed, o)
		if w.processes != nil {
			defer proc.Simulate(w.processes.kernel.simulated())()
		}
		w.populate()
		w.run(o)
	})
	return w.judge()
}

// judge returns what a world that is over has done, and what is wrong with that.
func (w *world) judge() result {
	r := result{Seed: w.seed, Virtual: w.virtual, Commits: w.commits, Faults: w.faults, Onces: w.onces, Observed: w.audit.told["held"], ops: w.log.Ops(), trace: w.trace, Violations: w.wrong}
	for _, ln := range w.net.lines {
		r.Lossy += ln.lostFrames
		r.Behind += ln.refused
	}
	if w.sharding != nil {
		r.Shards = w.sharding.did
	}
	r.Queued = queuedBy(r.ops, w.net.born, w.chroot)
	handing := make(map[int64]bool) // tokens
	for _, op := range r.ops {
		switch {
		case op.Kind == chaos.Acquire || op.Kind == chaos.Try:
			r.Attempts++
			if op.Outcome == chaos.OK {
				r.Claims++
				if (op.Handoff > 0 || op.Keep > 0) && op.Inside == 0 {
					if handing[op.Token] {
						r.Handed++
					}
					handing[op.Token] = true
				}
			}
		case op.Kind == chaos.Lose:
			r.Lost++
		}
	}
	r.Violations = append(r.Violations, w.overdue(w.locks, r.ops)...)
	r.Violations = append(r.Violations, chaos.Lasting(r.ops)...)
	r.ops = append(r.ops, hitByName(r.ops, w.removals, 2*w.timeout)...)
	if w.newest != nil {
		r.Violations = append(r.Violations, w.newest.check(r.ops)...)
	}
	w.checkSlots(&r)
	unordered := func(lock string) bool {
		return slices.ContainsFunc(w.locks, func(s lockSpec) bool { return s.clashes && s.path == lock })
	}
	for _, v := range chaos.Sweep(r.ops) {
		if v.Oracle != "token order" && v.Oracle != "FIFO" || !unordered(v.Lock) {
			r.Violations = append(r.Violations, v)
		}
	}
	steps, wrong := w.specified(r.ops)
	r.Steps, r.Violations = steps, append(r.Violations, wrong...)
	checked := chaos.Linearizable(slices.DeleteFunc(slices.Clone(r.ops), func(o chaos.Op) bool { return unordered(o.Lock) }), 10*time.Second)
	r.Violations = append(r.Violations, checked.Violations...)
	r.Operations, r.Pieces, r.Undecided = checked.Operations, checked.Pieces, checked.Undecided
	return r
}

// queuedBy records when the nodes of claims were seen in their queues, and returns for how many it did.
// Names without an id can come back. Then it is unknown which of their nodes was seen.
func queuedBy(ops []chaos.Op, born map[string]time.Duration, chroot string) (known int) {
	for i := range ops {
		o := &ops[i]
		if o.Outcome != chaos.OK || o.Kind != chaos.Acquire && o.Kind != chaos.Try {
			continue
		}
		if at, ok := born[chroot+o.Node]; ok && !comesBack(o.Node) {
			o.Queued = max(at, 1)
			known++
		}
	}
	return known
}

func newWorld(seed uint64, o options) *world {
	w := &world{
		seed: seed, rng: rand.New(rand.NewPCG(seed, 0)), began: time.Now(),
		counters: make(map[string]*counted), skew: o.Skew, kind: o.Locks,
	}
	w.audit = newAudit(w)
	w.tick = []time.Duration{200, 500, 1000}[w.rng.IntN(3)] * time.Millisecond
	w.timeout = w.tick * time.Duration(8+w.rng.IntN(8))
	w.lasts = 8*time.Second + time.Duration(w.rng.Int64N(int64(12*time.Second)))
	// With ticks of 500 ms this takes sessions of at least 3 s, see zk.Session.Lease.
	w.quorum = w.tick < time.Second && w.timeout > 4*time.Second && w.rng.IntN(2) == 0
	w.calm = o.Skew == 0 && w.rng.IntN(6) == 0 || o.Processes && seed%2 == 0
	w.log = chaos.NewLog(func() time.Duration { return time.Since(w.began) }, 1, nil)
	n := 3 + w.rng.IntN(3)
	if o.Skew == 0 && !o.Processes && w.rng.IntN(2) == 0 {
		w.haveEnsemble(n)
	} else {
		w.net = newNetwork(seed, n, 1)
		w.addrs = []string{"simulated:2181"}
		if o.Processes {
			w.haveProcesses()
		}
		w.login = w.chooseLogin(o.Skew == 0 && !o.Processes)
		w.net.secret = w.login.tls != nil
		w.servers = newOneServer(w.net, w.tick, w.net.lines[n], w.login)
	}
	if w.rng.IntN(4) == 0 {
		w.chroot = "/app"
	}
	return w
}

// populate starts the servers and the clients.
func (w *world) populate() {
	n := len(w.net.lines) - 1
	w.servers.start()
	w.admin = w.dial(w.net.lines[n], nil)
	for i := range n {
		c := &client{number: i + 1, line: w.net.lines[i]}
		if c.line.stretch = w.skew; w.skew == 0 {
			c.line.stretch = 0.991 + 0.018*w.rng.Float64() // within the 1 % that clients tolerate
		}
		c.pause = 200 * time.Millisecond
		if w.many != nil && w.rng.IntN(2) == 0 { // its session is idle most of the time
			c.pause = w.timeout / 4 * time.Duration(1+w.rng.IntN(4))
		}
		w.tell("client %d is %v, and pauses for %v", c.number, c.line.region, c.pause)
		if w.processes != nil {
			w.processes.begin(c)
		} else {
			c.zk.Store(w.dial(c.line, w.follow(c)))
		}
		w.clients = append(w.clients, c)
	}
}

// haveEnsemble makes an ensemble serve the world: mostly three servers, sometimes five, sometimes with an
// observer; and sometimes a single one, later one of three.
func (w *world) haveEnsemble(clients int) {
	voters, observers, alone := 3, 0, false
	switch w.rng.IntN(12) {
	case 0:
		voters = 5
	case 1, 2:
		observers = 1
	case 3:
		alone = true
	}
	if w.tick == 200*time.Millisecond { // shorter sessions are not provable
		w.timeout += 3 * w.tick
	}
	w.quorum = false // the clients must find that out
	w.lasts += w.timeout
	w.net = newNetwork(w.seed, clients, voters+observers)
	if w.timeout < 9*time.Second { // an attempt gets a fifth of that, and at least a second
		w.net.slotsApart /= 2
	}
	for i := range voters + observers {
		w.addrs = append(w.addrs, fmt.Sprintf("server%d:2181", i+1))
	}
	begin := voters
	if alone && !w.calm {
		w.growsTo, begin = voters, 1
	}
	e := newEnsemble(w.seed, w.tick, begin, observers)
	e.tell = w.tell
	e.syncLimit = []int{3, 5, 5, 10, 20}[w.rng.IntN(5)]
	e.reapEvery = time.Second + time.Duration(w.rng.Int64N(int64(20*time.Second)))
	if w.rng.IntN(4) == 0 {
		e.applyLag = 20 * time.Millisecond
	}
	w.many = &manyServers{ensemble: e, net: w.net}
	w.servers = w.many
	w.tell("%d voters, %d observers, alone at first: %v, tick %v, syncLimit %d, sessions of %v", voters, observers, alone, w.tick, e.syncLimit, w.timeout)
}

// follow records a client's sessions, and, of every third client, its requests and connections.
func (w *world) follow(c *client) *zk.Trace {
	trace := &zk.Trace{
		SessionCreated: func(id int64, _ time.Duration) {
			c.session.Store(id)
			w.tell("client %d: session 0x%x", c.number, uint64(id))
		},
		SessionResumed: func(id int64) { w.tell("client %d: resumed", c.number) },
		Disconnected:   func(id int64, cause error) { w.tell("client %d: disconnected: %v", c.number, cause) },
		SessionOver: func(id int64, cause error) {
			c.session.Store(0)
			w.tell("client %d: session 0x%x is over: %v", c.number, uint64(id), cause)
		},
	}
	if c.number%3 != 0 {
		return trace
	}
	trace.ConnectDone = func(server string, _ time.Duration, err error) {
		w.tell("client %d: connected to %s: %v", c.number, server, err)
	}
	trace.Reattaching = func(int64) { w.tell("client %d: reattaching", c.number) }
	trace.RequestDone = func(ctx context.Context, op, path string, took time.Duration, err error) {
		if ctx == nil || took < 0 {
			w.found("trace", path, "client %d: %s is reported with context %v, %v after it was sent", c.number, op, ctx, took)
		}
		if e, ok := errors.AsType[*zk.Error](err); err != nil && (!ok || e.Op != op || e.Path != path) {
			w.found("trace", path, "client %d: %s is reported with the error of something else: %v", c.number, op, err)
		}
	}
	return trace
}

func (w *world) dial(ln *line, trace *zk.Trace) *zk.Client {
	c, err := zk.Dial(context.Background(), w.config(ln, trace))
	if err != nil {
		panic(err)
	}
	return c
}

// config returns a client's configuration, written in one of two ways.
func (w *world) config(ln *line, trace *zk.Trace) zk.Config {
	cfg := zk.Config{Servers: w.addrs, SessionTimeout: w.timeout, TickTime: w.tick, Chroot: w.chroot}
	if ln.client%2 == 1 && w.processes == nil {
		var err error
		cfg, err = zk.ParseURL(fmt.Sprintf("zk://%s%s?timeout=%v&tick=%v", strings.Join(w.addrs, ","), w.chroot, w.timeout, w.tick))
		if err != nil {
			panic(err)
		}
	}
	cfg.CreateChroot = w.chroot != ""
	cfg.Dial, cfg.Trace, cfg.TLS, cfg.Auth = ln.dial, trace, w.login.tls, w.login.auth
	if w.processes != nil {
		cfg.Dial = ln.dialOf()
	}
	if w.quorum {
		cfg.Lease = zk.LeaseQuorum
	}
	return cfg
}

func (w *world) tell(format string, args ...any) {
	line := fmt.Sprintf("%12v ", time.Since(w.began)) + fmt.Sprintf(format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace = append(w.trace, line)
}

// found records a violation.
func (w *world) found(oracle, lock, format string, args ...any) {
	v := chaos.Violation{Oracle: oracle, Lock: lock, Text: fmt.Sprintf(format, args...)}
	w.tell("%v", v)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, v)
}

// run starts the workers and the faults, and checks what is left when everything is whole again.
func (w *world) run(o options) {
	ctx, cancel := context.WithCancel(context.Background())
	locks := w.chooseLocks()
	w.locks = locks
	w.prepare(locks)
	var spectators []*spectator
	for _, l := range locks {
		spectators = append(spectators, w.watchLeaders(l))
	}
	var workers sync.WaitGroup
	n := 0
	for i, c := range w.clients {
		many := 1 + w.rng.IntN(3)
		if i == 0 && locks[0].crowded {
			many = 36 + w.rng.IntN(12)
		}
		for range many {
			n++
			worker := &worker{world: w, client: c, number: n, locks: locks, rng: rand.New(rand.NewPCG(w.seed, uint64(1000+n)))}
			workers.Go(func() { worker.work(ctx) })
		}
	}
	var guests sync.WaitGroup
	visit, visited := context.WithCancel(context.Background())
	checks := w.invite(visit, &guests, locks)
	w.inviteBystanders(visit, &guests)
	if o.Once {
		checks = append(checks, w.startOnces(ctx, &workers))
	}
	if o.Deadlocks {
		checks = append(checks, w.startDiners(ctx, &workers))
	}
	if o.Lasting != "" {
		checks = append(checks, w.startLasting(ctx, &workers, o.Lasting))
	}
	if o.Shards {
		checks = append(checks, w.inviteShards(visit, &guests)...)
	}
	var nemeses sync.WaitGroup
	if !o.NoAdmin && !w.untouched() {
		nemeses.Go(func() { w.nemesis(o, locks, adminFaults, 2) })
	}
	if w.processes != nil {
		checks = append(checks, w.processes.check)
		nemeses.Go(func() { w.nemesis(o, locks, processFaults, 8) })
	}
	if !w.calm {
		nemeses.Go(func() { w.nemesis(o, locks, clientFaults, 1) })
		if w.many != nil {
			nemeses.Go(func() { w.nemesis(o, locks, serverFaults, 4) })
		}
	}
	time.Sleep(w.lasts)
	nemeses.Wait() // faults are reverted
	time.Sleep(w.timeout)
	w.drain(&workers)
	cancel()
	workers.Wait()
	w.turnAway()
	// Clients that closed in a hurry, and abandoned sessions, leave nodes behind. The nodes go by
	// themselves in that time.
	time.Sleep(2*w.timeout + 4*w.tick)
	for _, s := range spectators {
		s.close(w)
	}
	for _, check := range append(checks, w.audit.check) {
		check()
	}
	visited()
	guests.Wait()
	time.Sleep(time.Second) // watches are removed
	w.inspect(locks)
	for _, c := range w.clients {
		c.zk.Load().Close()
	}
	w.admin.Close()
	time.Sleep(5 * time.Second)
	if sessions, connections, _ := w.servers.counts(); sessions != 0 || connections != 0 {
		w.found("leak", "", "%d sessions and %d connections at the servers after all clients were closed", sessions, connections)
	}
	w.servers.close()
	w.virtual = time.Since(w.began)
}

// drain lets all waiters have their turns. Only those ahead are in their way now. So a worker that is not
// done in the end was not told that it is first.
func (w *world) drain(workers *sync.WaitGroup) {
	w.draining.Store(true)
	done := make(chan struct{})
	go func() {
		workers.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(40 * w.timeout):
		nodes, err := w.ephemerals(context.Background(), locksRoot)
		w.found("lost wakeup", "", "somebody still waits: the queues are %q, %v; %s", nodes, err, w.servers.waiting())
	}
}

// keptWatches counts the watches that sessions keep on the directories of trees (see internal/queue/absent.go), in what
// watchers has returned. ok is false if that does not tell.
func keptWatches(all string) (n int, ok bool) {
	kept := false
	for line := range strings.Lines(all) {
		switch {
		case strings.HasPrefix(line, "\t"): // a session below a path, of a single server
			if kept {
				n++
			}
		case strings.HasPrefix(line, "("):
			return 0, false
		case strings.Contains(line, "/%2F, "): // of an ensemble
			n++
		default:
			kept = strings.HasSuffix(strings.TrimSpace(line), "/%2F")
		}
	}
	return n, true
}

// inspect looks for leftovers when no worker holds or wants anything, and no client keeps a lock.
func (w *world) inspect(locks []lockSpec) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	time.Sleep(w.idle()) // until nobody keeps a lock
	if _, _, watches := w.servers.counts(); watches != 0 {
		all := w.servers.watchers()
		if kept, ok := keptWatches(all); ok && watches != kept {
			w.found("watch leak", "", "%d watches at the servers, %d of them for trees, and nobody waits: %s", watches, kept, all)
		}
	}
	left, err := w.ephemerals(ctx, locksRoot)
	if err != nil {
		w.found("stuck", locksRoot, "list: %v", err)
	}
	for _, node := range left {
		w.found("orphan", node, "is there, and nobody holds or waits")
	}
	for _, l := range locks {
		for _, lk := range l.of(w.clients[0].zk.Load())[:1] {
			h, err := lk.lock(ctx)
			if err != nil {
				w.found("stuck", lk.parts[0].Lock, "it cannot be had though nobody holds it: %v", err)
				continue
			}
			if err := h.Unlock(); err != nil {
				w.found("stuck", lk.parts[0].Lock, "unlock: %v", err)
			}
		}
	}
	ctx, cancel = context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for path, n := range w.counters {
		data, _, err := w.admin.Get(ctx, path)
		var last int64
		if err == nil {
			_, err = fmt.Sscan(string(data), &last)
		}
		var lost []chaos.Update
		if err == nil {
			lost, err = chaos.LostUpdates(n.updates, last)
		}
		if err != nil || len(lost) > 0 {
			w.found("lost update", path, "the value is %q, %v; lost are %v", data, err, lost)
		}
		for _, u := range n.updates {
			if u.Acknowledged {
				w.commits++
			}
		}
	}
}

// ephemerals lists the nodes below path that belong to a session.
func (w *world) ephemerals(ctx context.Context, path string) (found []string, err error) {
	names, stat, err := w.admin.Children(ctx, path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if stat.EphemeralOwner != 0 {
		found = append(found, path)
	}
	slices.Sort(names)
	for _, name := range names {
		below, err := w.ephemerals(ctx, strings.TrimSuffix(path, "/")+"/"+name)
		if err != nil {
			return nil, err
		}
		found = append(found, below...)
	}
	return found, nil
}
