package zkserver

import (
	"fmt"
	"strings"
)

// version is what srvr reports: the release of Apache ZooKeeper whose behaviour this
// server has, in the form that other clients' parsers insist on.
const version = "3.8.4-holdfast, built on 02/12/2024 22:16 GMT"

// otherWords are four-letter words of Apache's server. They are not answered here,
// but recognized, so that who sends one is told.
const otherWords = "conf cons crst dirs dump mntr srst stat wchc wchp wchs"

func isWord(w string) bool {
	return w == "ruok" || w == "srvr" || w == "envi" || w == "isro" || strings.Contains(" "+otherWords+" ", " "+w+" ")
}

// answerWord stages the answer to a four-letter word, without a frame around it.
func (s *Server) answerWord(c *conn, word string) {
	var text string
	switch word {
	case "ruok":
		text = "imok"
	case "srvr":
		text = s.statistics()
	case "envi":
		// kazoo asks it for the version. What Apache's server tells of its machine, besides,
		// is nobody's business.
		text = "Environment:\nzookeeper.version=" + version + "\n"
	case "isro":
		text = "rw"
	default:
		text = word + " is not executed because it is not in the whitelist.\n"
	}
	c.owned.staged = append(s.stage(c), text...)
	s.answered(c)
	s.finish(c)
}

func (s *Server) statistics() string {
	o := &s.owner
	var b strings.Builder
	fmt.Fprintf(&b, "Zookeeper version: %s\n", version)
	fmt.Fprintf(&b, "Latency min/avg/max: 0/0.0/0\n")
	fmt.Fprintf(&b, "Received: %d\nSent: %d\nConnections: %d\nOutstanding: %d\n",
		o.received, s.counters.answered.Load()+o.notifications, len(o.watchers), s.counters.outstanding.Load())
	fmt.Fprintf(&b, "Zxid: 0x%x\nMode: standalone\nNode count: %d\n", uint64(o.zxid), o.tree.Len())
	return b.String()
}
