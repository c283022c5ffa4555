package queue

import (
	"strings"
	"time"

	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// A Place is our node in a queue, or the node of a lock without one. It belongs to one session and
// never to another. Until a tenure begins, one goroutine uses it at a time. The goroutines of a tenure
// use it together: one takes the watch, one at a time removes the node, and the others only read.
//
// The exported fields describe the node to be made. [Place.Wait] makes a node that queues. Callers
// that make one in another way call Sending before the request, Sent after it, and Created or Find
// once the node is there.
type Place struct {
	Queue   *Queue
	Session *zk.Session
	Dir     string // the node above; "" is the root
	names.Attempt
	Exact  bool // the prefix is the whole name
	Shared bool // a reader, or a permit; shared lists (sharing, shares, share) are something else
	Data   []byte
	Next   func()            // called by Wait once, when only one node is ahead; nil: nobody wants to know. See watchFar
	Reads  func(data []byte) // called by the tenure with the data of our node, whenever it has read them; nil: likewise
	Token  int64             // the fencing token: the czxid, unless the tenure is older than the node

	path  string        // "" until it is known
	asked time.Time     // when the last request was sent that makes the node
	took  time.Duration // from then until we learned that the node exists
	ctime int64         // of the node, by the server's clock, in milliseconds
	czxid int64         // of the node; tells it from another of the same name
	doubt bool          // a create was sent, and its outcome is not known

	// Of a place that waits:
	onlyKind  bool        // its first list has shown that no other kind of lock has the name
	long      bool        // the queue was seen to be long, so holders leave watermarks
	seen      []zk.Result // of Queue.Beside, if nobody was ahead then
	ahead     names.Ahead
	watches   watches
	lease     *zk.Lease      // of the next in line, see prepare
	heard     *moment        // of the server's clock, see hear; nil: only that of our node
	watermark chan directory // of a holder that is to leave one; holds one answer once that is there
	arrival   *Arrival       // of a place that makes room for others, see WaitAs; else nil
	sharing
}

// Name is the name of our node, "" if there is none.
func (p *Place) Name() string { return p.path[strings.LastIndexByte(p.path, '/')+1:] }

// Path is the path of our node, "" if there is none.
func (p *Place) Path() string { return p.path }

// Czxid is that of our node. It tells the node from another of the same name.
func (p *Place) Czxid() int64 { return p.czxid }

func (p *Place) node(name string) string { return p.Dir + "/" + name }

// Ctime is when our node was made, by the server's clock, in milliseconds.
func (p *Place) Ctime() int64 { return p.ctime }

// At converts a time to the server's clock, in milliseconds. It assumes that the server made our node when we asked.
func (p *Place) At(t time.Time) int64 { return p.ctime + t.Sub(p.asked).Milliseconds() }

// Joined is when we learned that our node exists, by our clock.
func (p *Place) Joined() time.Time { return p.asked.Add(p.took) }

// Sending notes that a request is about to be sent that makes the node. Until Sent, the node may exist.
func (p *Place) Sending() { p.asked, p.doubt = time.Now(), true }

// Sent notes how the request ended. Leave looks for the node if it may have been made.
func (p *Place) Sent(mayExist bool) { p.doubt = mayExist }

// Created notes what our node has become.
func (p *Place) Created(path string, stat zk.Stat) {
	p.Named(path)
	p.czxid, p.Token, p.doubt = stat.Czxid, stat.Czxid, false
	p.ctime, p.took = stat.Ctime, time.Since(p.asked)
}

// Named notes the path of our node. Its Stat is not known yet, so Created has to follow.
func (p *Place) Named(path string) {
	p.path = path
	if name := p.Name(); strings.HasPrefix(name, p.Prefix) {
		p.Prefix = name[:len(p.Prefix)] // one string instead of two, as long as we wait
	}
}

// Seen returns the results of the Queue's Beside if they are from the time of the place: nobody was ahead when
// the server read them. Otherwise it returns nil.
func (p *Place) Seen() []zk.Result { return p.seen }

// WaitedFor is the path of the node that the place has waited for last, "" if it has waited for none.
func (p *Place) WaitedFor() string {
	if p.watches.name == "" {
		return ""
	}
	return p.node(p.watches.name)
}
