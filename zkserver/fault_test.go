package zkserver

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/crashfs"
	"holdfast/zkserver/internal/login"
	"holdfast/zkserver/internal/store"
)

var faults = flag.Int("faults", 60, "failed writes and syncs that the fault test tries; 0 is every one there is")

// A brokenDisk fails the write with number at. If full is set, it fails every later write, too. A
// write is any call that changes the disk: write, sync, create, rename, remove.
type brokenDisk struct {
	at   int // 0: never
	err  error
	full bool

	mu     sync.Mutex
	writes int
	failed string // the first failed call
	log    bool   // it was the write or sync of a journal
	spare  bool   // the server can do without it until the next attempt
	loaded bool   // the server has started
}

func (d *brokenDisk) fail(c crashfs.Call) (keep int, err error) {
	if !c.Changes() {
		return 0, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writes++
	if d.at == 0 || d.writes < d.at || d.writes > d.at && !d.full {
		return 0, nil
	}
	if d.failed == "" {
		d.failed = c.Op + " " + c.Name
		d.log = strings.HasSuffix(c.Name, ".journal") && (c.Op == "write" || c.Op == "sync")
		d.spare = d.loaded && (strings.Contains(c.Name, ".snapshot") || strings.HasSuffix(c.Name, ".journal.tmp") && c.Op != "rename" || c.Op == "remove")
	}
	return 7, d.err
}

// loadBroken runs a server on a broken disk until it stops or has done its requests. It returns the
// acknowledged paths. With OneMachine, most nodes are ephemeral and are called /e….
func loadBroken(fs *crashfs.FS, disk *brokenDisk, oneMachine bool) (acked []string, stopped error) {
	var logged complaints
	fs.Fail = disk.fail
	st := store.OpenOn(fs, small)
	cfg, _ := Config{Logger: logged.logger(), OneMachine: oneMachine}.withDefaults()
	s, err := start(cfg, login.Users{}, st)
	if err != nil {
		st.Close()
		return nil, err
	}
	disk.mu.Lock()
	disk.loaded = true
	disk.mu.Unlock()
	client, server := net.Pipe()
	s.accept(server)
	client.SetDeadline(time.Now().Add(30 * time.Second))
	sent := func(ms ...message) ([]byte, error) {
		b := zkproto.BeginFrame(nil)
		for _, m := range ms {
			b = m.Append(b)
		}
		if _, err := client.Write(zkproto.EndFrame(b, 0)); err != nil {
			return nil, err
		}
		return zkproto.ReadFrame(client, nil, 1<<20)
	}
	_, err = sent(&zkproto.ConnectRequest{Timeout: 10_000, Passwd: make([]byte, 16)})
	for i := 0; i < 80 && err == nil; i++ {
		create := &zkproto.CreateRequest{Path: fmt.Sprint("/n", i), Data: make([]byte, 3000), ACL: openACL}
		if oneMachine && i%8 > 0 {
			create.Path, create.Flags = fmt.Sprint("/e", i), zkproto.FlagEphemeral
		}
		if _, err = sent(&zkproto.RequestHeader{Xid: int32(i), Op: zkproto.OpCreate}, create); err == nil {
			acked = append(acked, create.Path)
		}
	}
	if err != nil {
		<-s.Done()
	}
	s.Close()
	return acked, s.Err()
}

// Any single write or sync fails, or the disk is full from some moment on. Then the server stops and names the
// failure and the directory. If it can do without the file, a snapshot or the next journal, it serves all requests.
// The next start finds everything that it acknowledged, even if power fails at once.
func TestFailedWritesStopTheServerAndLoseNothing(t *testing.T) {
	seed := testSeed(t)
	for _, oneMachine := range []bool{false, true} {
		t.Run(fmt.Sprint("one machine ", oneMachine), func(t *testing.T) { failWrites(t, seed, oneMachine) })
	}
}

func failWrites(t *testing.T, seed uint64, oneMachine bool) {
	clean := &brokenDisk{}
	if acked, err := loadBroken(crashfs.New(nil), clean, oneMachine); err != nil || len(acked) != 80 {
		t.Fatalf("on a healthy disk: %d acknowledged, %v", len(acked), err)
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	step := 1.0
	if *faults > 0 {
		step = max(1, 4*float64(clean.writes)/float64(*faults))
	}
	tried, stops := 0, 0
	for at := 1.0; at <= float64(clean.writes); at += step {
		for _, disk := range []*brokenDisk{{at: int(at), err: syscall.EIO}, {at: int(at), err: syscall.ENOSPC, full: true}} {
			tried++
			fs := crashfs.New(nil)
			acked, err := loadBroken(fs, disk, oneMachine)
			what := fmt.Sprintf("%s fails (%v, write %d): ", disk.failed, disk.err, disk.at)
			switch {
			case disk.failed == "":
				continue // this run had fewer writes
			case err != nil:
				stops++
				if !strings.Contains(err.Error(), disk.err.Error()) || !strings.Contains(err.Error(), crashfs.Dir) {
					t.Errorf("%sthe server stops with the error %q", what, err)
				}
			case disk.log || len(acked) < 80:
				t.Errorf("%sthe server does not stop, after %d writes", what, len(acked))
			}
			if err != nil && disk.spare && !disk.full {
				t.Errorf("%sthe server stops: %v", what, err)
			}
			for _, power := range []bool{false, true} {
				next := crashfs.New(fs.Killed(fs.Now()))
				if power {
					next = crashfs.New(fs.Image(fs.Now(), rng))
					next.BootID = store.BootID{2}
				}
				found, err := survive(next)
				if err != nil {
					t.Errorf("%spower fails: %v: on the next start: %v", what, power, err)
					continue
				}
				for _, path := range acked {
					_, there := found.nodes[path]
					if ended := power && strings.HasPrefix(path, "/e"); there == ended {
						t.Errorf("%spower fails: %v: %s was acknowledged; it exists: %v", what, power, path, there)
					}
				}
			}
		}
	}
	t.Logf("%d failures in %d possible places; the server stopped for %d of them, and lost nothing", tried, clean.writes, stops)
}
