package interop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"holdfast"
	"holdfast/chaos"
	"holdfast/interop/peers"
	"holdfast/zk"
	"holdfast/zkproto"
)

// pick returns one of the processes.
func (c *chaosRun) pick() *chaosProcess {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.processes[rand.IntN(len(c.processes))]
}

// thinker returns a process that has read the store and not written it yet. If none appears, it
// returns any.
func (c *chaosRun) thinker(ctx context.Context, store string) *chaosProcess {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second) // the locks may be idle because of another fault
	defer cancel()
	for ctx.Err() == nil {
		c.mu.Lock()
		processes := slices.Clone(c.processes)
		c.mu.Unlock()
		for _, p := range processes {
			if p.thinksOf(store) {
				return p
			}
		}
		pause(ctx, 200*time.Microsecond)
	}
	return c.pick()
}

func (p *chaosProcess) thinksOf(store string) bool {
	text, err := os.ReadFile(filepath.Join(p.dir, thinkingFile))
	return err == nil && string(text) == store
}

func (c *chaosRun) killProcess(ctx context.Context) (string, error) {
	p := c.pick()
	sessions := len(p.secrets())
	if sessions == 0 {
		return "", errNothingToHurt
	}
	if err := p.proc.Kill(); err != nil {
		return "", err
	}
	p.killed = monotonic()
	p.stdin.Close()
	p.closeProxies()
	c.remove(p)
	return fmt.Sprintf("process %d died with %d sessions", p.number, sessions), c.startProcess()
}

// pauseProcess stops a process for longer than its sessions last, if possible between reading a
// store and writing it.
func (c *chaosRun) pauseProcess(ctx context.Context) (string, error) {
	store := stores[len(c.pauses)%len(stores)] // written only by this sequence of faults
	p := c.thinker(ctx, store)
	from := monotonic()
	if err := p.proc.Signal(syscall.SIGSTOP); err != nil {
		return "", err
	}
	mine := p.secrets()
	if len(mine) == 0 {
		return "", errors.Join(errNothingToHurt, p.proc.Signal(syscall.SIGCONT))
	}
	// The server has removed the sessions when it refuses to resume one. Asking touches a
	// session, so ask once, and late.
	pause(ctx, chaosTimeout+4*chaosTick)
	met := p.thinksOf(store)
	err := p.proc.Signal(syscall.SIGCONT)
	c.mu.Lock()
	c.pauses = append(c.pauses, chaosPause{p.number, from, monotonic()})
	if met {
		c.met[store]++
	}
	c.mu.Unlock()
	if err != nil {
		return "", err
	}
	err = until(ctx, "its sessions end", func() bool {
		for _, s := range p.secrets() {
			for _, old := range mine {
				if s.ID == old.ID {
					return false
				}
			}
		}
		return true
	})
	effect := fmt.Sprintf("process %d lost %d sessions", p.number, len(mine))
	if met {
		effect += ", and had read the " + store + " store"
	}
	return effect, err
}

// cutProcess separates a process from all servers until its sessions have ended.
func (c *chaosRun) cutProcess(ctx context.Context, up, down bool) (string, error) {
	p := c.pick()
	for _, proxy := range p.proxies {
		proxy.Cut(up, down)
	}
	// Some cuts outlast the sessions, some end in time.
	pause(ctx, chaosTimeout/4+rand.N(chaosTimeout))
	lost := func() int {
		frames := -p.frames
		for _, proxy := range p.proxies {
			_, n := proxy.Lost()
			frames += n
		}
		return frames
	}
	// Servers that another fault keeps silent send nothing that could be lost.
	err := until(ctx, "something is lost", func() bool { return lost() > 0 })
	for _, proxy := range p.proxies {
		proxy.Cut(false, false)
	}
	frames := lost()
	p.frames += frames
	return fmt.Sprintf("process %d: %d frames lost", p.number, frames), err
}

// secrets returns the sessions of a process that are connected now.
func (p *chaosProcess) secrets() []peers.SessionSecret {
	var all []peers.SessionSecret
	for _, proxy := range p.proxies {
		all = append(all, proxy.Sessions()...)
	}
	return all
}

func (c *chaosRun) sever(context.Context) (string, error) {
	p, n := c.pick(), 0
	for _, proxy := range p.proxies {
		n += proxy.Sever()
	}
	if n == 0 {
		return "", errNothingToHurt
	}
	return fmt.Sprintf("process %d: %d connections", p.number, n), nil
}

