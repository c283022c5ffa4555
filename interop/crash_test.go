//go:build unix

package interop

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"holdfast/interop/peers"
	"holdfast/zkproto"
)

var crashes = flag.Int("crashes", 50, "how often the crash test kills holdfast serve")

// A crashing server is killed and started again on the same data and address.
type crashing struct {
	addr    string
	kill    func() error
	restart func(context.Context) error
}

func TestHoldfastServeKeepsAcknowledgedNodesWhenKilled(t *testing.T) {
	h, err := peers.StartHoldfast(t.Context(), holdfastBin(t), t.TempDir())
	closing(t, h, err)
	crash(t, crashing{addr: h.Addr(), kill: h.Kill, restart: h.Restart}, *crashes)
}

// The same test against a server that is known to pass it.
func TestApacheZooKeeperKeepsAcknowledgedNodesWhenKilled(t *testing.T) {
	z, err := peers.StartZooKeeper(t.Context(), t.TempDir(), peers.ZooKeeperConfig{})
	closing(t, z, err)
	crash(t, crashing{
		addr:    z.Addrs()[0],
		kill:    func() error { return z.Kill(0) },
		restart: func(ctx context.Context) error { return z.Restart(ctx, 0) },
	}, min(*crashes, 2))
}

// An acked node is one whose creation the server acknowledged.
type acked struct {
	path      string
	data      string
	ephemeral bool
}

// crash streams creates over several connections, kills the server in the middle, and starts it
// again. It looks for every acknowledged node of this round, and in the end for those of all
// rounds.
func crash(t *testing.T, server crashing, rounds int) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	began := time.Now()

	var all []acked
	sequential := map[string]bool{}
	lastZxid := int64(0)
	for round := range rounds {
		enough := 20 + random.IntN(500)
		nodes, zxid, err := crashRound(t.Context(), server, round, enough, lastZxid)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		lastZxid = zxid
		if err := checkNodes(t.Context(), server.addr, nodes); err != nil {
			t.Fatalf("after crash %d, %d nodes acknowledged: %v", round+1, len(nodes), err)
		}
		for _, n := range nodes {
			if sequential[n.path] {
				t.Fatalf("after crash %d: %s was handed out twice", round+1, n.path)
			}
			sequential[n.path] = true
			// Sessions of closed connections expire during the test.
			if !n.ephemeral {
				all = append(all, n)
			}
		}
	}
	if err := checkNodes(t.Context(), server.addr, all); err != nil {
		t.Fatalf("after %d crashes, %d nodes acknowledged in all: %v", rounds, len(all), err)
	}
	measured(t, "%d crashes, %d acknowledged nodes, none lost, %v", rounds, len(sequential), time.Since(began).Round(time.Millisecond))
}

