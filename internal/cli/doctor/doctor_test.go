//go:build unix

package doctor

import (
	"bytes"
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/see"
	"holdfast/internal/cli/term"
	"holdfast/internal/locks"
	"holdfast/zk"
	"holdfast/zktest"
)

// located returns the places of a lock's queue.
func located(entries []holdfast.Entry) (all []locks.Place) {
	for _, e := range entries {
		all = append(all, locks.Place{Entry: e})
	}
	return all
}

// states returns the state and the text of each finding.
func states(f findings) (all []string) {
	for _, one := range f {
		all = append(all, string(one.State)+" "+one.Found)
	}
	return all
}

// found fails the test unless the only finding has the state and contains the text.
func found(t *testing.T, f findings, want state, text string) {
	t.Helper()
	if len(f) != 1 || f[0].State != want || !strings.Contains(f[0].Found, text) {
		t.Errorf("got %q; want one %s with %q", states(f), want, text)
	}
	if want != stateOK && len(f) == 1 && f[0].Hint == "" {
		t.Errorf("%q has no hint", f[0].Found)
	}
}

func TestDoctorEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &examiner{Flags: conn.NewFlags(), target: conn.Target{URL: "zk://zk1"}, timeout: 10 * time.Second}
		hangs := make(chan findings)
		quick := make(chan findings, 1)
		quick <- findings{{"server", stateOK, "zk1: a session", ""}}
		var out bytes.Buffer
		began := time.Now()
		reached := true
		err := d.conclude(&out, "table", nil, func() {}, &reached, []examination{{"store", hangs}, {"watchdog", hangs}, {"server", quick}})
		if took := time.Since(began); took != d.timeout {
			t.Errorf("doctor took %v; want %v", took, d.timeout)
		}
		if code, ok := errors.AsType[term.ExitCode](err); !ok || code != term.ExitNo {
			t.Errorf("got %v; want exit code 1", err)
		}
		for _, want := range []string{"problem  store        no result within 10s\n", "problem  watchdog     no result within 10s\n", "ok       server       zk1: a session\n", "2 problems, 0 warnings\n"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q is missing in\n%s", want, out.String())
			}
		}
	})
}

func TestDoctorEndsAtASignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &examiner{Flags: conn.NewFlags(), timeout: time.Hour}
		signals := make(chan os.Signal, 1)
		signals <- syscall.SIGTERM
		servers := make(chan findings, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-ctx.Done()
			servers <- nil // its nodes are removed
		}()
		err := d.conclude(new(bytes.Buffer), "table", signals, cancel, new(bool), []examination{{"server", servers}})
		if code, ok := errors.AsType[term.ExitCode](err); !ok || code != 143 {
			t.Errorf("got %v; want exit code 143", err)
		}
	})
}

func TestDoctorComparesClocks(t *testing.T) {
	before := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		trip, apart time.Duration // from the middle of the trip
		want        state
		text        string
	}{
		{10 * time.Millisecond, 2 * time.Millisecond, stateOK, "agrees with ours to within 6ms"},
		{10 * time.Millisecond, time.Second, stateOK, "1s ahead"},
		{10 * time.Millisecond, time.Minute, stateWarning, "1m ahead"},
		{10 * time.Millisecond, -time.Minute, stateWarning, "1m behind"},
		{8 * time.Second, 5 * time.Second, stateOK, "5s ahead"}, // a slow answer proves no difference
	} {
		e := &examined{name: "zk1"}
		e.judgeClock(before.Add(tt.trip/2+tt.apart), before, before.Add(tt.trip))
		found(t, e.findings, tt.want, tt.text)
	}
}

