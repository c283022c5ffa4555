//go:build unix

package interop

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"time"

	"holdfast/zkproto"
)

// A rawConn is one connection with a new session, without pings or reconnects. The crash test
// must know exactly which replies arrived on which connection, so it uses no client. One
// goroutine may send while another receives.
type rawConn struct {
	conn net.Conn
	in   *bufio.Reader
	xid  int32 // xid of the last request sent
}

type message interface{ Append([]byte) []byte }

func dialRaw(ctx context.Context, addr string) (_ *rawConn, err error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			conn.Close()
		}
	}()
	conn.SetDeadline(time.Now().Add(stepTime))
	c := &rawConn{conn: conn, in: bufio.NewReader(conn)}
	connect := zkproto.ConnectRequest{Timeout: 10_000, Passwd: make([]byte, 16), HasReadOnly: true}
	if err := c.write(connect.Append(zkproto.BeginFrame(nil))); err != nil {
		return nil, err
	}
	body, err := zkproto.ReadFrame(c.in, nil, zkproto.MaxFrame)
	if err != nil {
		return nil, err
	}
	r := zkproto.NewReader(body)
	var connected zkproto.ConnectResponse
	connected.Decode(r)
	if err := r.Complete(); err != nil {
		return nil, err
	}
	if connected.Timeout <= 0 {
		return nil, fmt.Errorf("a new session was answered with timeout %d", connected.Timeout)
	}
	return c, nil
}

func (c *rawConn) write(frame []byte) error {
	_, err := c.conn.Write(zkproto.EndFrame(frame, 0))
	return err
}

// send sends one request without waiting for its reply.
func (c *rawConn) send(op zkproto.Op, m message) error {
	c.xid++
	header := zkproto.RequestHeader{Xid: c.xid, Op: op}
	return c.write(m.Append(header.Append(zkproto.BeginFrame(nil))))
}

// receive reads the next reply. Replies come in the order of the requests.
func (c *rawConn) receive() (zkproto.ReplyHeader, *zkproto.Reader, error) {
	body, err := zkproto.ReadFrame(c.in, nil, zkproto.MaxFrame)
	if err != nil {
		return zkproto.ReplyHeader{}, nil, err
	}
	r := zkproto.NewReader(body)
	var header zkproto.ReplyHeader
	header.Decode(r)
	return header, r, r.Err()
}

// call sends one request and waits for its reply.
func (c *rawConn) call(op zkproto.Op, m message) (zkproto.ReplyHeader, *zkproto.Reader, error) {
	if err := c.send(op, m); err != nil {
		return zkproto.ReplyHeader{}, nil, err
	}
	return c.receive()
}

var openACL = []zkproto.ACL{{Perms: zkproto.PermAll, Scheme: "world", ID: "anyone"}}

// create creates a node and expects success.
func (c *rawConn) create(path string) error {
	header, _, err := c.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: path, ACL: openACL})
	if err == nil && header.Err != zkproto.CodeOK {
		err = header.Err
	}
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	return nil
}

func (c *rawConn) Close() error { return c.conn.Close() }
