package chaos_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"holdfast/zkproto"
)

// A way describes how frames of a connection travel in one direction. They stay in order, as with TCP,
// so a delayed frame delays all behind it.
type way struct {
	base   time.Duration // at least
	jitter time.Duration // added to base, on average (exponential)
	loss   float64       // share of frames that are lost and sent again
}

// TCP sends a lost frame again after this time, then after twice as long.
const (
	resendAfter = 200 * time.Millisecond
	resends     = 2
)

// take returns how long one frame takes, and how often it was lost.
func (w way) take(rng *rand.Rand) (d time.Duration, lost int) {
	d = time.Microsecond + w.base + time.Duration(rng.ExpFloat64()*float64(w.jitter))
	for lost < resends && rng.Float64() < w.loss {
		d += resendAfter << lost
		lost++
	}
	return d, lost
}

func (w way) String() string {
	return fmt.Sprintf("%v+%v, %.1f%% lost", w.base.Round(time.Microsecond), w.jitter.Round(time.Microsecond), 100*w.loss)
}

// A region is a client's location, seen from the server. It decides the quality of its connections.
type region int

const (
	near   region = iota // one rack
	far                  // another country; the two directions may differ
	lossy                // a bad network
	behind               // near, but at servers that lag, some more than others
)

func regionOf(rng *rand.Rand) region {
	return []region{near, near, near, near, far, far, lossy, behind, behind}[rng.IntN(9)]
}

func (r region) String() string { return [...]string{"near", "far", "lossy", "behind"}[r] }

// ways draws the properties of a connection. lag is the minimum age of the data that the client
// sees: such a server forwards requests at once, and answers when it has caught up.
func (r region) ways(rng *rand.Rand) (up, down way, lag time.Duration) {
	up.jitter, down.jitter = 700*time.Microsecond, 700*time.Microsecond
	upTo := func(d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }
	switch r {
	case far:
		up.base, down.base = 2*time.Millisecond+upTo(40*time.Millisecond), 2*time.Millisecond+upTo(40*time.Millisecond)
		up.jitter, down.jitter = upTo(10*time.Millisecond), upTo(10*time.Millisecond)
	case lossy:
		up.base, down.base = upTo(5*time.Millisecond), upTo(5*time.Millisecond)
		up.loss, down.loss = 0.03*rng.Float64(), 0.03*rng.Float64()
	case behind:
		lag = upTo(30 * time.Millisecond)
		if rng.IntN(2) == 0 {
			lag = upTo(800 * time.Millisecond)
		}
		down.base = lag
	}
	return up, down, lag
}

// A sighting is the time when the server first reported a zxid.
type sighting struct {
	at   time.Time
	zxid int64
}

// committed records a reply. n.mu must be held.
func (n *network) committed(zxid int64) {
	if len(n.zxids) == 0 || n.zxids[len(n.zxids)-1].zxid < zxid {
		n.zxids = append(n.zxids, sighting{time.Now(), zxid})
	}
}

// welcome reports whether a server with this lag accepts a client. It does not if the client
// has seen more than the server, or the client would go back in time. n.mu must be held.
func (n *network) welcome(frame []byte, lag time.Duration) bool {
	var req zkproto.ConnectRequest
	r := zkproto.NewReader(frame[4:])
	req.Decode(r)
	if r.Err() != nil || lag == 0 {
		return true
	}
	seen := time.Now().Add(-lag)
	for i := len(n.zxids) - 1; i >= 0 && n.zxids[i].zxid >= req.LastZxidSeen; i-- {
		if !n.zxids[i].at.After(seen) {
			return true
		}
	}
	return req.LastZxidSeen == 0
}