func TestDoctorComparesSessionTimeouts(t *testing.T) {
	for _, tt := range []struct {
		asked, granted, least time.Duration
		given                 bool
		want                  state
		text                  string
	}{
		{15 * time.Second, 15 * time.Second, 4 * time.Second, false, stateOK, "two ticks of 2s"},
		{15 * time.Second, 15 * time.Second, 0, true, stateOK, "grants the 15s that you ask for"},
		{15 * time.Second, 40 * time.Second, 40 * time.Second, false, stateWarning, "grants 40s instead of 15s"},
		{15 * time.Second, 40 * time.Second, 40 * time.Second, true, stateProblem, "run and lock refuse that"},
		{40 * time.Second, 20 * time.Second, 2 * time.Second, false, stateOK, "grants 20s, and holdfast asks for 40s by default"},
		{60 * time.Second, 40 * time.Second, 4 * time.Second, true, stateWarning, "is lost after that time"},
		{400 * time.Millisecond, 400 * time.Millisecond, 200 * time.Millisecond, true, stateProblem, "holdfast run needs 500ms"},
	} {
		g := conn.NewFlags()
		g.Timeout, g.TimeoutGiven = tt.asked, tt.given
		e := &examined{name: "zk1"}
		(&examiner{Flags: g}).judgeTimeout(e, tt.granted, tt.least)
		found(t, e.findings, tt.want, tt.text)
	}
}

func TestDoctorNoticesALongTick(t *testing.T) {
	for least, warns := range map[time.Duration]bool{0: false, conn.LeastTimeout: false, time.Second: false, 6 * time.Second: false, 8 * time.Second: true} {
		e := &examined{name: "zk1"}
		if e.judgeTick(3*time.Second, least); warns {
			found(t, e.findings, stateWarning, "a minimum of 8s suggests a tickTime of 4s, and holdfast assumes 3s")
		} else if len(e.findings) > 0 {
			t.Errorf("a minimum of %v: %q", least, states(e.findings))
		}
	}
}

func TestDoctorKnowsWhenCertificatesEnd(t *testing.T) {
	now := time.Now()
	certificate := func(name string, lasts, left time.Duration) *x509.Certificate {
		return &x509.Certificate{Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(left - lasts), NotAfter: now.Add(left)}
	}
	const day = 24 * time.Hour
	leaf := certificate("leaf", 90*day, 60*day)
	for _, tt := range []struct {
		chain []*x509.Certificate
		want  state
		text  string
	}{
		{[]*x509.Certificate{leaf}, stateOK, "CN=leaf, issued by an unnamed subject ends in 60d"},
		{[]*x509.Certificate{certificate("leaf", 90*day, 10*day)}, stateWarning, "ends in 10d"},
		{[]*x509.Certificate{certificate("brief", day, 10*time.Hour)}, stateOK, "ends in 10h"},
		{[]*x509.Certificate{certificate("brief", day, 5*time.Hour)}, stateWarning, "ends in 5h"},
		{[]*x509.Certificate{leaf, certificate("between", 3650*day, 3*day)}, stateWarning, "CN=between, issued by an unnamed subject ends in 3d"},
		{[]*x509.Certificate{certificate("old", day, -time.Hour)}, stateProblem, "expired at"},
	} {
		e := &examined{name: "zk1"}
		e.judgeExpiry(tt.chain, now)
		found(t, e.findings, tt.want, tt.text)
	}
}

func TestDoctorKnowsAFullDisk(t *testing.T) {
	const mb = 1 << 20
	for _, tt := range []struct {
		disk disk
		size int64
		want state
		text string
	}{
		{disk{kind: "ext4", free: 900 * mb, files: 1000}, 10 * mb, stateOK, "900 MB free on ext4"},
		{disk{kind: "ext4", free: 100 * mb, files: 1000}, 10 * mb, stateWarning, "the store may need 104 MB"},
		{disk{kind: "ext4", free: 1 * mb, files: 1000}, 0, stateProblem, "1 MB free"},
		{disk{kind: "ext4", free: 900 * mb}, 0, stateProblem, "no more files"},
		{disk{kind: "overlay", free: 900 * mb, files: 1000}, 0, stateWarning, "it goes with the container"},
	} {
		var f findings
		tt.disk.judge(&f, "/d", tt.size)
		found(t, f, tt.want, tt.text)
	}
	slow := disk{kind: "ext4", free: 900 * mb, files: 1000, syncs: []time.Duration{time.Millisecond, 60 * time.Millisecond, 70 * time.Millisecond}}
	var f findings
	slow.judge(&f, "/d", 0)
	found(t, f[1:], stateWarning, "a disk sync takes 60ms, at most 70ms of 3, which is slow")
}

