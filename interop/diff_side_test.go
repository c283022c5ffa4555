//go:build unix

package interop

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/zkproto"
)

const (
	diffTick    = time.Second
	diffTimeout = 30 * diffTick // the maximum of holdfast serve; Apache's own would be 20 ticks
	diffClients = 3
)

// A diffSide is one of the two servers with its clients. Its reports contain nothing that may
// differ: zxids count from the start of the test, and a session is named by its client.
type diffSide struct {
	addr     string
	apache   bool // for code that depends on it
	base     int64
	last     int64 // the highest zxid that a client has seen
	clients  [diffClients]diffClient
	sessions map[int64]string
	seen     diffCoverage

	orders     map[string]string // order of children, by a node in a state; see ordered
	multiReads int
	repeated   int      // repeated reads of a list in the same state
	reordered  []string // nodes whose list had another order then
}

type diffClient struct {
	*rawConn
	id     int64
	passwd []byte
	lives  int // sessions so far
}

func newDiffSide(t *testing.T, addr string) *diffSide {
	s := &diffSide{addr: addr, sessions: make(map[int64]string), seen: make(diffCoverage), orders: make(map[string]string)}
	t.Cleanup(func() {
		for _, c := range s.clients {
			if c.rawConn != nil {
				c.Close()
			}
		}
	})
	for i := range s.clients {
		if _, err := s.connect(i, diffHandshake{timeout: diffTimeoutMs}); err != nil {
			t.Fatal(err)
		}
	}
	header, _, err := s.clients[0].call(zkproto.OpPing, noBody{})
	if err != nil {
		t.Fatal(err)
	}
	s.base, s.last = header.Zxid, header.Zxid
	return s
}

type noBody struct{}

func (noBody) Append(b []byte) []byte { return b }

func (s *diffSide) runAll(steps []diffStep) ([]string, error) {
	outcomes := make([]string, len(steps))
	for i, step := range steps {
		var err error
		if outcomes[i], err = s.run(step); err != nil {
			return nil, fmt.Errorf("%v: %w", step, err)
		}
	}
	return outcomes, nil
}

// run does one step, then makes every client ask for something. By then, everything that the
// server sends because of the step has arrived.
func (s *diffSide) run(step diffStep) (string, error) {
	var lines []string
	for i := range s.clients {
		s.clients[i].conn.SetDeadline(time.Now().Add(stepTime))
	}
	old, connect := s.clients[step.client].rawConn, true
	var line string
	var err error
	switch step.kind {
	case diffReconnect:
		old.Close()
	case diffMove: // the server must close it
		defer old.Close()
	case diffRefused:
		// Only once it is closed: Apache's server would close it for any client that names the
		// session, before it checks the password.
		old.Close()
		if line, err = s.refused(step.client, step.handshake); err == nil {
			lines = append(lines, line)
		}
	case diffVisit:
		if line, err = s.visit(step.handshake); err == nil {
			lines = append(lines, line)
		}
		connect = false
	case diffExpire:
		lines, err = s.expire(step.client)
		connect = false
	default:
		lines, connect, err = s.exchange(step.client, step.requests)
		if connect {
			old.Close()
		}
	}
	if err != nil {
		return "", err
	}
	if step.kind == diffEnd {
		s.clients[step.client].id = 0
	}
	if connect {
		h := step.handshake
		if step.kind != diffReconnect && step.kind != diffMove {
			h = diffHandshake{timeout: diffTimeoutMs}
		}
		if line, err = s.connect(step.client, h); err != nil {
			return "", err
		}
		lines = append(lines, line)
	}
	if (step.kind == diffReconnect || step.kind == diffMove) && len(step.requests) > 0 {
		more, _, err := s.exchange(step.client, step.requests)
		if err != nil {
			return "", err
		}
		lines = append(lines, more...)
	}
	for i := range s.clients {
		if err := s.send(i, diffBarrier); err != nil {
			return "", err
		}
	}
	for i := range s.clients {
		more, closed, err := s.collect(i, diffBarrier)
		if err != nil {
			return "", err
		}
		if closed {
			return "", errors.New("a connection was closed that did nothing")
		}
		lines = append(lines, more...)
	}
	if step.kind == diffEnd || step.kind == diffExpire {
		slices.Sort(lines) // the server may remove the session's nodes in any order
	}
	return strings.Join(lines, ""), nil
}

