package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"holdfast"
	"holdfast/interop/peers"
	"holdfast/zk"
	"holdfast/zkproto"
)

var floodTime = flag.Duration("floods", 0, "how long TestFloodsBesideApache attacks each server in each way; 0 leaves the test out")

func init() { moreCommands["flood"] = floodProgram }

// A flood is an attack on what a server writes, holds and opens.
type flood struct {
	name      string
	attackers int
	rss       int64 // MiB that the server may have at most: its bounds and twice its nodes
	beside    bool  // it attacks a holdfast tf serve, which is a client of the server
	attack    func(ctx context.Context, addr string, n int) error
}

// heavyNodes is how many nodes of a megabyte each server has, as far as a flood needs them.
const heavyNodes = 100

func heavyPath(n int) string { return fmt.Sprintf("/heavy%d", n%heavyNodes) }

// floods have a limit of memory of 2 GiB (GOMEMLIMIT), so a server may have 1 GiB of nodes and 512 MiB of buffers.
var floods = []flood{
	{name: "creates below heavy nodes, 100 in a transaction", attackers: 4, rss: 1200, attack: func(ctx context.Context, addr string, n int) error {
		c, err := floodConn(ctx, addr)
		if err != nil {
			return err
		}
		defer c.conn.Close()
		for i := 0; ; i++ {
			var m zkproto.MultiRequest
			for j := range heavyNodes {
				m.Ops = append(m.Ops, zkproto.MultiOp{Op: zkproto.OpCreate, Path: fmt.Sprintf("%s/%d-%d", heavyPath(j), n, i), ACL: openACL})
			}
			if err := c.ask(zkproto.OpMulti, &m); err != nil {
				return err
			}
			for j := range m.Ops {
				m.Ops[j] = zkproto.MultiOp{Op: zkproto.OpDelete, Path: fmt.Sprintf("%s/%d-%d", heavyPath(j), n, i), Version: -1}
			}
			if err := c.ask(zkproto.OpMulti, &m); err != nil {
				return err
			}
		}
	}},
	{name: "setACL of heavy nodes", attackers: 10, rss: 1200, attack: func(ctx context.Context, addr string, n int) error {
		c, err := floodConn(ctx, addr)
		if err != nil {
			return err
		}
		defer c.conn.Close()
		for i := 0; ; i++ {
			if err := c.ask(zkproto.OpSetACL, &zkproto.SetACLRequest{Path: heavyPath(n + i), ACL: openACL, Version: -1}); err != nil {
				return err
			}
		}
	}},
	{name: "sessions that end below heavy nodes", attackers: 4, rss: 1200, attack: func(ctx context.Context, addr string, n int) error {
		c, err := floodConn(ctx, addr)
		if err != nil {
			return err
		}
		defer c.conn.Close()
		var m zkproto.MultiRequest
		for j := range heavyNodes {
			m.Ops = append(m.Ops, zkproto.MultiOp{Op: zkproto.OpCreate, Path: heavyPath(j) + "/e", ACL: openACL, Flags: zkproto.FlagEphemeralSequential})
		}
		if err := c.ask(zkproto.OpMulti, &m); err != nil {
			return err
		}
		return c.ask(zkproto.OpCloseSession, empty{})
	}},
	{name: "1,100 silent connections, 1,024 open files", attackers: 1100, rss: 700, attack: func(ctx context.Context, addr string, _ int) error {
		nc, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		defer nc.Close()
		defer context.AfterFunc(ctx, func() { nc.Close() })()
		_, err = nc.Read(make([]byte, 1))
		return err
	}},
	{name: "requests of a megabyte that lack their last byte", attackers: 900, rss: 700, attack: func(ctx context.Context, addr string, _ int) error {
		c, err := floodConn(ctx, addr)
		if err != nil {
			return err
		}
		defer c.conn.Close()
		frame := (&zkproto.RequestHeader{Xid: 1, Op: zkproto.OpSetData}).Append(zkproto.BeginFrame(nil))
		frame = zkproto.EndFrame((&zkproto.SetDataRequest{Path: "/none", Data: make([]byte, 1_000_000), Version: -1}).Append(frame), 0)
		if _, err := c.conn.Write(frame[:len(frame)-1]); err != nil {
			return err
		}
		_, err = c.conn.Read(make([]byte, 1))
		return err
	}},
	{name: "uploads of 300 MB and wrong passwords at holdfast tf serve", attackers: 80, rss: 700, beside: true, attack: func(ctx context.Context, addr string, n int) error {
		nc, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		defer nc.Close()
		defer context.AfterFunc(ctx, func() { nc.Close() })()
		password := "correct horse"
		if n%2 == 0 {
			password = fmt.Sprint("guess ", n)
		}
		login := base64.StdEncoding.EncodeToString([]byte("eve:" + password))
		if _, err := fmt.Fprintf(nc, "POST /tf/a/b HTTP/1.1\r\nHost: %s\r\nAuthorization: Basic %s\r\nContent-Length: 300000000\r\n\r\n{", addr, login); err != nil {
			return err
		}
		spaces := bytes.Repeat([]byte(" "), 1<<20)
		for range 300 {
			if _, err := nc.Write(spaces); err != nil {
				return err
			}
		}
		_, err = nc.Read(make([]byte, 1))
		return err
	}},
	{name: "nodes of a megabyte, as many as there is room for", attackers: 4, rss: 2800, attack: func(ctx context.Context, addr string, n int) error {
		c, err := floodConn(ctx, addr)
		if err != nil {
			return err
		}
		defer c.conn.Close()
		for i := 0; ; i++ {
			if err := c.ask(zkproto.OpCreate, &zkproto.CreateRequest{Path: fmt.Sprintf("/fill%d-%d", n, i), Data: make([]byte, 1_000_000), ACL: openACL}); err != nil {
				return err
			}
		}
	}},
}