func TestDoctorFindsOtherStores(t *testing.T) {
	alice, bob, root := &user.User{Uid: "1000", Username: "alice", HomeDir: "/home/alice"}, &user.User{Uid: "1001", Username: "bob", HomeDir: "/home/bob"}, &user.User{Uid: "0", Username: "root", HomeDir: "/root"}
	all := []string{"/home/alice/.local/state/holdfast", "/home/bob/.local/state/holdfast", "/root/.local/state/holdfast"}
	for _, tt := range []struct {
		name     string
		dir      string
		env      map[string]string
		me, sudo *user.User
		exist    []string
		want     []string // what the warnings contain
	}{
		{name: "one store", dir: all[0], env: map[string]string{"HOME": "/home/alice"}, me: alice, exist: all[:1]},
		{name: "root has one, too", dir: all[0], env: map[string]string{"HOME": "/home/alice"}, me: alice, exist: all, want: []string{"jobs of root use another store, /root/"}},
		{name: "sudo", dir: all[2], env: map[string]string{"HOME": "/root"}, me: root, sudo: bob, exist: all, want: []string{"jobs of bob without sudo use another store, /home/bob/"}},
		{name: "sudo that keeps HOME", dir: all[1], env: map[string]string{"HOME": "/home/bob"}, me: root, sudo: bob, exist: all, want: []string{"jobs whose HOME is that of the account (/root) use another store, /root/"}},
		{name: "XDG_STATE_HOME", dir: "/state/holdfast", env: map[string]string{"HOME": "/home/alice", "XDG_STATE_HOME": "/state"}, me: alice, exist: all[:1], want: []string{"jobs without XDG_STATE_HOME, such as those of cron use another store, /home/alice/"}},
		{name: "not used yet", dir: "/state/holdfast", env: map[string]string{"HOME": "/home/alice", "XDG_STATE_HOME": "/state"}, me: alice},
		{name: "no account", dir: "/state/holdfast", env: map[string]string{"XDG_STATE_HOME": "/state"}, me: &user.User{Uid: "4711"}, exist: all[:2]},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var f findings
			judgeHomes(&f, tt.dir, func(name string) string { return tt.env[name] }, tt.me, tt.sudo, func(dir string) bool { return slices.Contains(tt.exist, dir) })
			var warnings []string
			for _, one := range f[:len(f)-1] {
				if one.State != stateWarning || !strings.Contains(one.Hint, tt.dir) {
					t.Errorf("got %+v; want a warning whose hint has %s", one, tt.dir)
				}
				warnings = append(warnings, one.Found)
			}
			if !slices.EqualFunc(warnings, tt.want, strings.Contains) {
				t.Errorf("got %q; want %q", warnings, tt.want)
			}
			if last := f[len(f)-1]; last.State != stateOK || !strings.Contains(last.Found, tt.dir) {
				t.Errorf("the last finding is %+v", last)
			}
		})
	}
}

func TestDoctorFindsLeftovers(t *testing.T) {
	queue := located([]holdfast.Entry{
		{Path: "/l/a/x-lock-0000000001", Held: true, Session: 0, Owner: "nobody"},
		{Path: "/l/a/x-lock-0000000002", Session: 7, Owner: "me"},
		{Path: "/l/a/x-lock-0000000003", Session: 0x9},
	})
	now := time.Now()
	window := holdfast.Entry{Path: "/l/window/detached-lock-0000000001", Held: true, Detached: true, Owner: "me", Expires: now.Add(time.Hour)}
	over := window
	over.Expires = now.Add(-time.Minute)
	var f findings
	judgeLocks(&f, []see.Lock{{Path: "/l/a", Queue: queue}, {Path: "/l/b"}, {Path: "/l/window", Queue: located([]holdfast.Entry{window})}, {Path: "/l/over", Queue: located([]holdfast.Entry{over})}}, now, func(path string) string { return strings.TrimPrefix(path, "/l/") })
	want := []string{
		"problem 1 place owned by no session, which stays until somebody removes it: /l/a/x-lock-0000000001",
		"warning 1 detached lock that has expired: over",
		"warning 1 place without an owner's name: a (session 0x9)",
		"ok 3 locks in use, 2 clients waiting, 1 empty name",
	}
	if got := states(f); !slices.Equal(got, want) {
		t.Errorf("got\n%q; want\n%q", got, want)
	}
	f = nil
	judgeLocks(&f, make([]see.Lock, manyEmpty), now, func(path string) string { return path })
	found(t, f[:1], stateWarning, "1000 empty directories")
	f = nil
	judgeLocks(&f, []see.Lock{{Path: "b", Unreadable: true}, {Path: "c", Unreadable: true}}, now, func(path string) string { return path })
	found(t, f[:1], stateWarning, "no permission to read 2 locks: b, c")
}

