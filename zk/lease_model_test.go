package zk

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// A leaseModel is a client with one session at an ensembleModel. It idles, writes, takes leases like
// Session.Lease, keeps them alive with probes, and reconnects.
type leaseModel struct {
	m       *ensembleModel
	proof   quorumProof
	conn    *modelConn // nil while disconnected
	server  *modelServer
	pending int    // writes without an answer
	drained func() // called when none are left; new writes wait until then
	leased  bool
	warm    time.Time // probes go on until then though nothing is leased

	leases    map[opening]int // leases granted, by the steps before them
	attaches  int
	deposed   int
	deceptive int // answered writes that would have been wrong as a proof
}

func newLeaseModel(m *ensembleModel) *leaseModel {
	c := &leaseModel{m: m, leases: make(map[opening]int)}
	c.proof.tick = m.tick
	c.proof.created(m.now)
	c.server = m.servers[m.rng.IntN(len(m.servers))]
	c.connected(m.connect(c.server))
	c.idle()
	c.beat()
	return c
}

// connected begins to use a connection.
func (c *leaseModel) connected(conn *modelConn) {
	c.conn, c.pending, c.drained = conn, 0, nil
	conn.hungUp = func() { c.lost(conn) }
}

// lost ends the connection and tries another server after a while.
func (c *leaseModel) lost(conn *modelConn) {
	if c.conn != conn {
		return
	}
	conn.closed, c.conn = true, nil
	c.m.after(c.m.upTo(c.m.timeout/10), func() {
		c.server = c.m.servers[c.m.rng.IntN(len(c.m.servers))]
		c.attach(func() {})
	})
}

// attach resumes the session at c.server or at another server, then calls then.
func (c *leaseModel) attach(then func()) {
	sent := c.m.now
	conn := c.m.connect(c.server)
	retry := func() {
		c.server = c.m.servers[c.m.rng.IntN(len(c.m.servers))]
		c.m.after(c.m.upTo(c.m.timeout/20)+1, func() { c.attach(then) })
	}
	if conn == nil {
		retry()
		return
	}
	done := false
	give := func() {
		if !done {
			done, conn.closed = true, true
			retry()
		}
	}
	conn.hungUp = give
	c.m.after(c.m.timeout/5, give)
	conn.attach(func() {
		if done {
			return
		}
		done = true
		c.attaches++
		c.connected(conn)
		c.proof.resumed(sent)
		then()
	})
}

// write sends a write and calls then when it is answered. It does nothing without a connection, and
// while writes are held back.
func (c *leaseModel) write(then func()) {
	conn, sent := c.conn, c.m.now
	if conn == nil || c.drained != nil {
		return
	}
	c.pending++
	answered := false
	c.m.after(c.m.timeout*2/5, func() { // nothing was heard for so long
		if !answered {
			c.lost(conn)
		}
	})
	conn.write(func() {
		if answered = true; c.conn != conn {
			return
		}
		c.pending--
		c.proof.committed(sent, c.m.now)
		if sent.After(c.m.reign.touched) {
			c.deceptive++
		}
		then()
		if c.pending == 0 && c.drained != nil {
			c.drained()
		}
	})
}

// beat pings the server, and probes while there is a lease or was one a moment ago.
func (c *leaseModel) beat() {
	if c.conn != nil {
		c.conn.ping(func() {})
		probes := c.leased || c.m.now.Before(c.warm)
		if probes && c.pending == 0 {
			c.write(func() {})
		}
	}
	c.m.after(c.m.upTo(probeEvery(c.m.tick, c.m.timeout))+c.m.timeout/50, c.beat)
}

// idle lets some time pass. Then the client writes, locks, or loses its connection.
func (c *leaseModel) idle() {
	pause := c.m.upTo(c.m.timeout / 10)
	if c.m.rng.IntN(3) == 0 {
		pause = c.m.upTo(c.m.timeout * 3 / 2)
	}
	c.m.after(pause, func() {
		switch c.m.rng.IntN(8) {
		case 0:
			if c.conn != nil {
				c.lost(c.conn)
			}
		case 1, 2, 3:
			c.write(func() {})
		default:
			c.lock()
			return
		}
		c.idle()
	})
}

// lock makes the node of a lock, and takes a lease for it.
func (c *leaseModel) lock() {
	if c.conn == nil || c.drained != nil {
		c.idle()
		return
	}
	gaveUp, done := false, false
	c.m.after(c.m.upTo(c.m.timeout), func() {
		if !done {
			gaveUp = true
			c.idle()
		}
	})
	lease := func() {
		c.lease(proven, func() bool { return gaveUp }, func() {
			done = true
			c.m.after(c.m.upTo(2*c.m.timeout), func() {
				c.leased = false
				c.warm = c.m.now
				if c.m.rng.IntN(2) == 0 {
					c.warm = c.m.now.Add(c.m.timeout)
				}
				c.idle()
			})
		})
	}
	if c.m.rng.IntN(4) == 0 { // a lock that waited for its turn wrote long ago
		lease()
	} else {
		c.write(lease)
	}
}

