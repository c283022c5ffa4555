package chaos_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"holdfast/zkproto"
)

// A replayRun is the state that its clients share.
type replayRun struct {
	addr   string
	expire func(session int64) bool
	known  atomic.Int64 // the highest zxid that any client got

	mu       sync.Mutex
	numbered []string // paths with sequence numbers, likely to exist
}

// A replayClient does random things, one session after the other, and records the answers.
type replayClient struct {
	run     *replayRun
	rng     *rand.Rand
	id      int
	done    int // requests answered
	serial  int
	wires   []*wire
	found   []found
	wire    *wire // the current connection
	seen    int64 // the highest zxid that the session got
	passwd  []byte
	version map[string]int32
	armed   map[zxidWatch]bool // watches that it believes to be armed, on existing nodes
	absent  map[string]bool    // and on missing ones

	begun, resumed, inDoubt, expired int
}

func own(session int64) string { return fmt.Sprintf("/t/own/%x", session) }

// begin makes a session, and a node that shows the session's end: an ephemeral one, alone in a directory
// that no other client changes.
func (c *replayClient) begin() error {
	c.seen, c.armed, c.absent = 0, map[zxidWatch]bool{}, map[string]bool{}
	c.wire = &wire{}
	resp, err := c.wire.connect(c.run.addr, &zkproto.ConnectRequest{Timeout: 3600_000, Passwd: make([]byte, 16), HasReadOnly: true})
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	c.begun++
	c.passwd = resp.Passwd
	c.wires = append(c.wires, c.wire)
	dir := own(resp.SessionID)
	return c.ask(creates(dir, zkproto.FlagPersistent), creates(dir+"/alive", zkproto.FlagEphemeral))
}

func creates(path string, flags int32) asked {
	return asked{op: zkproto.OpCreate, write: zkproto.MultiOp{Op: zkproto.OpCreate, Path: path, Data: []byte("x"), Flags: flags}}
}

func reads(op zkproto.Op, path string) asked {
	return asked{op: op, write: zkproto.MultiOp{Path: path}}
}

func (c *replayClient) send(all []asked) error {
	for i := range all {
		all[i].floor = c.run.known.Load()
	}
	return c.wire.send(all)
}

// receive reads one frame and learns from it.
func (c *replayClient) receive() error {
	a, err := c.wire.next()
	if err != nil {
		return err
	}
	if a == nil {
		e := c.wire.tail[len(c.wire.tail)-1]
		if e.Type != zkproto.EventNodeChildrenChanged {
			delete(c.armed, zxidWatch{watchData, e.Path})
			delete(c.absent, e.Path)
		}
		if e.Type == zkproto.EventNodeChildrenChanged || e.Type == zkproto.EventNodeDeleted {
			delete(c.armed, zxidWatch{watchChildren, e.Path})
		}
		return nil
	}
	c.done++
	c.seen = a.zxid
	for known := c.run.known.Load(); a.zxid > known && !c.run.known.CompareAndSwap(known, a.zxid); {
		known = c.run.known.Load()
	}
	if a.code == zkproto.CodeOK && a.stat.Czxid != 0 {
		c.version[a.write.Path] = a.stat.Version
	}
	if a.path != a.write.Path && a.path != "" {
		c.run.mu.Lock()
		c.run.numbered = append(c.run.numbered, a.path)
		c.run.mu.Unlock()
	}
	switch {
	case !a.watch:
	case a.op == zkproto.OpExists && a.code == zkproto.CodeNoNode:
		c.absent[a.write.Path] = true
	case a.code != zkproto.CodeOK:
	case a.op == zkproto.OpExists, a.op == zkproto.OpGetData:
		c.armed[zxidWatch{watchData, a.write.Path}] = true
	default:
		c.armed[zxidWatch{watchChildren, a.write.Path}] = true
	}
	return nil
}

// ask sends requests and reads all replies.
func (c *replayClient) ask(all ...asked) error {
	if err := c.send(all); err != nil {
		return err
	}
	for len(c.wire.waiting) > 0 {
		if err := c.receive(); err != nil {
			return err
		}
	}
	return nil
}

// goOn continues until this many requests in all have been answered.
func (c *replayClient) goOn(until int) error {
	for c.done < until {
		var err error
		switch c.rng.IntN(50) {
		case 0:
			err = c.close()
		case 1, 5:
			var create asked
			if create, err = c.doubt(); err == nil {
				err = c.resume(create)
			}
		case 2:
			err = c.closeUnheard()
		case 3:
			err = c.beExpired()
		case 4:
			c.wire.nc.Close()
			err = c.resume(asked{})
		default:
			err = c.ask(c.some(c.random)...)
		}
		if err != nil {
			return fmt.Errorf("client %d, after %d: %w", c.id, c.done, err)
		}
	}
	return nil
}