// floodConn makes a session that lasts as long as its connection, which ends with ctx.
func floodConn(ctx context.Context, addr string) (*rawConn, error) {
	c, err := dialRaw(ctx, addr)
	if err != nil {
		return nil, err
	}
	c.conn.SetDeadline(time.Time{})
	context.AfterFunc(ctx, func() { c.conn.Close() })
	return c, nil
}

// ask sends a request and waits for its reply, whatever that is.
func (c *rawConn) ask(op zkproto.Op, m message) error {
	if err := c.send(op, m); err != nil {
		return err
	}
	_, _, err := c.receive()
	return err
}

// floodProgram attacks until its standard input ends. arg is the number of the flood and the address.
func floodProgram(arg string) error {
	number, addr, _ := strings.Cut(arg, "@")
	i, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for n := range floods[i].attackers {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := floods[i].attack(ctx, addr, n); err != nil {
					pause(ctx, 10*time.Millisecond)
				}
			}
		})
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	cancel()
	wg.Wait()
	return nil
}

// TestFloodsBesideApache attacks a holdfast serve and an Apache ZooKeeper, one after the other, and measures what an honest client
// waits for a lock and its unlock: before, during and after. The attackers are a process of their own, at a low
// priority. It prints the table of docs/contributing/floods.md.
//
//	go test -run FloodsBesideApache -floods 10s -v -timeout 1h
func TestFloodsBesideApache(t *testing.T) {
	if *floodTime == 0 {
		t.Skip("takes minutes: -floods 10s")
	}
	t.Setenv("GOMEMLIMIT", "2GiB")
	script := filepath.Join(t.TempDir(), "holdfast")
	text := fmt.Sprintf("#!/bin/sh\nulimit -n 1024\nexec %s \"$@\"\n", holdfastBin(t))
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	rows := []string{
		"| Attack | server | before: p50 / p99 / max, ms | during | after | peak RSS, MiB | written, MB |",
		"|---|---|---:|---:|---:|---:|---:|",
	}
	for i, f := range floods {
		var p99 [2]time.Duration
		for side, name := range []string{"holdfast", "Apache 3.8.0"} {
			t.Run(f.name+"/"+name, func(t *testing.T) {
				var addr string
				var pid int
				if side == 0 {
					s, err := peers.StartHoldfast(t.Context(), script, t.TempDir(), "--tick", "500ms")
					closing(t, s, err)
					addr, pid = s.Addr(), s.Pid()
				} else {
					s, err := peers.StartZooKeeper(t.Context(), t.TempDir(), peers.ZooKeeperConfig{
						Flags:    []string{"-Xmx2g", "-XX:-UseSerialGC", "-XX:+UseG1GC", "-XX:TieredStopAtLevel=4"},
						Settings: []string{"preAllocSize=65536", "maxClientCnxns=0"},
					})
					closing(t, s, err)
					addr, pid = strings.TrimPrefix(s.URL(), "zk://"), s.Pid(0)
				}
				row, during, err := measureFlood(t, i, name, addr, pid)
				rows = append(rows, row)
				if err != nil && side == 0 {
					t.Fatal(err)
				}
				p99[side] = during
				if side != 0 {
					return
				}
				if rss := residentPeak(t, pid); rss > f.rss {
					t.Errorf("the server had %d MiB; its bound is %d", rss, f.rss)
				}
			})
		}
		if most := max(p99[1], 50*time.Millisecond); p99[0] > most {
			t.Errorf("%s: p99 %v; want at most %v", f.name, p99[0], most)
		}
	}
	t.Log("\n" + strings.Join(rows, "\n"))
	summarize("\n" + strings.Join(rows, "\n"))
}

