//go:build unix

package peers

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"

	"holdfast/zkproto"
)

// A Proxy is the way of a client to one server. It knows the frames of the protocol, so it
// can lose one direction only, or the answer to a write that the server has committed; and
// it knows the secrets of the sessions that pass. It is safe for concurrent use.
type Proxy struct {
	listener net.Listener
	target   string
	wg       sync.WaitGroup

	mu        sync.Mutex // guards the fields below
	up, down  bool       // cut: what the client sends, what the server sends
	links     map[*link]struct{}
	closed    bool
	loseWrite int // answers to writes, still to be lost
	lost      int // answers to writes, lost so far
	swallowed int // frames, by cuts
}

// A SessionSecret is all that it takes to be a session.
type SessionSecret struct {
	ID     int64
	Passwd []byte
}

// a link is one connection of a client.
type link struct {
	client, server net.Conn
	secret         SessionSecret
	writes         map[int32]bool // sent and not answered, by xid
	spoilt         bool           // it has lost frames
}

// NewProxy leads to target, the address of a server.
func NewProxy(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: l, target: target, links: make(map[*link]struct{})}
	p.wg.Go(p.accept)
	return p, nil
}

// Addr is where the client connects to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Cut swallows what the client sends (up), what the server sends (down), or both, and no
// connection breaks. Cut(false, false) heals; connections that have lost frames break then,
// as they would when one end notices.
func (p *Proxy) Cut(up, down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.up, p.down = up, down
	if !up && !down {
		for l := range p.links {
			if l.spoilt {
				l.close()
			}
		}
	}
}

// LoseWrite loses the next answer that reports a write as done, and breaks the connection.
func (p *Proxy) LoseWrite() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loseWrite++
}

// Sever breaks all connections, and says how many.
func (p *Proxy) Sever() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.close()
	}
	return len(p.links)
}

// Lost is how many answers to writes and how many other frames have been lost so far.
func (p *Proxy) Lost() (writes, frames int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost, p.swallowed
}

// Sessions are those that are connected through p.
func (p *Proxy) Sessions() []SessionSecret {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []SessionSecret
	for l := range p.links {
		if l.secret.ID != 0 {
			all = append(all, l.secret)
		}
	}
	return all
}

// Close breaks all connections and stops listening.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.listener.Close()
	p.Sever()
	p.wg.Wait()
}

func (l *link) close() {
	l.client.Close()
	l.server.Close()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close() // as if the server had refused it
			continue
		}
		l := &link{client: client, server: server, writes: make(map[int32]bool)}
		p.mu.Lock()
		if p.closed {
			l.close()
		}
		p.links[l] = struct{}{}
		p.mu.Unlock()
		p.wg.Go(func() {
			var both sync.WaitGroup
			both.Go(func() { p.pass(l, server, client, p.request) })
			both.Go(func() { p.pass(l, client, server, p.reply) })
			both.Wait()
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.links, l)
		})
	}
}

// A verdict is what becomes of a frame.
type verdict int

const (
	deliver verdict = iota
	swallow
	hangUp
)

// pass copies frames as judge says, until one end is gone.
func (p *Proxy) pass(l *link, to, from net.Conn, judge func(l *link, first bool, body []byte) verdict) {
	defer l.close()
	in, out := bufio.NewReader(from), bufio.NewWriter(to)
	frame := make([]byte, 4)
	for first := true; ; first = false {
		if _, err := io.ReadFull(in, frame[:4]); err != nil {
			return
		}
		n := int(binary.BigEndian.Uint32(frame[:4]))
		if n > zkproto.MaxFrame {
			return
		}
		frame = slices.Grow(frame[:4], n)[:4+n]
		if _, err := io.ReadFull(in, frame[4:]); err != nil {
			return
		}
		switch judge(l, first, frame[4:]) {
		case hangUp:
			return
		case deliver:
			if _, err := out.Write(frame); err != nil {
				return
			}
		}
		if in.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return
			}
		}
	}
}

// request judges what a client sends.
func (p *Proxy) request(l *link, first bool, body []byte) verdict {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.up {
		l.spoilt = true
		p.swallowed++
		return swallow
	}
	if !first {
		var h zkproto.RequestHeader
		h.Decode(zkproto.NewReader(body))
		switch h.Op {
		case zkproto.OpCreate, zkproto.OpCreate2, zkproto.OpCreateContainer, zkproto.OpDelete, zkproto.OpMulti:
			l.writes[h.Xid] = true
		}
	}
	return deliver
}

// reply judges what the server sends.
func (p *Proxy) reply(l *link, first bool, body []byte) verdict {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		l.spoilt = true
		p.swallowed++
		return swallow
	}
	r := zkproto.NewReader(body)
	if first {
		var c zkproto.ConnectResponse
		c.Decode(r)
		l.secret = SessionSecret{c.SessionID, slices.Clone(c.Passwd)}
		return deliver
	}
	var h zkproto.ReplyHeader
	h.Decode(r)
	if l.writes[h.Xid] {
		delete(l.writes, h.Xid)
		if p.loseWrite > 0 && h.Err == zkproto.CodeOK {
			p.loseWrite--
			p.lost++
			return hangUp
		}
	}
	return deliver
}
