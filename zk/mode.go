package zk

import (
	"bytes"

	"holdfast/zkproto"
)

// An ensembleMode says whether the server of a connection is alone. With LeaseAuto, the client
// asks on every connection: a server that was alone may come back as a member of an ensemble,
// with its sessions. Until the answer comes, only the proofs for an ensemble count, and Lease waits. If it does not
// come soon, probe assumes an ensemble.
type ensembleMode uint8

const (
	modeUnknown ensembleMode = iota
	modeEnsemble
	modeAlone
)

// configNode is the node in which an ensemble lists its servers. On a server alone it is empty.
const configNode = "/zookeeper/config"

// askMode queues a read of configNode for the current connection, if the client needs to know.
// There must be a connection. mu must be held.
func (s *Session) askMode() {
	if s.client.cfg.Lease != LeaseAuto {
		return
	}
	if s.modeHidden {
		s.conn.mode, s.conn.asked = modeEnsemble, true
		close(s.modeKnown)
		return
	}
	r := newRequest(zkproto.OpGetData, configNode, &zkproto.ReadRequest{Path: configNode}, new(dataReply))
	r.asksMode = true
	s.conn.asked = true
	s.queue = append(s.queue, r)
	s.conn.wakeWriter()
}

// toldMode records the answer to askMode. The reader calls it. If the node is unreadable, we
// assume an ensemble. If the server is throttling, the next heartbeat asks again.
func (c *conn) toldMode(req *request, code zkproto.Code) {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case code == zkproto.CodeThrottled:
		c.asked = false
		return
	case code == zkproto.CodeOK && !bytes.Contains(req.reply.(*dataReply).Data, []byte("server.")):
		c.mode = modeAlone
		s.proof.touch(req.sent)
	default:
		c.mode = modeEnsemble
	}
	close(s.modeKnown)
	c.wakeHeart() // there may be something to probe for
}

// mode returns the mode of the current connection's server. mu must be held.
func (s *Session) mode() ensembleMode {
	switch {
	case s.client.cfg.Lease == LeasePing:
		return modeAlone
	case s.client.cfg.Lease == LeaseQuorum:
		return modeEnsemble
	case s.conn == nil:
		return modeUnknown
	}
	return s.conn.mode
}
