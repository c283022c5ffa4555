package zklocal

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/internal/proc"
	"holdfast/zk"
	"holdfast/zkserver"
)

var hostKills = flag.Int("host-kills", 10, "how often TestKilledHostsKeepTheLivingAlone kills the host")

func init() {
	moreRoles["host of one machine"] = hostOfOneMachine
	moreRoles["crowd"] = crowd
	moreRoles["writer"] = writer
}

// hostOfOneMachine does what the command does as a detached host on Linux, and answers mntr.
func hostOfOneMachine(dir string) error {
	h, err := OpenHost(zkserver.Config{Dir: dir, OneMachine: true, FourLetterWords: []string{"mntr"}})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	<-h.Done()
	return h.Err()
}

// crowd makes sessions of this process as fast as it can, each with a node. It ends some of their connections. When the host
// is gone, it waits to be killed.
func crowd(socket string) error {
	self, err := proc.Self()
	if err != nil {
		return err
	}
	fmt.Println("ready")
	var open []*wire
	for n := 0; err == nil; n++ {
		var nc net.Conn
		if nc, err = net.Dial("unix", socket); err != nil {
			break
		}
		var w *wire
		if w, err = attach(nc, 0, make([]byte, 16), &self); err == nil {
			open = append(open, w)
			err = w.create(fmt.Sprintf("/crowd-%d-%d", os.Getpid(), n))
		}
		if n%3 == 2 {
			i := rand.N(len(open))
			open[i].Close()
			open = slices.Delete(open, i, i+1)
		}
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return nil
}

// writer is a client with one node. It writes nodes, and appends the name of each node that the server has acknowledged to
// a file. The order check tells whether the session and the node are the same as before.
func writer(socket string) error {
	ctx := context.Background()
	c, err := zk.Dial(ctx, zk.Config{Servers: []string{"unix://" + socket}, SessionTimeout: longTimeout})
	if err != nil {
		return err
	}
	var s *zk.Session
	var node string
	if err := zk.Repeat(ctx, func() (err error) {
		if s, err = c.Session(ctx); err != nil {
			return err
		}
		node = fmt.Sprintf("/writer-%d-%d", os.Getpid(), s.ID())
		if _, _, err = c.Create(ctx, node, nil, zk.Ephemeral); errors.Is(err, zk.ErrNodeExists) {
			return nil
		}
		return err
	}); err != nil {
		return err
	}
	acknowledged, err := os.Create(filepath.Join(filepath.Dir(socket), "..", fmt.Sprintf("acknowledged-%d", os.Getpid())))
	if err != nil {
		return err
	}
	fmt.Println(node)
	go func() {
		for n := 0; ; n++ {
			path := fmt.Sprintf("/kept-%d-%d", os.Getpid(), n)
			if _, _, err := c.Create(ctx, path, nil, zk.Persistent); err == nil {
				fmt.Fprintln(acknowledged, path)
			}
			time.Sleep(rand.N(2 * time.Millisecond))
		}
	}()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var there bool
		err := zk.Repeat(ctx, func() (err error) {
			_, there, err = c.Exists(ctx, node)
			return err
		})
		now, serr := c.Session(ctx)
		if err != nil || serr != nil || !there || now.ID() != s.ID() {
			return fmt.Errorf("%s is there: %t; the session: %v; %v, %v", node, there, now, err, serr)
		}
		fmt.Println("done")
	}
	return nil
}

// A siege is a directory whose host is killed again and again.
type siege struct {
	*testing.T
	dir    string
	host   *process
	client *zk.Client
	living map[string]*process // writers, by their nodes
	pids   []int               // of all writers
}

func (s *siege) socket() string { return filepath.Join(s.dir, socketName) }

func (s *siege) open() {
	s.Helper()
	s.host = startProcess(s.T, s.dir, "host of one machine")
	if line := s.host.line(s.T); line != "ready" {
		s.Fatal(line)
	}
}

// write starts a writer, which may be one of the living.
func (s *siege) write(lives bool) *process {
	s.Helper()
	p := startProcess(s.T, s.socket(), "writer")
	s.pids = append(s.pids, p.cmd.Process.Pid)
	if lives {
		p.patient()
		s.living[p.line(s.T)] = p
	}
	return p
}