// crashRound returns the nodes acknowledged before the kill, and the highest zxid that a reply showed.
func crashRound(ctx context.Context, server crashing, round, enough int, lastZxid int64) ([]acked, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	dir := fmt.Sprintf("/round-%d", round)
	kinds := []struct {
		flags int32
		path  func(n int) string
	}{
		{zkproto.FlagPersistent, func(n int) string { return fmt.Sprintf("%s/a-%d", dir, n) }},
		{zkproto.FlagPersistent, func(n int) string { return fmt.Sprintf("%s/b-%d", dir, n) }},
		{zkproto.FlagEphemeral, func(n int) string { return fmt.Sprintf("%s/e-%d", dir, n) }},
		// All rounds share one parent: a restart must not give out a number again.
		{zkproto.FlagPersistentSequential, func(int) string { return "/sequence/s-" }},
	}
	conns := make([]*rawConn, len(kinds))
	for i := range kinds {
		c, err := dialRaw(ctx, server.addr)
		if err != nil {
			return nil, 0, err
		}
		defer c.Close()
		conns[i] = c
	}
	if round == 0 {
		if err := conns[0].create("/sequence"); err != nil {
			return nil, 0, err
		}
	}
	if err := conns[0].create(dir); err != nil {
		return nil, 0, err
	}

	var (
		reached = make(chan struct{}) // closed when enough nodes are acknowledged
		killed  = make(chan struct{})
		wg      sync.WaitGroup

		mu    sync.Mutex
		nodes []acked
		zxid  int64
		errs  []error
	)
	for i, kind := range kinds {
		s := stream{conn: conns[i], flags: kind.flags, path: kind.path, lastZxid: lastZxid}
		wg.Go(func() {
			err := s.run(killed, func(n acked, z int64) {
				mu.Lock()
				defer mu.Unlock()
				nodes = append(nodes, n)
				zxid = max(zxid, z)
				if len(nodes) == enough {
					close(reached)
				}
			})
			if err != nil {
				cancel() // otherwise the others would continue for nothing
			}
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	select {
	case <-reached:
	case <-ctx.Done():
		mu.Lock()
		errs = append(errs, fmt.Errorf("not %d nodes acknowledged: %w", enough, context.Cause(ctx)))
		mu.Unlock()
	}
	close(killed)
	if err := server.kill(); err != nil {
		return nil, 0, err
	}
	wg.Wait() // the kill has ended every stream
	if err := errors.Join(errs...); err != nil {
		return nil, 0, err
	}
	return nodes, zxid, server.restart(ctx)
}

// A stream creates nodes on one connection, many in flight, until it breaks.
type stream struct {
	conn     *rawConn
	flags    int32
	path     func(n int) string
	lastZxid int64 // every create must have a larger zxid
}

// run reports each acknowledged node to ack. The connection is expected to break, but only after killed.
func (s *stream) run(killed <-chan struct{}, ack func(acked, int64)) error {
	const inFlight = 16
	type request struct{ path, data string }
	pending := make(chan request, inFlight)
	go func() {
		defer close(pending)
		for n := 0; ; n++ {
			path := s.path(n)
			r := request{path: path, data: fmt.Sprintf("%s %d", path, n)}
			pending <- r
			create := &zkproto.CreateRequest{Path: r.path, Data: []byte(r.data), ACL: openACL, Flags: s.flags}
			if s.conn.send(zkproto.OpCreate, create) != nil {
				return // the reader sees the end as well
			}
		}
	}()
	defer func() {
		s.conn.Close() // ends the sender
		for range pending {
		}
	}()
	for r := range pending {
		header, body, err := s.conn.receive()
		if err != nil {
			select {
			case <-killed:
				return nil
			default:
				return fmt.Errorf("create %s: the connection broke before the kill: %w", r.path, err)
			}
		}
		var created zkproto.CreateResponse
		created.Decode(body)
		switch {
		case header.Err != zkproto.CodeOK:
			return fmt.Errorf("create %s: %w", r.path, header.Err)
		case body.Complete() != nil:
			return fmt.Errorf("create %s: %w", r.path, body.Complete())
		case header.Zxid <= s.lastZxid:
			return fmt.Errorf("create %s: zxid %#x; %#x was acknowledged before the crash", r.path, header.Zxid, s.lastZxid)
		}
		ack(acked{path: created.Path, data: r.data, ephemeral: s.flags&zkproto.FlagEphemeral != 0}, header.Zxid)
	}
	return nil
}

// checkNodes looks for every node and its data.
func checkNodes(ctx context.Context, addr string, nodes []acked) error {
	c, err := dialRaw(ctx, addr)
	if err != nil {
		return err
	}
	defer c.Close()
	sent := make(chan error, 1)
	go func() {
		for _, n := range nodes {
			if err := c.send(zkproto.OpGetData, &zkproto.ReadRequest{Path: n.path}); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	var lost []error
	for _, n := range nodes {
		header, body, err := c.receive()
		if err != nil {
			return fmt.Errorf("get %s: %w", n.path, err)
		}
		var got zkproto.GetDataResponse
		got.Decode(body)
		if header.Err != zkproto.CodeOK {
			lost = append(lost, fmt.Errorf("get %s: %w", n.path, header.Err))
		} else if string(got.Data) != n.data {
			lost = append(lost, fmt.Errorf("get %s: data %q; want %q", n.path, got.Data, n.data))
		}
	}
	if len(lost) > 0 {
		return fmt.Errorf("%d of %d nodes lost or wrong, the first: %w", len(lost), len(nodes), lost[0])
	}
	return <-sent
}
