package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/host"
	"holdfast/internal/cli/job"
	"holdfast/internal/cli/term"
	"holdfast/internal/duration"
	"holdfast/internal/supervise"
	"holdfast/zk"
	"holdfast/zklocal"
)

const (
	// slowWrite is the median time of a write from which doctor warns.
	slowWrite = 100 * time.Millisecond
	// clockApart is the difference of two clocks from which doctor warns.
	clockApart = 2 * time.Second
)

// An examined is one address of a server, with the findings about it.
type examined struct {
	findings
	name          string // for messages
	network, addr string
	host          string // whose certificate it must have

	answered bool       // it sent something
	refused  bool       // it demands a login
	mode     string     // leader, follower, observer, standalone or ""
	client   *zk.Client // nil without a session
	probe    string     // path of the probe node, "" without one
	probed   bool       // the probe node was made; otherwise it may have been
	leased   bool       // locks can be held there
}

// examineServers examines all servers at the same time, and then the locks. It reports whether a server
// answered. Half of the time is for the servers, so that a dead one leaves time for the locks.
func (d *examiner) examineServers(ctx context.Context) (all findings, reached bool) {
	deadline, _ := ctx.Deadline()
	half, cancel := context.WithTimeout(ctx, time.Until(deadline)/2)
	defer cancel()
	var servers []*examined
	if d.target.Dir != "" {
		if !storeExists(d.target.Dir) {
			return nil, true // there is nothing to ask; examineStore says so
		}
		store, err := zklocal.Open(zklocal.Config{Dir: d.target.Dir, StartHost: host.Start})
		if err != nil {
			return nil, true // examineStore has the error
		}
		defer store.Close()
		e := &examined{name: d.target.Dir}
		servers = []*examined{e}
		d.open(half, e, store.Config())
	} else {
		all, servers = d.lookup(half)
		var group sync.WaitGroup
		for _, e := range servers {
			group.Go(func() { d.examineAddress(half, e) })
		}
		group.Wait()
	}
	for _, e := range servers {
		all = append(all, e.findings...)
		reached = reached || e.answered
	}
	live := slices.DeleteFunc(slices.Clone(servers), func(e *examined) bool { return e.client == nil })
	all = append(all, oneService(ctx, servers, live)...)
	if i := slices.IndexFunc(live, func(e *examined) bool { return !e.refused }); i >= 0 {
		all = append(all, d.examineLocks(ctx, live[i].client)...)
	}
	var group sync.WaitGroup
	for _, e := range live {
		group.Go(e.close)
	}
	group.Wait()
	return all, reached
}

// close removes the probe node and ends the session.
func (e *examined) close() {
	if e.probe != "" {
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		defer cancel()
		_ = e.client.Delete(ctx, e.probe, zk.AnyVersion) // otherwise the end of the session removes it
	}
	_ = e.client.Close() // always nil
}

// lookup resolves the names of the servers.
func (d *examiner) lookup(ctx context.Context) (f findings, servers []*examined) {
	seen := make(map[string]string)
	for _, server := range d.target.ZK.Servers {
		if path, ok := strings.CutPrefix(server, "unix://"); ok {
			servers = append(servers, &examined{name: path, network: "unix", addr: path, host: d.Secure.ServerName})
			continue
		}
		host, port, err := net.SplitHostPort(server)
		if err != nil {
			host, port = strings.Trim(server, "[]"), "2181"
		}
		addrs := []string{host}
		if _, err := netip.ParseAddr(host); err != nil {
			began := time.Now()
			if addrs, err = net.DefaultResolver.LookupHost(ctx, host); err != nil {
				f.problem("name", "correct the name in --server, or ask the administrator of the name server", "%s: %s", term.Cut(host, 100), cause(err, time.Since(began)))
				continue
			}
			slices.Sort(addrs)
			f.ok("name", "%s: %s", host, term.Cut(strings.Join(addrs, ", "), 200))
		}
		for _, addr := range addrs {
			full := net.JoinHostPort(addr, port)
			if other, twice := seen[full]; twice {
				f.warning("name", "give each server once", "%s and %s are the same address, %s", other, server, full)
				continue
			}
			seen[full] = server
			name := full
			if addr != host {
				name = fmt.Sprintf("%s (%s)", net.JoinHostPort(host, port), addr)
			}
			servers = append(servers, &examined{name: name, network: "tcp", addr: full, host: host})
		}
	}
	return f, servers
}

