package zkserver

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/zkproto"
)

// dialUnix connects to a server, outside a synctest bubble.
func dialUnix(t *testing.T, s *Server) *rawClient {
	t.Helper()
	client, server := net.Pipe()
	s.accept(server)
	return newRaw(t, client)
}

// A backup of a running server has everything that was acknowledged before it, even while
// journals are merged and removed. A server can run on the backup.
func TestBackUpOfAServerAtWork(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s, err := Open(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := dialUnix(t, s)
	c.connect(40*time.Second, nil)
	c.create("/n", zkproto.FlagPersistent)
	var acked atomic.Uint64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		data := make([]byte, 200<<10) // twenty writes fill a journal
		for n := uint64(1); ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			binary.BigEndian.PutUint64(data, n)
			a := c.call(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/n", Data: data, Version: -1})
			if a.Err != zkproto.CodeOK {
				t.Errorf("set: %v", a.Err)
				return
			}
			acked.Store(n)
		}
	}()
	defer func() { close(stop); <-stopped }()
	for range 12 {
		for before := acked.Load(); acked.Load() < before+10; time.Sleep(time.Millisecond) {
		}
		least := acked.Load()
		dest := filepath.Join(t.TempDir(), "copy")
		summary, err := BackUp(dir, dest)
		if err != nil {
			t.Fatal(err)
		}
		if summary.Znodes != 5 || summary.Sessions != 1 || summary.Commits < least || summary.Bytes < 200<<10 {
			t.Errorf("summary %+v", summary)
		}
		restored, err := Open(Config{Dir: dest})
		if err != nil {
			t.Fatal(err)
		}
		again := dialUnix(t, restored)
		again.connect(40*time.Second, nil)
		a := again.call(zkproto.OpGetData, &zkproto.ReadRequest{Path: "/n"})
		if a.Err != zkproto.CodeOK {
			t.Fatal(a.Err)
		}
		if n := binary.BigEndian.Uint64(a.body.Bytes()); n < least || n > acked.Load()+1 {
			t.Errorf("the copy has %d nodes; %d were acknowledged before it, %d after it", n, least, acked.Load())
		}
		restored.Close()
	}
}

func TestCheckReadsAndChangesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if _, err := Check(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Check(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no store: %v", err)
	}
	s, err := Open(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	c := dialUnix(t, s)
	c.connect(40*time.Second, nil)
	c.create("/a", zkproto.FlagPersistent)
	c.create("/a/e", zkproto.FlagEphemeral)
	if _, err := Check(dir); !errors.Is(err, ErrInUse) {
		t.Errorf("a store that is open: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before := filesOf(t, dir)
	summary, err := Check(dir)
	if err != nil || summary.Znodes != 6 || summary.Sessions != 1 || summary.Commits == 0 {
		t.Errorf("%+v, %v", summary, err)
	}
	if after := filesOf(t, dir); len(after) != len(before) {
		t.Errorf("%d files before, %d after; want the same", len(before), len(after))
	} else {
		for name, data := range before {
			if after[name] != data {
				t.Errorf("%s has changed", name)
			}
		}
	}
	journal := filepath.Join(dir, "store", "00000001.journal")
	data := []byte(before[journal])
	data[200] ^= 1
	if err := os.WriteFile(journal, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Check(dir); !errors.Is(err, ErrDamaged) {
		t.Errorf("a flipped bit: %v", err)
	}
	dest := filepath.Join(t.TempDir(), "copy")
	if _, err := BackUp(dir, dest); !errors.Is(err, ErrDamaged) {
		t.Errorf("backup of a damaged store: %v", err)
	}
	if _, err := os.Stat(dest); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a failed backup left %s behind: %v", dest, err)
	}
	if _, err := BackUp(dir, dir); !errors.Is(err, fs.ErrExist) {
		t.Errorf("backup to a directory that exists: %v", err)
	}
	if _, err := os.Stat(journal); err != nil {
		t.Errorf("the store: %v", err)
	}
}

// filesOf reads all files below dir.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		files[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
