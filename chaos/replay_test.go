package chaos_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"holdfast/zkproto"
	"holdfast/zkserver"
)

var (
	replayOps  = flag.Int("replay-ops", 10_000, "how many requests the clients of TestZxidReplay send in all")
	replaySeed = flag.Uint64("replay-seed", 0, "what they send; 0 is anything")
)

// TestZxidReplay makes clients send random requests to one server, and replays the answers in
// the order of the zxids. Every read must match a plain tree (refTree) at that zxid, and every
// failure must have a reason there. Events must come once, and before any newer reply.
//
// The seed decides the clients' requests. It does not decide which of them the server gets
// first.
func TestZxidReplay(t *testing.T) {
	seed := *replaySeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Run("memory", func(t *testing.T) {
		replayServer(t, seed, zkserver.Config{}, nil)
	})
	t.Run("stopped", func(t *testing.T) {
		replayServer(t, seed, zkserver.Config{Dir: t.TempDir()}, func(s *zkserver.Server) error {
			ctx, cancel := context.WithTimeout(context.Background(), noProgress)
			defer cancel()
			return s.Shutdown(ctx)
		})
	})
	t.Run("cut off", func(t *testing.T) {
		replayServer(t, seed, zkserver.Config{Dir: t.TempDir()}, (*zkserver.Server).Close)
	})
}

const replayClients = 6

// replayServer runs clients on a server. If there is a stop, it stops the server in the middle and opens
// it again.
func replayServer(t *testing.T, seed uint64, cfg zkserver.Config, stop func(*zkserver.Server) error) {
	t.Logf("-replay-seed=%d -replay-ops=%d", seed, *replayOps)
	cfg.MaxSessionTimeout = time.Hour // no session expires by itself
	cfg.Limits.ConnectionsPerSecond = -1
	server := serveReplay(t, cfg)
	run := &replayRun{addr: server.addr, expire: server.ExpireSession}
	clients := make([]*replayClient, replayClients)
	for i := range clients {
		clients[i] = &replayClient{run: run, id: i, rng: rand.New(rand.NewPCG(seed, uint64(i))), version: map[string]int32{}}
	}
	// The first client makes the tree, and begins its session afterwards like the others.
	first := clients[0]
	first.wire = &wire{}
	resp, err := first.wire.connect(run.addr, &zkproto.ConnectRequest{Timeout: 3600_000, Passwd: make([]byte, 16), HasReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	first.passwd, first.wires = resp.Passwd, []*wire{first.wire}
	first.armed, first.absent = map[zxidWatch]bool{}, map[string]bool{}
	var layout []asked
	for _, path := range []string{"/t", "/t/own", "/t/doubt", "/t/queue", "/t/kept"} {
		layout = append(layout, creates(path, zkproto.FlagPersistent))
	}
	if err := first.ask(append(layout, asked{op: zkproto.OpCloseSession})...); err != nil {
		t.Fatal(err)
	}
	first.wire.nc.Close()

	each := func(f func(*replayClient) error) {
		t.Helper()
		errs := make([]error, len(clients))
		var wg sync.WaitGroup
		for i, c := range clients {
			wg.Go(func() { errs[i] = f(c) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	each((*replayClient).begin)
	share := *replayOps / replayClients
	if stop != nil {
		each(func(c *replayClient) error { return c.goOn(share / 2) })
		creates := make([]asked, len(clients))
		each(func(c *replayClient) (err error) {
			creates[c.id], err = c.sendDoubt()
			return err
		})
		stopped := make(chan error, 1)
		go func() { stopped <- stop(server.Server) }()
		each((*replayClient).drain)
		if err := <-stopped; err != nil {
			t.Fatal(err)
		}
		server = serveReplay(t, cfg)
		run.addr, run.expire = server.addr, server.ExpireSession
		each(func(c *replayClient) error { return c.resume(creates[c.id]) })
	}
	each(func(c *replayClient) error { return c.goOn(share) })
	each(func(c *replayClient) error { return c.ask(reads(zkproto.OpSync, "/t")) }) // all events have arrived
	if err := clients[0].readAll("/t"); err != nil {
		t.Fatal(err)
	}
	for _, c := range clients {
		c.wire.nc.Close()
	}
	o := judge(t, clients)
	// The start of a session uses a zxid that its client does not learn. A server that starts again
	// continues above every zxid that it may have used.
	begun := 0
	for _, c := range clients {
		begun += c.begun
	}
	if stop == nil && o.holes != int64(begun) {
		t.Errorf("%d zxids are not those of a known write; %d sessions have begun", o.holes, begun)
	}
}

// readAll reads everything below path.
func (c *replayClient) readAll(path string) error {
	if err := c.ask(reads(zkproto.OpGetData, path), reads(zkproto.OpGetChildren2, path)); err != nil {
		return err
	}
	for _, name := range c.wire.replies[len(c.wire.replies)-1].names {
		if err := c.readAll(path + "/" + name); err != nil {
			return err
		}
	}
	return nil
}

// judge replays the answers that the clients got.
func judge(t *testing.T, clients []*replayClient) *zxidOracle {
	t.Helper()
	var h zxidHistory
	var resumed, inDoubt, expired int
	for _, c := range clients {
		h.clients = append(h.clients, c.wires)
		h.found = append(h.found, c.found...)
		resumed, inDoubt, expired = resumed+c.resumed, inDoubt+c.inDoubt, expired+c.expired
	}
	began := time.Now()
	o := replayZxids(&h)
	for _, what := range o.bad[:min(len(o.bad), 10)] {
		t.Error(what)
	}
	t.Logf("figure: %d requests checked (%d reads, %d writes, %d refused), %d events, %d sequence numbers, %d sessions closed, %d expired, %d resumed, %d writes in doubt, %d found later; violations: %d (replayed in %v)",
		o.ops, o.reads, o.writes, o.refused, o.events, o.numbered, o.closed, expired, resumed, inDoubt, o.found, len(o.bad), time.Since(began).Round(time.Millisecond))
	if few := []int{o.reads, o.writes, o.refused, o.events, o.numbered, o.closed, expired, resumed, inDoubt, o.found}; slices.Contains(few, 0) {
		t.Error("some kind of request or event never occurred: the run shows nothing")
	}
	return o
}

type replayedServer struct {
	*zkserver.Server
	addr string
}

func serveReplay(t *testing.T, cfg zkserver.Config) replayedServer {
	t.Helper()
	s, err := zkserver.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.Close()
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, zkserver.ErrServerClosed) {
			t.Error(fmt.Errorf("serve: %w", err))
		}
	})
	return replayedServer{s, l.Addr().String()}
}