func (c *chaosRun) loseWrite(ctx context.Context) (string, error) {
	p := c.pick()
	for _, proxy := range p.proxies {
		if len(proxy.Sessions()) == 0 {
			continue
		}
		before, _ := proxy.Lost()
		proxy.LoseWrite()
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		err := until(ctx, "a write", func() bool { n, _ := proxy.Lost(); return n > before })
		if err != nil {
			return "", errNothingToHurt // nobody writes: another fault is active
		}
		return fmt.Sprintf("process %d", p.number), nil
	}
	return "", errNothingToHurt
}

// expire ends a session as its owner could, by its secret.
func (c *chaosRun) expire(ctx context.Context) (string, error) {
	secrets := c.pick().secrets()
	if len(secrets) == 0 {
		return "", errNothingToHurt
	}
	s := secrets[rand.IntN(len(secrets))]
	addr := c.z.Addrs()[rand.IntN(3)]
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	call := monotonic()
	attached, err := closeSession(ctx, addr, s)
	if attached {
		c.took(call, chaos.Op{Session: s.ID})
	}
	if err != nil {
		return "", errNothingToHurt // the server is down, or the session over
	}
	return fmt.Sprintf("session 0x%x closed", uint64(s.ID)), nil
}

// closeSession attaches to a session and closes it.
func closeSession(ctx context.Context, addr string, s peers.SessionSecret) (attached bool, err error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	conn.SetDeadline(deadline)
	raw := &rawConn{conn: conn, in: bufio.NewReader(conn)}
	connect := zkproto.ConnectRequest{
		Timeout: int32(chaosTimeout.Milliseconds()), SessionID: s.ID, Passwd: s.Passwd, HasReadOnly: true,
	}
	if err := raw.write(connect.Append(zkproto.BeginFrame(nil))); err != nil {
		return false, err
	}
	body, err := zkproto.ReadFrame(raw.in, nil, zkproto.MaxFrame)
	if err != nil {
		return false, err
	}
	var connected zkproto.ConnectResponse
	connected.Decode(zkproto.NewReader(body))
	if connected.SessionID != s.ID {
		return false, errors.New("the session is over")
	}
	header, _, err := raw.call(zkproto.OpCloseSession, empty{})
	if err == nil && header.Err != zkproto.CodeOK {
		err = header.Err
	}
	return true, err
}

// empty is a message without fields.
type empty struct{}

func (empty) Append(b []byte) []byte { return b }

// deletePlace deletes the node of a holder or of a waiter.
func (c *chaosRun) deletePlace(ctx context.Context, held bool) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for ctx.Err() == nil {
		path := chaosPlace()
		entries, err := holdfast.List(ctx, c.admin, path)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if e.Held != held {
				continue
			}
			call := monotonic()
			err := c.admin.Delete(ctx, e.Path, zk.AnyVersion)
			switch {
			case err != nil && !zk.MayHaveHappened(err):
			case e.Path == path: // a NodeLock, whose node always has the same name
				c.deletedNode(path, call)
			case isSlots(path): // the next holder's node has the same name
				c.took(call, chaos.Op{Lock: path, Token: e.Token})
			default:
				// A permit is one of several with one token; the path is the first one's.
				c.took(call, chaos.Op{Lock: path, Token: e.Token})
				c.took(call, chaos.Op{Lock: path, Node: e.Path})
			}
			if err != nil {
				break // it went by itself, or another fault is active
			}
			return strings.TrimPrefix(e.Path, "/chaos/"), nil
		}
	}
	return "", errNothingToHurt
}

// deleteParent deletes a lock's directory with everything in it, whoever holds the lock.
func (c *chaosRun) deleteParent(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for ctx.Err() == nil {
		path := chaosPath([]string{"mutex", "rw", "election"}[rand.IntN(3)], rand.IntN(chaosLocks))
		names, _, err := c.admin.Children(ctx, path)
		if err != nil || len(names) == 0 {
			continue
		}
		var ops []zk.Op
		for _, name := range names {
			ops = append(ops, zk.DeleteOp(path+"/"+name, zk.AnyVersion))
		}
		// It takes one transaction, since new nodes would always appear otherwise.
		call := monotonic()
		_, err = c.admin.Multi(ctx, append(ops, zk.DeleteOp(path, zk.AnyVersion))...)
		if err == nil || zk.MayHaveHappened(err) {
			for _, name := range names {
				c.took(call, chaos.Op{Lock: path, Node: path + "/" + name})
			}
		}
		if err == nil {
			return fmt.Sprintf("%s with %d places", strings.TrimPrefix(path, "/chaos/"), len(names)), nil
		}
	}
	return "", errNothingToHurt
}
