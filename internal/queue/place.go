package queue

import (
	"time"

	"holdfast/internal/queue/names"
	"holdfast/zk"
)

type Place struct {
	Queue   *Queue
	Session *zk.Session
	Dir     string // the node above; "" is the root
	names.Attempt
	Exact  bool // the prefix is the whole name
	Shared bool // a reader, or a permit
	Data   []byte
	Token  int64 // the fencing token: the czxid, unless the tenure is older than the node

	name  string    // "" until it is known
	doubt bool      // a create was sent, and its outcome is not known
	asked time.Time // when the create was sent that has made the node, or may have
	ctime int64     // of the node, by the server's clock, in milliseconds
	czxid int64     // of the node; tells it from another of the same name

	// Of a place that waits:
	joined    time.Time
	onlyKind  bool // its first list has shown that no other kind of lock has the name
	ahead     names.Ahead
	watches   watches
	lease     *zk.Lease      // of the next in line, see prepare
	long      bool           // the queue was seen to be long, so holders leave watermarks
	watermark chan directory // of a holder that is to leave one; holds one answer once that is there
	sharing
}

func (p *Place) Name() string { return p.name }

func (p *Place) Path() string { return p.node(p.name) }

func (p *Place) Czxid() int64 { return p.czxid }

func (p *Place) node(name string) string { return p.Dir + "/" + name }

func (p *Place) At(t time.Time) int64 { return p.ctime + t.Sub(p.asked).Milliseconds() }

func (p *Place) Sending() { p.asked = time.Now() }

func (p *Place) Sent(mayExist bool) { p.doubt = mayExist }

func (p *Place) Created(name string, stat zk.Stat) {
	p.name, p.czxid, p.Token, p.doubt = name, stat.Czxid, stat.Czxid, false
	p.ctime, p.joined = stat.Ctime, time.Now()
}

func (p *Place) Named(name string) { p.name = name }

func (p *Place) WaitedFor() string {
	if p.watches.name == "" {
		return ""
	}
	return p.node(p.watches.name)
}
