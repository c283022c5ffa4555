package admin

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	"holdfast/zk"
	"holdfast/zk/internal/raw"
	"holdfast/zkproto"
)

// An Ensemble is the list of servers in /zookeeper/config. On a single server it has no members.
type Ensemble struct {
	Members []Member // in the server's order
	Version int64    // the zxid of the last reconfiguration; 0 if the list is that of the configuration files
}

// A Member is one server of an Ensemble.
type Member struct {
	ID       int64
	Peers    string // where the other servers reach it, "host:2888:3888"; several are separated by |
	Observer bool   // it has no vote
	Client   string // where clients reach it, "host:port"; "" if the ensemble does not list it
}

// configNode is the node in which an ensemble lists its servers. On a server alone it is empty.
const configNode = "/zookeeper/config"

// Config reads the ensemble's list of servers, whatever the chroot is.
//
// Needs ZooKeeper 3.5.
func Config(ctx context.Context, c Caller) (Ensemble, zk.Stat, error) {
	e, stat, _, err := config(ctx, c, false)
	return e, stat, err
}

// ConfigW is Config, and a watch for the next change.
func ConfigW(ctx context.Context, c Caller) (Ensemble, zk.Stat, *zk.Watch, error) {
	return config(ctx, c, true)
}

func config(ctx context.Context, c Caller, watch bool) (Ensemble, zk.Stat, *zk.Watch, error) {
	var reply dataReply
	w, err := c.Raw(ctx, raw.Request{
		Op: zkproto.OpGetData, Path: configNode, Reply: &reply,
		Body: &zkproto.ReadRequest{Path: configNode, Watch: watch}, Watch: watch,
	})
	e, stat, err := ensembleOf(zkproto.OpGetData, configNode, reply, err)
	if err != nil && w != nil {
		w.Stop()
		w = nil
	}
	return e, stat, w, err
}

// dataReply copies the data, because the connection reuses its buffer.
type dataReply struct{ zkproto.GetDataResponse }

func (d *dataReply) Decode(r *zkproto.Reader) {
	d.GetDataResponse.Decode(r)
	d.Data = bytes.Clone(d.Data)
}

// ensembleOf returns the answer to a request that ended with err.
func ensembleOf(op zkproto.Op, path string, reply dataReply, err error) (Ensemble, zk.Stat, error) {
	if err != nil {
		return Ensemble{}, zk.Stat{}, err
	}
	e, err := parseEnsemble(string(reply.Data))
	if err != nil {
		return Ensemble{}, zk.Stat{}, &zk.Error{Op: op.String(), Path: path, Err: err}
	}
	return e, reply.Stat, nil
}

// Errors that servers report to Reconfig. Compare them with errors.Is.
const (
	ErrReconfigDisabled   = zkproto.CodeReconfigDisabled
	ErrReconfigInProgress = zkproto.CodeReconfigInProgress
	ErrNewConfigNoQuorum  = zkproto.CodeNewConfigNoQuorum // too few of the new members are connected to the leader
)

// A Reconfiguration is a change of an ensemble. Either servers in Join join or change and
// servers in Leave leave, or Members replaces the whole list.
type Reconfiguration struct {
	Join    []string // "server.4=host:2888:3888;2181"
	Leave   []int64  // ids
	Members []string // as Join
}

// Reconfig changes the ensemble if its version is the given one (Ensemble.Version;
// zk.AnyVersion: any), and returns the new ensemble.
//
// Needs ZooKeeper 3.5.
//
// Servers since 3.5.3 answer ErrReconfigDisabled unless reconfigEnabled=true is in their
// configuration. They answer zk.ErrNoAuth to clients without write permission on
// /zookeeper/config. Unless the administrator has granted it, only the super user has that
// permission. A server alone answers zk.ErrUnimplemented, and keeps the connection. Other errors:
// zk.ErrBadVersion, zk.ErrBadArguments, ErrReconfigInProgress, ErrNewConfigNoQuorum.
func Reconfig(ctx context.Context, c Caller, change Reconfiguration, version int64) (Ensemble, zk.Stat, error) {
	op := zkproto.OpReconfig
	if (len(change.Join)+len(change.Leave) > 0) == (len(change.Members) > 0) {
		err := fmt.Errorf("%w: want either Join and Leave, or Members", zk.ErrBadArguments)
		return Ensemble{}, zk.Stat{}, &zk.Error{Op: op.String(), Err: err}
	}
	leave := make([]string, len(change.Leave))
	for i, id := range change.Leave {
		leave[i] = strconv.FormatInt(id, 10)
	}
	m := &zkproto.ReconfigRequest{
		Joining: strings.Join(change.Join, ","), Leaving: strings.Join(leave, ","),
		NewMembers: strings.Join(change.Members, ","), Version: version,
	}
	var reply dataReply
	_, err := c.Raw(ctx, raw.Request{Op: op, Body: m, Reply: &reply})
	return ensembleOf(op, "", reply, err)
}

// parseEnsemble parses the text of QuorumVerifier.toString. It skips unknown lines (weights and
// groups of hierarchical quorums).
func parseEnsemble(text string) (Ensemble, error) {
	var e Ensemble
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		bad := func(what string) (Ensemble, error) {
			return Ensemble{}, fmt.Errorf("%s in the line %q", what, line)
		}
		if key == "version" {
			version, err := strconv.ParseUint(value, 16, 64)
			if err != nil {
				return bad("no hexadecimal number")
			}
			e.Version = int64(version)
			continue
		}
		number, ok := strings.CutPrefix(key, "server.")
		if !ok {
			continue
		}
		id, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return bad("no server number")
		}
		m := Member{ID: id}
		var client string
		m.Peers, client, _ = strings.Cut(value, ";")
		if rest, ok := strings.CutSuffix(m.Peers, ":observer"); ok {
			m.Peers, m.Observer = rest, true
		}
		m.Peers = strings.TrimSuffix(m.Peers, ":participant")
		m.Client = clientAddr(client, m.Peers)
		e.Members = append(e.Members, m)
	}
	return e, nil
}

// clientAddr completes the client part of a member's line with the host that the peers use. The
// client part may be only a port or an address to listen on.
func clientAddr(client, peers string) string {
	if client == "" {
		return ""
	}
	host, port, err := net.SplitHostPort(client)
	if err != nil {
		host, port = "", client
	}
	if ip := net.ParseIP(host); host != "" && (ip == nil || !ip.IsUnspecified()) {
		return net.JoinHostPort(host, port)
	}
	first, _, _ := strings.Cut(peers, "|")
	// host:2888:3888, where the host may be an IPv6 address in brackets
	for range 2 {
		first = first[:max(strings.LastIndexByte(first, ':'), 0)]
	}
	addr := net.JoinHostPort(strings.Trim(first, "[]"), port)
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return "" // no client could connect to it
	}
	return addr
}
