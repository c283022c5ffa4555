package zkserver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/zkproto"
)

// A peer is a client that ignores its answers.
type peer struct {
	net.Conn
	ctx context.Context
}

func (p *peer) send(op zkproto.Op, m message) error {
	_, err := p.Write(frameOf(op, m))
	return err
}

// frameOf returns the encoded frame of a request.
func frameOf(op zkproto.Op, m message) []byte {
	b := (&zkproto.RequestHeader{Xid: 1, Op: op}).Append(zkproto.BeginFrame(nil))
	return zkproto.EndFrame(m.Append(b), 0)
}

// join makes a session. The connection is closed when ctx ends.
func join(ctx context.Context, addr string) (*peer, error) {
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	connect := (&zkproto.ConnectRequest{Timeout: 600_000, Passwd: make([]byte, 16)}).Append(zkproto.BeginFrame(nil))
	if _, err = nc.Write(zkproto.EndFrame(connect, 0)); err == nil {
		_, err = zkproto.ReadFrame(nc, nil, 1<<20)
	}
	if err != nil {
		stop()
		nc.Close()
		return nil, err
	}
	return &peer{nc, ctx}, nil
}

func (p *peer) discard() { io.Copy(io.Discard, p) }

var notified atomic.Int64 // clients of the flood of notifications: every fiftieth causes them