// measureFlood attacks one server. It returns the row of the table and the 99th percentile during the attack. The error says
// that the server has not survived the attack.
func measureFlood(t *testing.T, number int, name, addr string, pid int) (row string, p99 time.Duration, err error) {
	c := dialURL(t, "zk://"+addr, func(cfg *zk.Config) { cfg.SessionTimeout = 10 * time.Second })
	if number < 3 {
		for i := range heavyNodes {
			if _, _, err := c.Create(t.Context(), heavyPath(i), make([]byte, 1_000_000), zk.Persistent); err != nil {
				t.Fatal(err)
			}
		}
	}
	m := holdfast.NewMutex(c, "/honest")
	round := func() (times [3]time.Duration, err error) {
		var all []time.Duration
		for end := time.Now().Add(*floodTime); time.Now().Before(end); {
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			h, err := m.Lock(ctx)
			if err == nil {
				err = h.Unlock()
			}
			cancel()
			if err != nil {
				return times, fmt.Errorf("lock and unlock: %w", err)
			}
			all = append(all, time.Since(began))
		}
		slices.Sort(all)
		return [3]time.Duration{all[len(all)/2], all[len(all)*99/100], all[len(all)-1]}, nil
	}
	ms := func(d [3]time.Duration) string {
		return fmt.Sprintf("%.1f / %.1f / %.0f", d[0].Seconds()*1000, d[1].Seconds()*1000, math.Ceil(d[2].Seconds()*1000))
	}
	before, err := round()
	must(t, err)
	wrote := bytesWritten(t, pid)
	target := addr
	if floods[number].beside {
		target = startBackend(t, "zk://"+addr)
	}
	stop := startFlood(t, number, target)
	during, err := round()
	stop()
	var after [3]time.Duration
	if err == nil {
		wrote = bytesWritten(t, pid) - wrote
		pause(t.Context(), 2*time.Second)
		after, err = round()
	}
	if err != nil {
		t.Logf("%s: %v", name, err)
		return fmt.Sprintf("| %s | %s | %s | the server ended | – | – | – |", floods[number].name, name, ms(before)), 0, err
	}
	row = fmt.Sprintf("| %s | %s | %s | %s | %s | %d | %.1f |", floods[number].name, name, ms(before), ms(during), ms(after),
		residentPeak(t, pid), float64(wrote)/1e6)
	t.Log(row)
	return row, during[1], nil
}

// startBackend starts a backend for Terraform with a user, as a client of a server, and returns its address.
func startBackend(t *testing.T, server string) string {
	t.Helper()
	passwd := exec.Command(holdfastBin(t), "tf", "passwd", "eve")
	passwd.Stdin = strings.NewReader("correct horse\n")
	line, err := passwd.Output()
	if err != nil {
		t.Fatal(err)
	}
	users := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(users, line, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(holdfastBin(t), "tf", "serve", "--server", server, "--listen", "127.0.0.1:0", "--users", users)
	cmd.Env = append(os.Environ(), "GOMEMLIMIT=2GiB")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	text, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(strings.TrimSpace(text), "listening http://")
}

// startFlood starts the attackers.
func startFlood(t *testing.T, number int, addr string) (stop func()) {
	t.Helper()
	cmd := exec.Command("nice", "-n", "15", os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=flood %d@%s", commandVar, number, addr))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the attackers: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// field returns a number of a file in /proc.
func field(t *testing.T, pid int, file, name string) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		t.Fatalf("the server has ended: %v", err)
	}
	for line := range strings.Lines(string(text)) {
		if after, is := strings.CutPrefix(line, name+":"); is {
			n, err := strconv.ParseInt(strings.Fields(after)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("%s has no %s", file, name)
	return 0
}

func residentPeak(t *testing.T, pid int) int64 { return field(t, pid, "status", "VmHWM") >> 10 }
func bytesWritten(t *testing.T, pid int) int64 { return field(t, pid, "io", "write_bytes") }
