package chaos_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"holdfast/zkproto"
)

// A way is how frames of one connection travel in one direction. They stay in order, as
// those of TCP do, so what one takes too long for, all behind it take.
type way struct {
	base   time.Duration // at least
	jitter time.Duration // what comes on top of that, in the mean (exponential)
	loss   float64       // how many are lost, and sent again
}

// TCP sends again what was lost after this time, then after twice as long.
const (
	resendAfter = 200 * time.Millisecond
	resends     = 2
)

// take is how long one frame takes, and how often it was lost.
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

// A region is where a client is, seen from the server: it decides what its connections
// are like.
type region int

const (
	near   region = iota // one rack
	far                  // another country; the two directions need not be alike
	lossy                // a bad network
	behind               // near, but at servers that follow the others late, some more than others
)

func regionOf(rng *rand.Rand) region {
	return []region{near, near, near, near, far, far, lossy, behind, behind}[rng.IntN(9)]
}

func (r region) String() string { return [...]string{"near", "far", "lossy", "behind"}[r] }

// ways draws what a connection is like. lag is how old what the client is shown is at
// least: such a server forwards requests at once, and answers when it has followed.
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

// A sighting is when the server first told of a zxid.
type sighting struct {
	at   time.Time
	zxid int64
}

// committed takes note of a reply. Called with mu held.
func (n *network) committed(zxid int64) {
	if len(n.zxids) == 0 || n.zxids[len(n.zxids)-1].zxid < zxid {
		n.zxids = append(n.zxids, sighting{time.Now(), zxid})
	}
}

// welcome says whether a server that is lag behind takes a client: not one that has seen
// what this server has not, or it would go back in time. Called with mu held.
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
