package zkserver

import (
	"cmp"
	"io/fs"
	"net"
	"path/filepath"
	"slices"
	"time"
)

// The four-letter words about the server and its connections, as Apache's server has them.

// connected lists the connections with a session, by age.
func (s *Server) connected() []*conn {
	var conns []*conn
	for _, c := range s.owner.watchers {
		if c.owned.session != nil { // otherwise it is ending
			conns = append(conns, c)
		}
	}
	slices.SortFunc(conns, func(a, b *conn) int { return cmp.Compare(a.id, b.id) })
	return conns
}

func (s *Server) wordSrvr(w *wordAnswer) { s.wordStat(w, nil) }

// wordStat is wordSrvr with the connections: those with a session, and the one that asks for them.
func (s *Server) wordStat(w *wordAnswer, asks *conn) {
	o, n := &s.owner, &s.counters
	w.print("Zookeeper version: ", version, "\n")
	if asks != nil {
		w.print("Clients:\n")
		s.printConns(w, asks, true)
	}
	least, mean, most := n.sinceReset.milliseconds()
	w.printf("Latency min/avg/max: %d/%.1f/%d\n", least, mean, most)
	w.printf("Received: %d\nSent: %d\nConnections: %d\nOutstanding: %d\n",
		o.received-o.resetReceived, s.packetsSent()-o.resetSent, n.connections.Load(), n.outstanding.Load())
	w.printf("Zxid: 0x%x\nMode: standalone\nNode count: %d\n", uint64(o.zxid), o.tree.Len())
}

// packetsSent returns the number of sent answers and notifications.
func (s *Server) packetsSent() int64 { return s.counters.answered.Load() + s.owner.notifications }

func (s *Server) wordSrst(w *wordAnswer) {
	o := &s.owner
	o.resetReceived, o.resetSent = o.received, s.packetsSent()
	s.counters.sinceReset.reset()
	w.print("Server stats reset.\n")
}

func (s *Server) wordCons(w *wordAnswer, r *request) { s.printConns(w, r.conn, false) }

func (s *Server) printConns(w *wordAnswer, asks *conn, brief bool) {
	// Apache's server counts the word as received.
	w.printf(" %s[0](queued=0,recved=1,sent=0)\n", remote(asks.nc))
	for _, c := range s.connected() {
		if w.full() {
			break
		}
		s.printConn(w, c, brief)
	}
	w.print("\n")
}

func (s *Server) wordCrst(w *wordAnswer) {
	for _, c := range s.owner.watchers {
		c.owned.received, c.owned.sent = 0, 0
		c.latency.reset()
	}
	w.print("Connection stats reset.\n")
}

// printConn prints the line of Apache's dumpConnectionInfo. The interest operations of a socket have
// no counterpart in Go.
func (s *Server) printConn(w *wordAnswer, c *conn, brief bool) {
	o, l := &c.owned, &c.latency
	w.printf(" %s[0](queued=%d,recved=%d,sent=%d", remote(c.nc), o.answers, o.received, o.sent)
	if !brief {
		least, mean, most := l.milliseconds()
		w.printf(",sid=0x%x,lop=%s,est=%d,to=%d,lcxid=0x%x,lzxid=0x%x,lresp=%d,llat=%d,minlat=%d,avglat=%d,maxlat=%d",
			o.session.id, cmp.Or(operations[o.lastOp].name, "NA"), o.attached.UnixMilli(), o.session.timeout.Milliseconds(),
			uint32(o.lastXid), uint64(s.owner.zxid), o.session.touched.UnixMilli(), l.last.Load()/1e6, least, int64(mean), most)
	}
	w.print(")\n")
}

func (s *Server) wordMntr(w *wordAnswer, r *request) {
	o, n := &s.owner, &s.counters
	least, mean, most := n.sinceReset.milliseconds()
	w.printf("zk_version\t%s\nzk_server_state\tstandalone\n", version)
	w.printf("zk_min_latency\t%d\nzk_avg_latency\t%.1f\nzk_max_latency\t%d\n", least, mean, most)
	rows := []struct {
		key   string
		value int64
	}{
		{"packets_received", o.received - o.resetReceived}, {"packets_sent", s.packetsSent() - o.resetSent},
		{"num_alive_connections", n.connections.Load()}, {"outstanding_requests", n.outstanding.Load()},
		{"znode_count", int64(o.tree.Len())}, {"watch_count", int64(o.tree.WatchCount())},
		{"ephemerals_count", int64(o.tree.EphemeralCount())}, {"approximate_data_size", o.tree.DataBytes()},
		{"global_sessions", int64(len(o.sessions))}, {"local_sessions", 0},
		{"open_file_descriptor_count", r.files}, {"max_file_descriptor_count", r.maxFiles},
		{"uptime", time.Since(s.opened).Milliseconds()}, {"stale_sessions_expired", n.expired.Load()},
		{"connection_rejected", n.of(LimitConnections).count.Load() + n.of(LimitPerAddress).count.Load() + n.of(LimitConnectRate).count.Load()},
		{"large_requests_rejected", n.of(LimitFrame).count.Load()},
	}
	for _, row := range rows {
		if row.value >= 0 { // negative: unknown on this system
			w.printf("zk_%s\t%d\n", row.key, row.value)
		}
	}
}

func (s *Server) wordConf(w *wordAnswer, r *request) {
	port := 0
	if tcp, ok := r.conn.nc.LocalAddr().(*net.TCPAddr); ok {
		port = tcp.Port
	}
	w.printf("clientPort=%d\nsecureClientPort=-1\n", port)
	w.printf("dataDir=%[1]s\ndataDirSize=%[2]d\ndataLogDir=%[1]s\ndataLogSize=%[2]d\n", s.cfg.Dir, r.disk)
	w.printf("tickTime=%d\nmaxClientCnxns=%d\nminSessionTimeout=%d\nmaxSessionTimeout=%d\nclientPortListenBacklog=-1\nserverId=0\n",
		s.cfg.TickTime.Milliseconds(), s.limits().ConnectionsPerAddress, s.cfg.MinSessionTimeout.Milliseconds(), s.cfg.MaxSessionTimeout.Milliseconds())
}

// dirSize returns the length of all files below dir; 0 for a server in memory.
func dirSize(dir string) (size int64) {
	if dir == "" {
		return 0
	}
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil { // the file may have been removed
				size += info.Size()
			}
		}
		return nil
	})
	return size
}