func TestDoctorFindsFilesOfACrash(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"snapshot.tmp", "journal"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if f := examineFiles(dir, time.Now()); len(f) > 0 {
		t.Errorf("a file that is being written: %q", states(f))
	}
	found(t, examineFiles(dir, time.Now().Add(time.Hour)), stateWarning, "1 file of an interrupted write: "+dir)
}

func TestDoctorNoticesSeparateServers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	one, two := zktest.NewServer(), zktest.NewServer()
	defer one.Close()
	defer two.Close()
	on := func(name string, s *zktest.Server) *examined {
		e := &examined{name: name, client: s.Client(), probe: "/probe-" + name, probed: true}
		if _, _, err := e.client.Create(ctx, e.probe, nil, zk.Ephemeral); err != nil {
			t.Fatal(err)
		}
		return e
	}
	a, b, c := on("a", one), on("b", one), on("c", two)
	dead := &examined{name: "dead"}
	found(t, oneService(ctx, []*examined{a, b}, []*examined{a, b}), stateOK, "all 2 addresses belong to one service")
	found(t, oneService(ctx, []*examined{a, b, c}, []*examined{a, b, c}), stateProblem, "a has a node that c does not have: these are separate services")
	found(t, oneService(ctx, []*examined{dead, a, b}, []*examined{a, b}), stateWarning, "2 of 3 addresses can be used")
	if f := oneService(ctx, []*examined{a}, []*examined{a}); len(f) > 0 {
		t.Errorf("one server: %q", states(f))
	}
	// A node that was perhaps not made proves nothing, and neither does one that is gone.
	d := &examined{name: "d", client: one.Client(), probe: "/probe-d"}
	found(t, oneService(ctx, []*examined{d, a, b}, []*examined{d, a, b}), stateOK, "all 3 addresses belong to one service")
	if f := oneService(ctx, []*examined{d, c}, []*examined{d}); len(f) > 0 {
		t.Errorf("without a node: %q", states(f))
	}
	mute := &examined{name: "mute", client: one.Client()}
	mute.client.Close()
	found(t, oneService(ctx, []*examined{a, b, mute}, []*examined{a, b, mute}), stateWarning, "2 of 3 addresses belong to one service; the others did not answer")
	if err := a.client.Delete(ctx, a.probe, zk.AnyVersion); err != nil {
		t.Fatal(err)
	}
	found(t, oneService(ctx, []*examined{a, b}, []*examined{a, b}), stateWarning, "it is not known whether the 2 addresses belong to one service: the session at a has ended")
}

// A slow server has half of the time that is left to tell its mode.
func TestDoctorWaitsForTheModeOfASlowServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			if _, err := io.ReadFull(theirs, make([]byte, len("srvr"))); err != nil {
				return
			}
			time.Sleep(4 * time.Second)
			_, _ = io.WriteString(theirs, "Zookeeper version: 3.8.0-5a02a05eddb59aee6ac762f7ea82e92a68eb9c0f, built on 2022\nMode: follower\n")
		}()
		e := &examined{}
		if version := e.ask(ours, someOf(ctx)); version != "3.8.0-5a02a05eddb59aee6ac762f7ea82e92a68eb9c0f" || e.mode != "follower" {
			t.Errorf("version %q, mode %q", version, e.mode)
		}
	})
}