// floods are the floods of RELIABILITY, each until ctx ends. One call is one attacker.
var floods = []struct {
	name      string
	attackers int
	attack    func(ctx context.Context, addr string)
}{
	{"slow handshakes", 500, func(ctx context.Context, addr string) {
		if nc, err := new(net.Dialer).DialContext(ctx, "tcp", addr); err == nil {
			defer nc.Close()
			for i := 0; ; i++ {
				if _, err := nc.Write([]byte{0}); err != nil {
					return
				}
				select {
				case <-time.After(100 * time.Millisecond):
				case <-ctx.Done():
					return
				}
			}
		}
	}},
	{"connects", 4, func(ctx context.Context, addr string) {
		if p, err := join(ctx, addr); err == nil {
			p.Close()
		}
	}},
	{"connects without a handshake", 4, func(ctx context.Context, addr string) {
		if nc, err := new(net.Dialer).DialContext(ctx, "tcp", addr); err == nil {
			nc.Close()
		}
	}},
	{"unread answers", 20, func(ctx context.Context, addr string) {
		p, err := join(ctx, addr)
		if err != nil {
			return
		}
		defer p.Close()
		get := frameOf(zkproto.OpGetData, &zkproto.ReadRequest{Path: "/big"})
		for {
			if _, err := p.Write(get); err != nil {
				return
			}
		}
	}},
	// The same, but the client does not wait to be dropped: each connection is a new session.
	{"unread answers on new connections", 20, func(ctx context.Context, addr string) {
		p, err := join(ctx, addr)
		if err != nil {
			return
		}
		defer p.Close()
		p.Write(bytes.Repeat(frameOf(zkproto.OpGetData, &zkproto.ReadRequest{Path: "/big"}), 256))
		p.Read(make([]byte, 1)) // the first answer has arrived
	}},
	{"watches", 2, func(ctx context.Context, addr string) {
		p, err := join(ctx, addr)
		if err != nil {
			return
		}
		defer p.Close()
		go p.discard()
		for i := 0; ; i++ {
			if p.send(zkproto.OpExists, &zkproto.ReadRequest{Path: fmt.Sprint("/none", i), Watch: true}) != nil {
				return
			}
		}
	}},
	{"notifications", 200, func(ctx context.Context, addr string) {
		p, err := join(ctx, addr)
		if err != nil {
			return
		}
		defer p.Close()
		p.send(zkproto.OpAddWatch, &zkproto.AddWatchRequest{Path: "/big", Mode: zkproto.ModePersistent})
		if notified.Add(1)%50 == 0 {
			go p.discard()
			for p.send(zkproto.OpSetACL, &zkproto.SetACLRequest{Path: "/big", ACL: openACL, Version: -1}) == nil &&
				p.send(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/big", Data: []byte("x"), Version: -1}) == nil {
			}
			return
		}
		p.discard()
	}},
	{"large transactions", 4, func(ctx context.Context, addr string) {
		p, err := join(ctx, addr)
		if err != nil {
			return
		}
		defer p.Close()
		go p.discard()
		m := frameOf(zkproto.OpMulti, &zkproto.MultiRequest{Ops: slices.Repeat([]zkproto.MultiOp{{Op: zkproto.OpCheck, Path: "/big", Version: -1}}, 10_000)})
		for {
			if _, err := p.Write(m); err != nil {
				return
			}
		}
	}},
	{"large writes", 4, func(ctx context.Context, addr string) {
		p, err := join(ctx, addr)
		if err != nil {
			return
		}
		defer p.Close()
		go p.discard()
		m := frameOf(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/big", Data: make([]byte, 1<<20-100), Version: -1})
		for {
			if _, err := p.Write(m); err != nil {
				return
			}
		}
	}},
	// No attack: as many clients as in the flood of notifications, and as many answers a
	// second as it has notifications.
	{"reads", 196, func(ctx context.Context, addr string) {
		p, err := join(ctx, addr)
		if err != nil {
			return
		}
		defer p.Close()
		get := frameOf(zkproto.OpGetData, &zkproto.ReadRequest{Path: "/mine"})
		for tick := time.NewTicker(time.Second / 140); ; {
			if _, err := p.Write(get); err != nil {
				return
			}
			if _, err := zkproto.ReadFrame(p, nil, 1<<20); err != nil {
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}},
	{"nothing but processor time", 4, func(ctx context.Context, addr string) {
		for ctx.Err() == nil {
		}
	}},
	{"malformed frames", 4, func(ctx context.Context, addr string) {
		p, err := join(ctx, addr)
		if err != nil {
			return
		}
		defer p.Close()
		go p.discard()
		a := attacker{r: rand.New(rand.NewPCG(rand.Uint64(), 1)), valid: requestsToBreak()}
		for {
			if _, err := p.Write(a.frame(breakIt(a.r, a.valid[a.r.IntN(len(a.valid))]), a.r.IntN(1000) == 0)); err != nil {
				return
			}
		}
	}},
}

// BenchmarkFlood measures the 99th percentile of an honest client's wait for a read and a
// durable write, one after the other. The server is a process of its own, and is measured in three
// states: idle, with a second server under attack beside it, and under attack itself. The second
// state shows how much processor and disk an unrelated process takes from the server. The attackers
// are a process too, at a lower priority, because real attackers use their own machines.
//
//	go test -run='^$' -bench=Flood -benchtime=5s ./zkserver
func BenchmarkFlood(b *testing.B) {
	for _, flood := range floods {
		b.Run(flood.name, func(b *testing.B) {
			p := startProcess(b, Config{Dir: b.TempDir()})
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			c := joinHonest(b, ctx, p.addr)
			var idle, beside, flooded []time.Duration
			measure := func(waits *[]time.Duration) {
				for began := time.Now(); time.Since(began) < 2*time.Second; {
					*waits = append(*waits, c.round())
				}
			}
			measure(&idle)
			other := startProcess(b, Config{Dir: b.TempDir()})
			joinHonest(b, ctx, other.addr)
			stop := startFlood(b, flood.name, other.addr)
			measure(&beside)
			stop()
			other.stop()
			stop = startFlood(b, flood.name, p.addr)
			b.ResetTimer()
			for b.Loop() {
				flooded = append(flooded, c.round())
			}
			b.StopTimer()
			u := p.usage()
			stop()
			was, is := percentile99(idle), percentile99(flooded)
			b.ReportMetric(float64(was.Microseconds()), "µs-idle-p99")
			b.ReportMetric(float64(is.Microseconds()), "µs-flood-p99")
			b.ReportMetric(float64(is)/float64(was), "times-idle")
			b.ReportMetric(float64(percentile99(beside))/float64(was), "times-idle-beside")
			b.ReportMetric(float64(u.Peak>>20), "MB-peak")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// honest is the measured client.
type honest struct {
	*peer
	b           *testing.B
	read, write []byte
}

func joinHonest(b *testing.B, ctx context.Context, addr string) *honest {
	b.Helper()
	p, err := join(ctx, addr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { p.Close() })
	h := &honest{
		peer: p, b: b,
		read:  frameOf(zkproto.OpGetData, &zkproto.ReadRequest{Path: "/mine"}),
		write: frameOf(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/mine", Data: []byte("x"), Version: -1}),
	}
	h.call(frameOf(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/big", Data: make([]byte, 500_000), ACL: openACL}))
	h.call(frameOf(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/mine", ACL: openACL}))
	return h
}

func (h *honest) call(frame []byte) {
	if _, err := h.Write(frame); err != nil {
		h.b.Fatal(err)
	}
	if _, err := zkproto.ReadFrame(h, nil, 2<<20); err != nil {
		h.b.Fatal(err)
	}
}

func (h *honest) round() time.Duration {
	began := time.Now()
	h.call(h.read)
	h.call(h.write)
	return time.Since(began)
}

const floodEnv = "ZKSERVER_FLOOD" // name and address

// floodAsProcess attacks until standard input ends.
func floodAsProcess() bool {
	name, addr, is := strings.Cut(os.Getenv(floodEnv), "@")
	if !is {
		return false
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, flood := range floods {
		for range flood.attackers {
			if flood.name == name {
				wg.Go(func() {
					for ctx.Err() == nil {
						flood.attack(ctx, addr)
					}
				})
			}
		}
	}
	io.Copy(io.Discard, os.Stdin)
	cancel()
	wg.Wait()
	return true
}

func startFlood(b *testing.B, name, addr string) (stop func()) {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	if nice, err := exec.LookPath("nice"); err == nil {
		cmd = exec.Command(nice, "-n", "15", os.Args[0])
	}
	cmd.Env = append(os.Environ(), floodEnv+"="+name+"@"+addr)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			b.Errorf("the attackers: %v", err)
		}
	})
	b.Cleanup(stop)
	return stop
}

func percentile99(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)*99/100]
}