// examineAddress connects, asks for the mode and opens a session.
func (d *examiner) examineAddress(ctx context.Context, e *examined) {
	began := time.Now()
	nc, err := new(net.Dialer).DialContext(ctx, e.network, e.addr)
	if err != nil {
		e.problem("server", dialHint(err), "%s: %s", e.name, cause(err, time.Since(began)))
		return
	}
	defer nc.Close()
	connected := time.Since(began)
	if deadline, ok := ctx.Deadline(); ok {
		_ = nc.SetDeadline(deadline)
	}
	if d.target.ZK.TLS != nil {
		if nc = d.examineTLS(ctx, e, nc); nc == nil {
			return
		}
	}
	version := e.ask(nc, someOf(ctx))
	if version == notServing {
		e.problem("server", "start or reconnect the other servers: an ensemble serves while more than half of its servers can talk to each other",
			"%s: the server runs, but does not serve: it has no quorum, or starts up", e.name)
		return
	}
	cfg := d.target.ZK
	cfg.Servers = []string{e.addr}
	if e.network == "unix" {
		cfg.Servers = []string{"unix://" + e.addr}
	}
	if cfg.TLS != nil && cfg.TLS.ServerName == "" {
		cfg.TLS = cfg.TLS.Clone()
		cfg.TLS.ServerName = e.host
	}
	d.open(ctx, e, cfg, version, fmt.Sprintf("connected in %s", duration.Measured(connected)))
}

// cause returns why an attempt failed, in few words.
func cause(err error, took time.Duration) string {
	if conn.TimedOut(err) {
		return "no answer within " + duration.Measured(took)
	}
	return term.Cut(conn.Cause(err, took), 200)
}

// dialHint says what to do about a refused or silent address.
func dialHint(err error) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		return "no server listens there: start it, or correct the address and the port"
	case conn.TimedOut(err):
		return "a firewall may drop the packets, or the machine is down"
	}
	return "check the network between this machine and the server"
}

// notServing is the version of a server that does not serve yet, or any more.
const notServing = "not serving"

// someOf returns half of the time that is left. A question that a server may not answer waits that long, and leaves
// time for the rest.
func someOf(ctx context.Context) time.Duration {
	deadline, _ := ctx.Deadline()
	return time.Until(deadline) / 2
}

var modeLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^Mode: ([\w-]{1,30})`) })

// ask sends the four-letter word srvr and reads the version and the mode. A server may not answer it. A port that
// wants TLS waits for more.
func (e *examined) ask(nc net.Conn, patience time.Duration) (version string) {
	_ = nc.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(nc, "srvr"); err != nil {
		return ""
	}
	text, _ := io.ReadAll(io.LimitReader(nc, 64<<10)) // the server closes the connection after its answer
	if strings.Contains(string(text), "not currently serving") {
		e.answered = true
		return notServing
	}
	if m := modeLine().FindSubmatch(text); m != nil {
		e.mode = string(m[1])
	}
	version, other := conn.Software(text)
	if other != "" {
		e.warning("server", "use Apache ZooKeeper where two must never hold one lock: how its servers prove that a session lives is known, and a holder elsewhere may be told too late",
			"%s: the server says that it is %s, and not Apache ZooKeeper", e.name, other)
	}
	return version
}

// open opens a session, measures it, and leaves it open with a probe node. about says more of the server.
func (d *examiner) open(ctx context.Context, e *examined, cfg zk.Config, about ...string) {
	began := time.Now()
	cfg.Chroot, cfg.SessionTimeout = "", d.Flags.Timeout
	c, err := dialOnce(ctx, cfg)
	if err != nil {
		switch {
		case errors.Is(err, zk.ErrAuthFailed):
			e.answered = true
			e.problem("server", "check --auth and --password-file; for sasl-digest, ZooKeeper after 3.9.5 needs zookeeper.fips-mode=false", "%s: the login was refused", e.name)
		case conn.CertificateHint(err) != "":
			e.answered = true
			e.problem("server", conn.CertificateHint(err), "%s: %s", e.name, term.Cut(err.Error(), 200))
		default:
			hint := "see the log of the server"
			if d.target.Dir != "" {
				hint = "see " + host.LogName + " in the directory"
			}
			e.problem("server", hint, "%s: no session: %s", e.name, cause(err, time.Since(began)))
		}
		return
	}
	e.answered, e.client = true, c
	session, err := c.Session(ctx)
	if err != nil {
		e.problem("session", "see the log of the server", "%s: the session ended at once: %s", e.name, term.Cut(err.Error(), 200))
		return
	}
	least := d.leastGranted(ctx, cfg)
	if d.measure(ctx, e, session, about, least); e.refused {
		return
	}
	d.judgeTimeout(e, session.Timeout(), least)
	tick := cmp.Or(cfg.TickTime, zk.DefaultTickTime)
	if e.mode == "leader" || e.mode == "follower" || e.mode == "observer" {
		e.judgeTick(tick, least)
	}
	if e.leased {
		e.judgeOutages(session.Timeout(), tick)
	}
}

// dialOnce is zk.Dial, but gives up at the first failure that is not a refused login.
func dialOnce(ctx context.Context, cfg zk.Config) (*zk.Client, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cfg.Trace = &zk.Trace{ConnectDone: func(_ string, _ time.Duration, err error) {
		if err != nil && !errors.Is(err, zk.ErrAuthFailed) {
			cancel(err)
		}
	}}
	c, err := zk.Dial(ctx, cfg)
	if err != nil && context.Cause(ctx) != nil && !errors.Is(err, zk.ErrAuthFailed) {
		err = context.Cause(ctx)
	}
	return c, err
}

// failed reports that the server cannot do something. A server that demands a login refuses the rest, too.
func (e *examined) failed(what string, err error) {
	switch {
	case errors.Is(err, zk.ErrAuthFailed):
		e.problem("server", term.LoginHint, "%s: the server demands a login", e.name)
		e.refused = true
	case errors.Is(err, zk.ErrNoAuth):
		e.problem("server", "log in with --auth, or let somebody with permission change the ACL", "%s: no permission to %s", e.name, what)
	default:
		e.problem("server", "see the log of the server", "%s: cannot %s: %s", e.name, what, term.Cut(err.Error(), 200))
	}
}

// timed calls f and appends how long it took.
func timed(times *[]time.Duration, f func() error) error {
	began := time.Now()
	err := f()
	*times = append(*times, time.Since(began))
	return err
}

// measure times reads and writes, and compares the clocks.
func (d *examiner) measure(ctx context.Context, e *examined, session *zk.Session, about []string, least time.Duration) {
	var reads []time.Duration
	for range 5 {
		if err := timed(&reads, func() error { _, _, err := session.Exists(ctx, "/"); return err }); err != nil {
			e.failed("read", err)
			return
		}
	}
	dir, err := conn.NearestNode(ctx, e.client, d.lockDirectory())
	if err != nil {
		e.failed("read "+term.Cut(d.lockDirectory(), 100), err)
		return
	}
	probe := fmt.Sprintf("%s/%s%x", strings.TrimSuffix(dir, "/"), conn.ProbePrefix, uint64(session.ID()))
	before := time.Now()
	writes, made, after, ok := e.write(ctx, session, dir, probe)
	if !ok {
		return
	}
	say := strings.Join(slices.DeleteFunc(append([]string{e.mode}, about...), func(s string) bool { return s == "" }), ", ")
	if say == "" {
		say = "a session"
	}
	found := fmt.Sprintf("%s: %s, read %s, write %s", e.name, say, duration.Measured(median(reads)), duration.Measured(median(writes)))
	if median(writes) >= slowWrite {
		e.warning("server", "check the disk of the server, and the network between the servers; an acquire takes at least one write", "%s, which is slow", found)
	} else {
		e.ok("server", "%s", found)
	}
	e.judgeContainers(ctx, session, probe)
	e.judgeClock(made, before, after)
	e.judgeLease(ctx, session, least, cmp.Or(d.target.ZK.TickTime, zk.DefaultTickTime))
}

// write makes the probe node in dir and writes to it. It returns how long each write took, and when the node was made: by the
// server's clock, and at the latest by ours. ok is false if the server refused.
func (e *examined) write(ctx context.Context, session *zk.Session, dir, probe string) (writes []time.Duration, made, after time.Time, ok bool) {
	var stat zk.Stat
	if err := timed(&writes, func() (err error) { _, stat, err = session.Create(ctx, probe, nil, zk.Ephemeral); return err }); err != nil {
		if zk.MayHaveHappened(err) {
			e.probe = probe
		}
		e.failed("create nodes in "+term.Cut(dir, 100), err)
		return nil, made, after, false
	}
	after = time.Now()
	e.probe, e.probed = probe, true
	for range 4 {
		if err := timed(&writes, func() error { _, err := session.Set(ctx, probe, nil, zk.AnyVersion); return err }); err != nil {
			e.failed("write", err)
			return nil, made, after, false
		}
	}
	return writes, time.UnixMilli(stat.Ctime), after, true
}

// judgeLease acquires a lease of the probe node. That fails if the session timeout is too short for the ensemble's tickTime.
func (e *examined) judgeLease(ctx context.Context, session *zk.Session, least, assumed time.Duration) {
	lease, err := session.Lease(ctx, e.probe)
	switch {
	case errors.Is(err, zk.ErrTimeoutTooShort):
		hint := "give a longer --session-timeout"
		if tick := least / 2; tick > 0 && tick < assumed {
			hint += fmt.Sprintf(", or add ?tick=%v to the address if that is tickTime in the servers' zoo.cfg", tick)
		}
		e.problem("session", hint, "%s: locks would fail: %s", e.name, term.Cut(err.Error(), 250))
	case err == nil:
		e.leased = true
		lease.Release()
	}
}

// judgeContainers asks for a container where there is a node, so the server makes none.
func (e *examined) judgeContainers(ctx context.Context, session *zk.Session, probe string) {
	err := zk.Repeat(ctx, func() error {
		_, _, err := session.Create(ctx, probe, nil, zk.Container)
		return err
	})
	if errors.Is(err, zk.ErrUnimplemented) || errors.Is(err, zk.ErrBadArguments) {
		e.warning("server", "locks work; remove empty directories from time to time. Apache ZooKeeper has containers since 3.5",
			"%s: the server has no containers, so the directories of locks stay when nobody uses them: %s", e.name, term.Cut(err.Error(), 250))
	}
}

// leastGranted is conn.LeastGranted within a part of the time.
func (d *examiner) leastGranted(ctx context.Context, cfg zk.Config) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, someOf(ctx))
	defer cancel()
	return conn.LeastGranted(ctx, cfg)
}

// judgeTimeout compares the granted session timeout with the one that was asked for. least is the server's
// minimum, or 0.
func (d *examiner) judgeTimeout(e *examined, granted, least time.Duration) {
	asked := d.Flags.Timeout
	limits := ""
	if least > conn.LeastTimeout {
		limits = fmt.Sprintf("; its minimum is %s, two ticks of %s by default", duration.Text(least), duration.Text(least/2))
	}
	switch {
	case granted < 2*supervise.KillMargin:
		e.problem("session", fmt.Sprintf("give --session-timeout %s or more", duration.Text(2*supervise.KillMargin)),
			"%s: grants %v, but holdfast run needs %v", e.name, granted, 2*supervise.KillMargin)
	case granted > asked && d.TimeoutGiven:
		e.problem("session", fmt.Sprintf("give --session-timeout %s or more, or set a shorter tickTime on the server", duration.Text(granted)),
			"%s: grants %v, not the %v that you ask for; run and lock refuse that%s", e.name, granted, asked, limits)
	case granted > asked:
		e.warning("session", "a crashed holder's lock stays held for that long; a shorter tickTime on the server allows less",
			"%s: grants %v instead of %v%s", e.name, granted, asked, limits)
	case granted < asked && !d.TimeoutGiven:
		e.ok("session", "%s: grants %v, and holdfast asks for %v by default%s", e.name, granted, asked, limits)
	case granted < asked:
		e.warning("session", fmt.Sprintf("give --session-timeout %s, or raise maxSessionTimeout on the server", duration.Text(granted)),
			"%s: grants %v instead of %v, so a lock is lost after that time without contact%s", e.name, granted, asked, limits)
	default:
		e.ok("session", "%s: grants the %v that you ask for%s", e.name, granted, limits)
	}
}

// judgeTick compares the tickTime that the proofs of a session are measured in with that of an ensemble, which
// its minimum gives away.
func (e *examined) judgeTick(assumed, least time.Duration) {
	if text, hint := conn.LongTick(assumed, least); text != "" {
		e.warning("session", hint, "%s: %s", e.name, text)
	}
}

// judgeClock compares the server's clock with ours. The server read its clock between before and after.
func (e *examined) judgeClock(server, before, after time.Time) {
	half := after.Sub(before) / 2
	apart := server.Sub(before.Add(half))
	text := fmt.Sprintf("%s: %s", e.name, offset(apart, half+time.Millisecond))
	if apart.Abs() > clockApart+half {
		e.warning("clock", "set both clocks by NTP; the locks need no clock, but the times in ls and status, and certificates, do", "%s", text)
		return
	}
	e.ok("clock", "%s", text)
}

// offset describes a difference of two clocks, which is known to within margin.
func offset(apart, margin time.Duration) string {
	switch {
	case apart.Abs() <= margin:
		return fmt.Sprintf("its clock agrees with ours to within %s", duration.Measured(margin))
	case apart < 0:
		return fmt.Sprintf("its clock is %s behind ours (± %s)", duration.Measured(-apart), duration.Measured(margin))
	}
	return fmt.Sprintf("its clock is %s ahead of ours (± %s)", duration.Measured(apart), duration.Measured(margin))
}

// oneService looks whether each server has the probe node of the first one. Two servers that know nothing of
// each other would both grant the same lock.
func oneService(ctx context.Context, servers, live []*examined) (f findings) {
	first := slices.IndexFunc(live, func(e *examined) bool { return e.probed })
	if len(servers) < 2 || first < 0 {
		return nil
	}
	probe, same, apart := live[first].probe, 0, []string{}
	has := func(e *examined) (there bool, err error) {
		if err = e.client.Sync(ctx, probe); err == nil {
			_, there, err = e.client.Exists(ctx, probe)
		}
		return there, err
	}
	for _, e := range live {
		there, err := has(e)
		switch {
		case err != nil:
		case there:
			same++
		default:
			apart = append(apart, e.name)
		}
	}
	// The node of a session that has ended is nowhere.
	if there, err := has(live[first]); err == nil && !there {
		f.warning("servers", "run holdfast doctor again", "it is not known whether the %d addresses belong to one service: the session at %s has ended", len(servers), live[first].name)
		return f
	}
	if len(apart) > 0 {
		f.problem("servers", "give the servers of one ensemble only: clients of different servers could hold the same lock at the same time",
			"%s has a node that %s does not have: these are separate services", live[first].name, term.Cut(strings.Join(apart, ", "), 200))
		return f
	}
	if len(live) < len(servers) {
		f.warning("servers", "see the lines above; clients use the others meanwhile", "%d of %d addresses can be used", len(live), len(servers))
		return f
	}
	if same < len(live) {
		f.warning("servers", "run holdfast doctor again", "%d of %d addresses belong to one service; the others did not answer", same, len(servers))
		return f
	}
	f.ok("servers", "all %d addresses belong to one service", same)
	return f
}

// judgeOutages says which outage a command survives on this server.
func (e *examined) judgeOutages(timeout, tick time.Duration) {
	alone := e.mode == "standalone" || e.network == ""
	grace := job.GraceOf(timeout)
	longest := job.Survives(timeout, grace, tick, alone)
	const text = "%s: a command of run survives any outage of up to %v: without contact, it gets TERM %v after the last proof that its session lives (--term-before %v)"
	if longest < time.Second {
		e.warning("session", "give a longer --session-timeout, or a shorter --term-before", text, e.name, longest, duration.Measured(job.TermAfter(timeout, grace)), duration.Measured(grace))
		return
	}
	e.ok("session", text, e.name, longest, duration.Measured(job.TermAfter(timeout, grace)), duration.Measured(grace))
}
