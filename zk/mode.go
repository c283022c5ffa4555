package zk

import (
	"bytes"

	"holdfast/zkproto"
)

// An ensembleMode says whether the server of a connection is alone. LeaseAuto asks on every
// connection: a server that was alone may come back as a member of an ensemble, with its
// sessions. Until the answer comes, we assume an ensemble.
type ensembleMode uint8

const (
	modeUnknown ensembleMode = iota
	modeEnsemble
	modeAlone
)

// configNode is where an ensemble describes itself. A server alone keeps it empty.
const configNode = "/zookeeper/config"

// askMode queues the question for the present connection, if it is to be asked. mu must be
// held, and there must be a connection.
func (s *Session) askMode() {
	if s.client.cfg.Lease != LeaseAuto {
		return
	}
	r := newRequest(zkproto.OpGetData, configNode, &zkproto.ReadRequest{Path: configNode}, new(dataReply))
	r.asksMode = true
	s.conn.asked = true
	s.queue = append(s.queue, r)
	s.conn.wakeWriter()
}

// toldMode takes note of the answer to askMode. It is called by the reader. If the node
// cannot be read, an ensemble is assumed. If the server has too much to do, it is asked again
// with the next heartbeat.
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

// mode is that of the server of the present connection. Called with mu held.
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
