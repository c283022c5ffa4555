package zk

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	"holdfast/zkproto"
)

// An Ensemble is the list of servers in /zookeeper/config. On a single server it is empty: no
// members.
type Ensemble struct {
	Members []Member // in the server's order
	Version int64    // the zxid of the last reconfiguration; 0 if the list is that of the files
}

// A Member is one server of an Ensemble.
type Member struct {
	ID       int64
	Peers    string // where the other servers reach it, "host:2888:3888"; several are separated by |
	Observer bool   // it has no vote
	Client   string // where clients reach it, "host:port"; "" if the ensemble does not list it
}

// Config reads the ensemble's list of servers, whatever the chroot is.
//
// Needs ZooKeeper 3.5.
func (c calls) Config(ctx context.Context) (Ensemble, Stat, error) {
	data, stat, err := c.bare().Get(ctx, configNode)
	return ensembleOf(data, stat, err)
}

// ConfigW is Config, and a watch for the next change.
func (c calls) ConfigW(ctx context.Context) (Ensemble, Stat, *Watch, error) {
	data, stat, w, err := c.bare().GetW(ctx, configNode)
	e, stat, err := ensembleOf(data, stat, err)
	if err != nil && w != nil {
		w.Stop()
		w = nil
	}
	return e, stat, w, err
}

// bare is c without its chroot.
func (c calls) bare() calls {
	c.chroot = ""
	return c
}

func ensembleOf(data []byte, stat Stat, err error) (Ensemble, Stat, error) {
	if err != nil {
		return Ensemble{}, Stat{}, err
	}
	e, err := parseEnsemble(string(data))
	if err != nil {
		return Ensemble{}, Stat{}, &Error{Op: zkproto.OpGetData.String(), Path: configNode, Err: err}
	}
	return e, stat, nil
}

// A Reconfiguration is a change of an ensemble. Either servers in Join join or change and
// servers in Leave leave, or Members replaces the whole list.
type Reconfiguration struct {
	Join    []string // "server.4=host:2888:3888;2181"
	Leave   []int64  // ids
	Members []string // as Join
}

// Reconfig changes the ensemble if its version is the given one (Ensemble.Version; AnyVersion:
// any), and returns the new ensemble.
//
// Needs ZooKeeper 3.5.
//
// Servers since 3.5.3 answer ErrReconfigDisabled unless reconfigEnabled=true is in their
// configuration. They answer ErrNoAuth to clients without write permission on
// /zookeeper/config. Unless the administrator has granted it, only the super user has that
// permission. A server alone answers ErrUnimplemented, and keeps the connection. Other errors:
// ErrBadVersion, ErrBadArguments, ErrReconfigInProgress, ErrNewConfigNoQuorum.
func (c calls) Reconfig(ctx context.Context, change Reconfiguration, version int64) (Ensemble, Stat, error) {
	op := zkproto.OpReconfig
	if (len(change.Join)+len(change.Leave) > 0) == (len(change.Members) > 0) {
		err := fmt.Errorf("%w: want either Join and Leave, or Members", ErrBadArguments)
		return Ensemble{}, Stat{}, &Error{Op: op.String(), Err: err}
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
	err := c.roundTrip(ctx, op, "", m, &reply, nil)
	return ensembleOf(reply.Data, reply.Stat, err)
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