// lease models Session.Lease. worst is the largest number of steps that it has needed so far.
func (c *leaseModel) lease(worst opening, gaveUp func() bool, granted func()) {
	if gaveUp() || c.conn == nil || c.drained != nil {
		return // lock gives up after a while
	}
	confirm := func() { c.write(func() { c.lease(max(worst, unconfirmed), gaveUp, granted) }) }
	switch c.proof.opening(c.m.now, c.m.timeout, c.m.now.Before(c.warm) || worst == stale) {
	case proven:
		c.leased = true
		c.leases[worst]++
		granted()
	case unconfirmed:
		confirm()
	case stale:
		worst = stale
		again := func() {
			c.conn.closed, c.conn, c.drained = true, nil, nil
			c.attach(confirm)
		}
		if c.pending == 0 {
			again()
		} else {
			c.drained = again
		}
	}
}

// deadline returns the session's deadline with a lease.
func (c *leaseModel) deadline() time.Time { return deadlineFrom(c.proof.touched, c.m.timeout) }

// check returns the violations at this moment.
func (c *leaseModel) check() error {
	m := c.m
	switch {
	case c.proof.touched.After(m.reign.touched):
		return fmt.Errorf("the proof dates the leader's last touch of the session %v too late", c.proof.touched.Sub(m.reign.touched))
	case c.leased && m.gone && m.now.Before(c.deadline()):
		return fmt.Errorf("the leader has expired the session, but the lease lasts for another %v", c.deadline().Sub(m.now))
	}
	return nil
}

// torment holds links up at random and deposes leaders, from now on.
func (c *leaseModel) torment() {
	m := c.m
	links := func() [4]*modelLink {
		s := c.server
		if m.rng.IntN(3) == 0 {
			s = m.servers[m.rng.IntN(len(m.servers))]
		}
		all := [4]*modelLink{s.up, s.down, s.up, s.down}
		if c.conn != nil {
			all[2], all[3] = c.conn.up, c.conn.down
		}
		return all
	}
	switch m.rng.IntN(12) {
	case 0:
		if m.settled() {
			c.deposed++
			m.depose()
		}
	default:
		pair := links()
		i := m.rng.IntN(3)
		if i == 2 {
			i += m.rng.IntN(2)
		}
		link := pair[i]
		link.hold(true)
		other := pair[i^1] // the reverse direction of the same link
		m.after(m.upTo(m.timeout*6/5), func() {
			link.hold(false)
			if m.rng.IntN(2) == 0 {
				other.hold(true)
				m.after(m.upTo(m.timeout*6/5), func() { other.hold(false) })
			}
		})
	}
	m.after(m.upTo(m.timeout*3/2), c.torment)
}

// FuzzProofIsNeverAheadOfTheLeader runs random histories of an ensemble and a client. The
// client's proof is never later than the leader's last touch of the session, and no lease
// outlasts the session.
func FuzzProofIsNeverAheadOfTheLeader(f *testing.F) {
	for seed := range uint64(400) {
		f.Add(seed)
	}
	leases := make(map[opening]int)
	histories, attaches, deposed, deceptive, expired := 0, 0, 0, 0, 0
	f.Fuzz(func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 1))
		tick := 200*time.Millisecond + time.Duration(rng.Int64N(int64(1800*time.Millisecond)))
		least := smallestTimeout(tick)
		timeout := least + time.Duration(rng.Int64N(int64(2*least)))
		slow := time.Millisecond + time.Duration(rng.Int64N(int64(tick/4)))
		m := newEnsembleModel(rng, 3+2*rng.IntN(2), tick, timeout, slow)
		c := newLeaseModel(m)
		m.after(m.upTo(timeout), c.torment)
		start := m.now
		for m.now.Sub(start) < 30*timeout && m.step() {
			if err := c.check(); err != nil {
				t.Fatalf("%v after the start, with %d servers, a tick of %v, a timeout of %v: %v", m.now.Sub(start), len(m.servers), tick, timeout, err)
			}
			if c.leased && !m.now.Before(c.deadline()) || m.gone && !c.leased {
				break // the client's session is over
			}
		}
		histories++
		for o, n := range c.leases {
			leases[o] += n
		}
		attaches, deposed, deceptive = attaches+c.attaches, deposed+c.deposed, deceptive+c.deceptive
		if m.gone {
			expired++
		}
	})
	f.Cleanup(func() {
		if histories < 100 {
			return // a fuzzing process with few runs, or none
		}
		for _, o := range []opening{proven, unconfirmed, stale} {
			if leases[o] == 0 {
				f.Errorf("no lease was granted by way of opening %d: the test shows nothing", o)
			}
		}
		if deposed == 0 || deceptive == 0 || expired == 0 {
			f.Error("no leader was deposed, no write was deceptive or no session expired: the test shows nothing")
		}
		f.Logf("figure: leases: %d at once, %d after a write, %d after an attach; %d attaches, %d leaders deposed, %d writes that were no proof, %d sessions expired",
			leases[proven], leases[unconfirmed], leases[stale], attaches, deposed, deceptive, expired)
	})
}