func (s *diffSide) exchange(i int, requests []diffRequest) (lines []string, closed bool, err error) {
	err = s.send(i, requests)
	// A server that refuses a frame may close the connection while the frame is being sent.
	if err != nil && !(connectionClosed(err) && requests[len(requests)-1].ends) {
		return nil, false, err
	}
	return s.collect(i, requests)
}

// diffBarrier makes earlier messages of the server arrive.
var diffBarrier = []diffRequest{{op: zkproto.OpSync, message: &zkproto.SyncRequest{Path: "/"}, xid: new(int32(-1000))}}

// send sends requests at once.
func (s *diffSide) send(i int, requests []diffRequest) error {
	c := &s.clients[i]
	var frames []byte
	for _, r := range requests {
		header := zkproto.RequestHeader{Op: r.op}
		if r.xid != nil {
			header.Xid = *r.xid
		} else {
			c.xid++
			header.Xid = c.xid
		}
		start := len(frames)
		frames = r.forSide(s).Append(header.Append(zkproto.BeginFrame(frames)))
		frames = zkproto.EndFrame(frames, start)
	}
	_, err := c.conn.Write(frames)
	return err
}

// collect reads until the requests, which were sent last, are answered. If the server must
// close the connection, it reads until then.
func (s *diffSide) collect(i int, requests []diffRequest) (lines []string, closed bool, err error) {
	c := &s.clients[i]
	next := c.xid + 1
	for _, r := range requests {
		if r.xid == nil {
			next--
		}
	}
	ends := requests[len(requests)-1].ends
	for answered := 0; answered < len(requests) || ends; {
		header, body, err := c.receive()
		switch {
		case err != nil && connectionClosed(err):
			s.seen.add(opName(requests[len(requests)-1].op), "cut off")
			return append(lines, fmt.Sprintf("  client%d is cut off\n", i)), true, nil
		case err != nil:
			return nil, false, fmt.Errorf("%w; so far:\n%s", err, strings.Join(lines, ""))
		case answered < len(requests) && header.Xid == requests[answered].xidOr(next):
		case header.Xid == zkproto.XidNotification:
			var e zkproto.WatcherEvent
			e.Decode(body)
			s.seen.add("notified", e.Type.String())
			lines = append(lines, fmt.Sprintf("  client%d notified: %v %s, state %d, zxid %s\n", i, e.Type, e.Path, e.State, s.zxid(header.Zxid)))
			continue
		default:
			return nil, false, fmt.Errorf("client%d: unexpected answer with xid %d", i, header.Xid)
		}
		r := requests[answered]
		text := s.answer(r, header, body)
		if rest := body.Complete(); rest != nil {
			text += fmt.Sprint(" ", rest)
		}
		s.last = max(s.last, header.Zxid)
		s.seen.add(opName(r.op), fmt.Sprint(int32(header.Err)))
		lines = append(lines, fmt.Sprintf("  client%d answered: xid %d, zxid %s, error %d %s\n", i, header.Xid, s.zxid(header.Zxid), header.Err, text))
		answered++
		if r.xid == nil {
			next++
		}
	}
	return lines, false, nil
}

func connectionClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// answer formats the record of an answer.
func (s *diffSide) answer(r diffRequest, header zkproto.ReplyHeader, body *zkproto.Reader) string {
	if header.Err != zkproto.CodeOK {
		return ""
	}
	switch r.op {
	case zkproto.OpCreate, zkproto.OpSync:
		return fmt.Sprintf("%q", body.String())
	case zkproto.OpCreate2, zkproto.OpCreateContainer, zkproto.OpCreateTTL:
		return fmt.Sprintf("%q %s", body.String(), s.stat(body))
	case zkproto.OpExists, zkproto.OpSetData, zkproto.OpSetACL:
		return s.stat(body)
	case zkproto.OpGetData:
		return fmt.Sprintf("%#v %s", body.Bytes(), s.stat(body))
	case zkproto.OpSASL:
		return fmt.Sprintf("%#v", body.Bytes())
	case zkproto.OpGetEphemerals:
		return sorted(body.Strings())
	case zkproto.OpGetAllChildrenNumber, zkproto.OpAddWatch:
		return fmt.Sprint(body.Int32())
	case zkproto.OpGetACL:
		// On Apache's server, the identities that "auth" stood for are in any order, and so are
		// identities.
		var entries []string
		for _, a := range zkproto.DecodeACLs(body) {
			entries = append(entries, fmt.Sprint(a))
		}
		return sorted(entries) + s.stat(body)
	case zkproto.OpWhoAmI:
		var m zkproto.WhoAmIResponse
		m.Decode(body)
		var users []string
		for _, info := range m.Infos {
			users = append(users, fmt.Sprint(info))
		}
		return sorted(users)
	case zkproto.OpMultiRead:
		var m zkproto.MultiReadResponse
		m.Decode(body)
		request, _ := r.message.(*zkproto.MultiReadRequest) // or invalid bytes that happen to be decodable
		s.multiReads++
		var b strings.Builder
		for i, r := range m.Results {
			s.seen.add("in multi read", fmt.Sprint(int32(r.Err)))
			if request != nil && r.Op == zkproto.OpGetChildren { // nothing comes between the reads of one request
				s.ordered(request.Ops[i].Path, fmt.Sprintf("%s in multi-read %d", request.Ops[i].Path, s.multiReads), r.Children)
			}
			fmt.Fprintf(&b, "(%d %d %#v %s %s)", r.Op, r.Err, r.Data, sorted(r.Children), s.stat(zkproto.NewReader(r.Stat.Append(nil))))
		}
		return b.String()
	case zkproto.OpGetChildren:
		return sorted(body.Strings())
	case zkproto.OpGetChildren2:
		names := body.Strings()
		rest := *body
		var st zkproto.Stat
		st.Decode(&rest)
		if request, ok := r.message.(*zkproto.ReadRequest); ok {
			s.ordered(request.Path, fmt.Sprintf("%s %d %d %d", request.Path, st.Czxid, st.Pzxid, st.Cversion), names)
		}
		return sorted(names) + s.stat(body)
	case zkproto.OpMulti:
		var m zkproto.MultiResponse
		m.Decode(body)
		var b strings.Builder
		for _, r := range m.Results {
			s.seen.add("in multi", fmt.Sprint(int32(r.Err)))
			fmt.Fprintf(&b, "(%d %d %q %s)", r.Op, r.Err, r.Path, s.stat(zkproto.NewReader(r.Stat.Append(nil))))
		}
		return b.String()
	}
	return ""
}

// ordered compares the order of the children of path with an earlier read in the same state.
func (s *diffSide) ordered(path, state string, names []string) {
	order := fmt.Sprintf("%q", names)
	before, again := s.orders[state]
	if !again {
		s.orders[state] = order
		return
	}
	s.repeated++
	if order != before {
		s.reordered = append(s.reordered, path)
	}
}

func sorted(names []string) string {
	slices.Sort(names)
	return fmt.Sprintf("%q", names)
}

func (s *diffSide) zxid(z int64) string {
	switch {
	case z <= 0:
		return fmt.Sprint(z)
	case z <= s.base-100: // before the clients connected
		return "old"
	}
	return fmt.Sprintf("%+d", z-s.base)
}

// stat shows everything but the times.
func (s *diffSide) stat(r *zkproto.Reader) string {
	var st zkproto.Stat
	st.Decode(r)
	owner, known := s.sessions[st.EphemeralOwner]
	if !known {
		owner = fmt.Sprint(st.EphemeralOwner != 0)
	}
	return fmt.Sprintf("{c %s m %s p %s, versions %d %d %d, owner %s, %d bytes, %d children}", s.zxid(st.Czxid), s.zxid(st.Mzxid), s.zxid(st.Pzxid),
		st.Version, st.Cversion, st.Aversion, owner, st.DataLength, st.NumChildren)
}

// walk lists all nodes from path on as the first client sees them.
func (s *diffSide) walk(path string) ([]string, error) {
	c := &s.clients[0]
	c.conn.SetDeadline(time.Now().Add(stepTime))
	data, _, err := s.exchange(0, []diffRequest{{op: zkproto.OpGetData, message: &zkproto.ReadRequest{Path: path}}})
	if err != nil {
		return nil, err
	}
	lines := []string{path + strings.Join(data, "")}
	header, body, err := c.call(zkproto.OpGetChildren, &zkproto.ReadRequest{Path: path})
	if err != nil || header.Err != zkproto.CodeOK {
		return lines, err
	}
	names := body.Strings()
	slices.Sort(names)
	for _, name := range names {
		below, err := s.walk(strings.TrimSuffix(path, "/") + "/" + name)
		if err != nil {
			return nil, err
		}
		lines = append(lines, below...)
	}
	return lines, nil
}
