//go:build unix

package interop

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"holdfast/zkproto"
)

// A diffHandshake is the first message of a client, apart from its identity.
type diffHandshake struct {
	timeout    int32
	seen       diffSeen
	noReadOnly bool // the last byte is left out, as old clients do
	version    int32
	as         diffImpostor
}

// A diffSeen is the last zxid that a client claims to have seen.
type diffSeen int

const (
	seenNothing diffSeen = iota
	seenOld
	seenLast
	seenFuture // the next zxid
	seenFar
)

// A diffImpostor is a client with a false identity.
type diffImpostor int

const (
	asOneself diffImpostor = iota
	wrongPassword
	noPassword
	shortPassword
	unknownSession
	newWithPassword // a new session needs no password, and any is accepted
	cutHandshake    // the frame ends too early
	negativeFrame
	hugeFrame
)

var diffTimeoutMs = int32(diffTimeout / time.Millisecond)

// handshake returns a handshake that the server accepts.
func (d *diffStream) handshake() diffHandshake {
	h := diffHandshake{timeout: diffTimeoutMs}
	if d.n(2) == 0 {
		h.timeout = pick(d, diffTimeoutMs, diffTimeoutMs-1, diffTimeoutMs+1, 1_000_000_000, 1<<31-1)
		h.seen = pick(d, seenNothing, seenOld, seenLast)
		h.noReadOnly = d.n(3) == 0
		h.version = pick[int32](d, 0, 0, 1, -1)
	}
	return h
}

// refusedHandshake returns a handshake that the server refuses, though not always with an answer.
func (d *diffStream) refusedHandshake() diffHandshake {
	h := d.handshake()
	if d.n(3) == 0 {
		h.seen = pick(d, seenFuture, seenFar)
		h.as = pick(d, asOneself, wrongPassword, newWithPassword)
	} else {
		h.as = pick(d, wrongPassword, noPassword, shortPassword, unknownSession, cutHandshake, negativeFrame, hugeFrame)
	}
	return h
}

func (s *diffSide) lastSeen(seen diffSeen) int64 {
	return map[diffSeen]int64{seenNothing: 0, seenOld: s.base, seenLast: s.last, seenFuture: s.last + 1, seenFar: 1<<63 - 1}[seen]
}

// dial opens a connection and returns the server's answer to the handshake. The connection is
// nil if the server has closed it.
func (s *diffSide) dial(c diffClient, h diffHandshake) (*rawConn, zkproto.ConnectResponse, string, error) {
	var response zkproto.ConnectResponse
	nc, err := net.DialTimeout("tcp", s.addr, stepTime)
	if err != nil {
		return nil, response, "", err
	}
	conn := &rawConn{conn: nc, in: bufio.NewReaderSize(nc, 64<<10)}
	nc.SetDeadline(time.Now().Add(stepTime))
	request := zkproto.ConnectRequest{
		ProtocolVersion: h.version, LastZxidSeen: s.lastSeen(h.seen), Timeout: h.timeout,
		SessionID: c.id, Passwd: c.passwd, HasReadOnly: !h.noReadOnly,
	}
	if c.id == 0 {
		request.Passwd = make([]byte, 16)
	}
	switch h.as {
	case wrongPassword:
		request.Passwd = slices.Clone(request.Passwd)
		request.Passwd[7] ^= 1
	case noPassword:
		request.Passwd = nil
	case shortPassword:
		request.Passwd = request.Passwd[:15]
	case unknownSession:
		request.SessionID ^= 0x5555
	case newWithPassword:
		request.SessionID, request.Passwd = 0, []byte("whatever it may be")
	}
	frame := zkproto.EndFrame(request.Append(zkproto.BeginFrame(nil)), 0)
	switch h.as {
	case cutHandshake:
		frame = zkproto.EndFrame(frame[:4+17], 0)
	case negativeFrame:
		frame = append([]byte{0xff, 0xff, 0xff, 0xfe}, frame[4:]...)
	case hugeFrame:
		frame = append([]byte{0x10, 0, 0, 0}, frame[4:]...)
	}
	if _, err := nc.Write(frame); err != nil {
		nc.Close()
		return nil, response, "", err
	}
	body, err := zkproto.ReadFrame(conn.in, nil, zkproto.MaxFrame)
	switch {
	case err != nil && connectionClosed(err):
		nc.Close()
		return nil, response, "cut off", nil
	case err != nil:
		nc.Close()
		return nil, response, "", err
	}
	r := zkproto.NewReader(body)
	response.Decode(r)
	if err := r.Complete(); err != nil {
		nc.Close()
		return nil, response, "", err
	}
	text := fmt.Sprintf("version %d, timeout %d, read-only %v %v", response.ProtocolVersion, response.Timeout, response.HasReadOnly, response.ReadOnly)
	if response.Timeout > 0 {
		return conn, response, text, nil
	}
	defer nc.Close()
	text += fmt.Sprintf(", session %d, password %x", response.SessionID, response.Passwd)
	if _, err := io.Copy(io.Discard, conn.in); err != nil && !connectionClosed(err) {
		return nil, response, "", fmt.Errorf("the session is over and the connection is not: %w", err)
	}
	return nil, response, text, nil
}

