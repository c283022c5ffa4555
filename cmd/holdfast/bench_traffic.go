package main

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"net"
	"sync/atomic"
	"time"

	"holdfast/zk"
)

// traffic counts what clients send and receive. It is safe for concurrent use.
type traffic struct{ requests, answers, events, bytes atomic.Int64 }

type tally struct{ requests, answers, events, bytes int64 }

func (t *traffic) now() tally {
	return tally{t.requests.Load(), t.answers.Load(), t.events.Load(), t.bytes.Load()}
}

// settle waits until all requests are answered and nothing has been sent for herdSilence. The requests of a
// connection that broke are never answered, so it waits for settlePatience at most.
func (t *traffic) settle(ctx context.Context) error {
	began := time.Now()
	for last := t.now(); ; {
		sleep(ctx, herdSilence)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		now := t.now()
		if now == last && now.requests == now.answers || time.Since(began) > settlePatience {
			return nil
		}
		last = now
	}
}

// count changes the configuration of a client so that t counts its traffic. TLS moves into the dial, so that the
// frames can be read.
func (t *traffic) count(cfg *zk.Config) {
	dial, secure := cfg.Dial, cfg.TLS
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	cfg.TLS = nil
	cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if secure != nil {
			own := secure.Clone()
			if own.ServerName == "" {
				own.ServerName, _, _ = net.SplitHostPort(addr)
			}
			c := tls.Client(nc, own)
			if err := c.HandshakeContext(ctx); err != nil {
				nc.Close()
				return nil, err
			}
			nc = c
		}
		return &countedConn{Conn: nc, traffic: t}, nil
	}
}

const (
	xidPing  = -2
	xidEvent = -1
)

// A countedConn counts frames. One goroutine reads and one writes, as those of a client do.
type countedConn struct {
	net.Conn
	traffic *traffic
	out, in frameReader
}

func (c *countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.out.read(b[:max(n, 0)], func(xid int32, size int) {
		if xid != xidPing {
			c.traffic.requests.Add(1)
			c.traffic.bytes.Add(int64(size))
		}
	})
	return n, err
}

func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.in.read(b[:max(n, 0)], func(xid int32, size int) {
		switch xid {
		case xidPing:
			return
		case xidEvent:
			c.traffic.events.Add(1)
		default:
			c.traffic.answers.Add(1)
		}
		c.traffic.bytes.Add(int64(size))
	})
	return n, err
}

// A frameReader finds the frames in a stream: a length of four bytes, then a number that identifies the request.
// The first frame is the handshake, which has no such number.
type frameReader struct {
	head    [8]byte
	have    int // bytes of head
	skip    int // rest of the frame
	greeted bool
}

func (f *frameReader) read(b []byte, frame func(xid int32, size int)) {
	for len(b) > 0 {
		if f.skip > 0 {
			n := min(f.skip, len(b))
			f.skip -= n
			b = b[n:]
			continue
		}
		n := copy(f.head[f.have:], b)
		f.have += n
		b = b[n:]
		if f.have < len(f.head) {
			return
		}
		size := 4 + int(binary.BigEndian.Uint32(f.head[:4]))
		f.have, f.skip = 0, size-len(f.head)
		if f.greeted {
			frame(int32(binary.BigEndian.Uint32(f.head[4:])), size)
		}
		f.greeted = true
	}
}