func (c *replayClient) some(one func() asked) []asked {
	all := make([]asked, 1+c.rng.IntN(24))
	for i := range all {
		all[i] = one()
	}
	return all
}

func (c *replayClient) close() error {
	if err := c.ask(append(c.some(c.random), asked{op: zkproto.OpCloseSession})...); err != nil {
		return err
	}
	if err := c.drain(); err != nil {
		return err
	}
	return c.begin()
}

// drain reads up to the end of the stream that the server makes.
func (c *replayClient) drain() error {
	defer c.wire.nc.Close()
	for {
		err := c.receive()
		switch {
		case err == nil:
		case errors.Is(err, errNonsense), errors.Is(err, os.ErrDeadlineExceeded):
			return err
		default:
			c.wire.drained = err == io.EOF // not if the connection was reset
			return nil
		}
	}
}

// sendDoubt sends reads with one create between them, of a node that no other client touches.
func (c *replayClient) sendDoubt() (create asked, err error) {
	c.serial++
	create = creates(fmt.Sprintf("/t/doubt/%x-%d", c.wire.session, c.serial), int32(c.rng.IntN(2)))
	all := append(c.some(c.randomRead), create)
	return create, c.send(append(all, c.some(c.randomRead)...))
}

// doubt cuts the connection while replies are in flight, so the outcome of the create is unknown.
func (c *replayClient) doubt() (create asked, err error) {
	if create, err = c.sendDoubt(); err != nil {
		return create, err
	}
	for range c.rng.IntN(len(c.wire.waiting)) {
		if err := c.receive(); err != nil {
			return create, err
		}
	}
	c.wire.nc.Close()
	return create, nil
}

var errSessionGone = errors.New("the session is gone")

// resume reconnects, and finds out the outcome of a create that was in doubt.
func (c *replayClient) resume(create asked) error {
	old := c.wire
	c.wire = &wire{}
	resp, err := c.wire.connect(c.run.addr, &zkproto.ConnectRequest{
		LastZxidSeen: c.seen, Timeout: 3600_000, SessionID: old.session, Passwd: c.passwd, HasReadOnly: true})
	switch {
	case err != nil:
		return fmt.Errorf("connect again: %w", err)
	case resp.Timeout <= 0:
		c.wire.nc.Close()
		c.wire = old
		return errSessionGone
	}
	c.wires = append(c.wires, c.wire)
	c.resumed++
	var again zkproto.SetWatchesRequest
	again.RelativeZxid = c.seen
	for k := range c.armed {
		if k.kind == watchData {
			again.Data = append(again.Data, k.path)
		} else {
			again.Child = append(again.Child, k.path)
		}
	}
	for path := range c.absent {
		again.Exist = append(again.Exist, path)
	}
	if err := c.ask(asked{op: zkproto.OpSetWatches, watches: again}); err != nil {
		return err
	}
	inDoubt := slices.ContainsFunc(old.waiting, func(a asked) bool { return a.op == zkproto.OpCreate })
	if !inDoubt {
		return nil
	}
	c.inDoubt++
	path := create.write.Path
	if err := c.ask(reads(zkproto.OpExists, path)); err != nil {
		return err
	}
	if a := c.wire.replies[len(c.wire.replies)-1]; a.code == zkproto.CodeOK {
		c.found = append(c.found, found{zxid: a.stat.Czxid, session: old.session, write: create.write})
		return c.ask(asked{op: zkproto.OpDelete, write: zkproto.MultiOp{Op: zkproto.OpDelete, Path: path, Version: -1}})
	}
	return nil
}

// closeUnheard closes the session without waiting for the answer.
func (c *replayClient) closeUnheard() error {
	if err := c.send(append(c.some(c.randomRead), asked{op: zkproto.OpCloseSession})); err != nil {
		return err
	}
	c.wire.nc.Close()
	if err := c.resume(asked{}); err != errSessionGone {
		return err
	}
	return c.findEnd()
}

// beExpired makes the server end the session while requests are in flight.
func (c *replayClient) beExpired() error {
	if err := c.send(c.some(c.randomRead)); err != nil {
		return err
	}
	if !c.run.expire(c.wire.session) {
		return errSessionGone
	}
	c.expired++
	if err := c.drain(); err != nil {
		return err
	}
	return c.findEnd()
}

// findEnd begins a new session and finds the zxid at which the former one ended: the last change below
// its directory.
func (c *replayClient) findEnd() error {
	old := c.wire
	if err := c.begin(); err != nil {
		return err
	}
	if err := c.ask(reads(zkproto.OpExists, own(old.session))); err != nil {
		return err
	}
	stat := c.wire.replies[len(c.wire.replies)-1].stat
	c.found = append(c.found, found{zxid: stat.Pzxid, session: old.session, wire: old})
	return c.ask(asked{op: zkproto.OpDelete, write: zkproto.MultiOp{Op: zkproto.OpDelete, Path: own(old.session), Version: -1}})
}