// connect opens a connection of client i, with a new session if it has none or its session is
// over. The connection before it stays open.
func (s *diffSide) connect(i int, h diffHandshake) (string, error) {
	c := &s.clients[i]
	var lines strings.Builder
	for {
		conn, response, text, err := s.dial(*c, h)
		if err != nil {
			return "", err
		}
		if conn == nil {
			if c.id == 0 {
				return "", fmt.Errorf("client%d: a new session was refused: %s", i, text)
			}
			fmt.Fprintf(&lines, "  client%d refused: %s\n", i, text)
			c.id, c.passwd = 0, nil
			continue
		}
		resumed := response.SessionID == c.id
		if !resumed {
			c.lives++
			s.sessions[response.SessionID] = fmt.Sprintf("client%d.%d", i, c.lives)
		}
		c.rawConn, c.id, c.passwd = conn, response.SessionID, response.Passwd
		fmt.Fprintf(&lines, "  client%d connected: %s, resumed %v\n", i, text, resumed)
		return lines.String(), nil
	}
}

// refused makes a connection of client i that the server refuses.
func (s *diffSide) refused(i int, h diffHandshake) (string, error) {
	conn, _, text, err := s.dial(s.clients[i], h)
	if conn != nil {
		conn.Close()
		return "", fmt.Errorf("client%d was let in: %s", i, text)
	}
	return fmt.Sprintf("  client%d refused: %s\n", i, text), err
}

// visit makes a session that does nothing and is closed.
func (s *diffSide) visit(h diffHandshake) (string, error) {
	conn, response, text, err := s.dial(diffClient{}, h)
	if err != nil || conn == nil {
		return "", errors.Join(err, errors.New("a visitor was refused: "+text))
	}
	defer conn.Close()
	s.sessions[response.SessionID] = "visitor"
	header, _, err := conn.call(zkproto.OpCloseSession, noBody{})
	return fmt.Sprintf("  visitor: %s, closed: zxid %s, error %d\n", text, s.zxid(header.Zxid), header.Err), err
}

// expire lets the session of client i run out while the others stay, and returns the events
// that they get.
func (s *diffSide) expire(i int) ([]string, error) {
	c := &s.clients[i]
	other := (i + 1) % diffClients
	path := fmt.Sprintf("/expires%s", strings.ReplaceAll(s.sessions[c.id], "client", ""))
	c.rawConn.Close()
	line, err := s.connect(i, diffHandshake{timeout: 1}) // the server's minimum
	if err != nil {
		return nil, err
	}
	lines := []string{line}
	create := []diffRequest{{op: zkproto.OpCreate, message: &zkproto.CreateRequest{Path: path, ACL: openACL, Flags: zkproto.FlagEphemeral}}}
	more, _, err := s.exchange(i, create)
	if err != nil {
		return nil, err
	}
	lines = append(lines, more...)
	watch := []diffRequest{{op: zkproto.OpGetData, message: &zkproto.ReadRequest{Path: path, Watch: true}}}
	if more, _, err = s.exchange(other, watch); err != nil {
		return nil, err
	}
	lines = append(lines, more...)
	c.rawConn.Close()
	news := fmt.Sprintf("  client%d notified: NodeDeleted %s,", other, path)
	for gone, deadline := false, time.Now().Add(stepTime); !gone; {
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("the session of client%d does not expire", i)
		}
		time.Sleep(diffTick / 20) // meanwhile the others keep their sessions
		for j := range s.clients {
			if j == i {
				continue
			}
			more, _, err := s.exchange(j, diffBarrier)
			if err != nil {
				return nil, err
			}
			more = more[:len(more)-1] // the number of tries does not count
			lines = append(lines, more...)
			gone = gone || slices.ContainsFunc(more, func(line string) bool { return strings.HasPrefix(line, news) })
		}
	}
	if line, err = s.connect(i, diffHandshake{timeout: diffTimeoutMs}); err != nil {
		return nil, err
	}
	return append(lines, line), nil
}