// onlyTheLiving waits until the ephemeral nodes are those of the living alone, within the bound.
func (s *siege) onlyTheLiving() {
	s.Helper()
	want := slices.Sorted(maps.Keys(s.living))
	var got []string
	for end := time.Now().Add(soon); ; time.Sleep(5 * time.Millisecond) {
		got = got[:0]
		var names []string
		err := zk.Repeat(s.Context(), func() (err error) {
			names, _, err = s.client.Children(s.Context(), "/")
			return err
		})
		if err != nil {
			s.Fatal(err)
		}
		for _, name := range names {
			if strings.HasPrefix(name, "crowd-") || strings.HasPrefix(name, "writer-") {
				got = append(got, "/"+name)
			}
		}
		slices.Sort(got)
		if slices.Equal(got, want) {
			return
		}
		if time.Now().After(end) {
			s.Fatalf("nodes of sessions: %q\nwant those of the living: %q", got, want)
		}
	}
}

// acknowledgedAreThere checks that no node that a writer was told of is lost.
func (s *siege) acknowledgedAreThere() int {
	s.Helper()
	var acknowledged []string // before the list, since the living go on
	for _, pid := range s.pids {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(s.dir), fmt.Sprintf("acknowledged-%d", pid)))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			s.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if path, whole := strings.CutSuffix(line, "\n"); whole {
				acknowledged = append(acknowledged, path)
			}
		}
	}
	names, _, err := s.client.Children(s.Context(), "/")
	if err != nil {
		s.Fatal(err)
	}
	there := make(map[string]bool)
	for _, name := range names {
		there["/"+name] = true
	}
	for _, path := range acknowledged {
		if !there[path] {
			s.Errorf("%s was acknowledged, and is lost", path)
		}
	}
	return len(acknowledged)
}

// sessions returns how many sessions the host has.
func (s *siege) sessions() int {
	s.Helper()
	nc, err := net.Dial("unix", s.socket())
	if err != nil {
		s.Fatal(err)
	}
	defer nc.Close()
	if _, err := io.WriteString(nc, "mntr"); err != nil {
		s.Fatal(err)
	}
	text, err := io.ReadAll(nc)
	_, after, _ := strings.Cut(string(text), "zk_global_sessions\t")
	number, _, _ := strings.Cut(after, "\n")
	n, nerr := strconv.Atoi(number)
	if err != nil || nerr != nil {
		s.Fatalf("mntr: %q, %v", text, err)
	}
	return n
}

// The host is killed at random moments, most of them between the parts of a session's record, while processes make sessions
// and die. Under the next host, no session of a dead process outlives the bound, no session of a living process ends, and no
// acknowledged write is lost.
func TestKilledHostsKeepTheLivingAlone(t *testing.T) {
	s := &siege{T: t, dir: filepath.Join(t.TempDir(), "s"), living: make(map[string]*process)}
	s.open()
	var err error
	if s.client, err = zk.Dial(t.Context(), zk.Config{Servers: []string{"unix://" + s.socket()}, SessionTimeout: longTimeout}); err != nil {
		t.Fatal(err)
	}
	defer s.client.Close()
	for range 3 {
		s.write(true)
	}
	for i := range *hostKills {
		crowd := startProcess(t, s.socket(), "crowd")
		crowd.line(t)
		dying := s.write(false)
		time.Sleep(rand.N(30 * time.Millisecond))
		order := []func(){s.host.kill, crowd.kill, dying.kill}
		rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, kill := range order {
			kill()
			time.Sleep(rand.N(2 * time.Millisecond))
		}
		s.open()
		s.onlyTheLiving()
		for node, p := range s.living {
			fmt.Fprintln(p.in, "check")
			if line := p.line(t); line != "done" {
				t.Fatalf("round %d: the session of %s has ended, though its process lives: %s", i, node, line)
			}
		}
		s.acknowledgedAreThere()
		if t.Failed() {
			t.Fatalf("round %d", i)
		}
	}
	n := s.acknowledgedAreThere()
	for node, p := range s.living {
		p.kill()
		delete(s.living, node)
	}
	s.onlyTheLiving()
	for end := time.Now().Add(soon); ; time.Sleep(5 * time.Millisecond) {
		left := s.sessions() // with that of the test
		if left == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d sessions are left of dead processes", left-1)
		}
	}
	t.Logf("%d kills of the host, %d acknowledged writes", *hostKills, n)
}
