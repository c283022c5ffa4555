package zkserver

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/crashfs"
	"holdfast/zkserver/internal/store"
)

var writeGolden = flag.Bool("golden", false, "write a directory of the present format to testdata")

// A golden directory has the files that a version of this program wrote, and their contents.
type golden struct {
	files    map[string][]byte
	nodes    map[string][]byte // records
	sessions map[string]string
}

func (g *golden) encode() []byte {
	var b bytes.Buffer
	fmt.Fprintln(&b, "# A directory, and what is in it; written by go test -run TestWriteGolden -golden.")
	for _, name := range slices.Sorted(maps.Keys(g.files)) {
		fmt.Fprintf(&b, "file %s %s\n", name, base64.StdEncoding.EncodeToString(g.files[name]))
	}
	for _, path := range slices.Sorted(maps.Keys(g.nodes)) {
		fmt.Fprintf(&b, "node %s %s\n", path, base64.StdEncoding.EncodeToString(g.nodes[path]))
	}
	for _, id := range slices.Sorted(maps.Keys(g.sessions)) {
		fmt.Fprintf(&b, "session %s %s\n", id, g.sessions[id])
	}
	return b.Bytes()
}

func readGolden(t *testing.T, name string) *golden {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	g := &golden{make(map[string][]byte), make(map[string][]byte), make(map[string]string)}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		kind, rest, _ := strings.Cut(lines.Text(), " ")
		key, value, _ := strings.Cut(rest, " ")
		data, err := base64.StdEncoding.DecodeString(value)
		switch {
		case kind == "file" && err == nil:
			g.files[key] = data
		case kind == "node" && err == nil:
			g.nodes[key] = data
		case kind == "session":
			g.sessions[key] = value
		case kind != "#":
			t.Fatalf("%s: %q: %v", name, lines.Text(), err)
		}
	}
	return g
}

// contents returns the nodes and sessions of a server.
func contents(s *Server, paths []string) (nodes map[string][]byte, sessions map[string]string) {
	nodes, sessions = make(map[string][]byte), make(map[string]string)
	for _, path := range paths {
		nodes[path], _ = wholeRecord(s.owner.tree, path)
	}
	for id, sess := range s.owner.sessions {
		sessions[fmt.Sprint(id)] = fmt.Sprint(sess.timeout)
	}
	return nodes, sessions
}

// TestWriteGolden makes testdata/formatN.txt: a snapshot and journals, every kind of node,
// and two sessions.
func TestWriteGolden(t *testing.T) {
	if !*writeGolden {
		t.Skip("only with -golden")
	}
	fs := crashfs.New(nil)
	paths := builtIns
	for round := range 2 {
		s := startOn(t, store.OpenOn(fs, 1<<10), Config{})
		c := pipe(t, s)
		c.connect(time.Duration(10+round)*time.Second, nil)
		c.call(zkproto.OpAuth, &zkproto.AuthRequest{Scheme: "digest", Auth: []byte("u:p")})
		top := c.create(fmt.Sprint("/round", round), zkproto.FlagPersistent)
		paths = append(paths, top, c.create(top+"/e", zkproto.FlagEphemeral),
			c.create(top+"/s-", zkproto.FlagPersistentSequential), c.create(top+"/s-", zkproto.FlagEphemeralSequential))
		c.call(zkproto.OpSetData, &zkproto.SetDataRequest{Path: top, Data: []byte("second"), Version: 0})
		c.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: top + "/null", ACL: []zkproto.ACL{{Perms: 31, Scheme: "auth"}}})
		c.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: top + "/empty", Data: []byte{}, ACL: openACL})
		c.call(zkproto.OpCreateContainer, &zkproto.CreateRequest{Path: top + "/container", ACL: openACL, Flags: zkproto.FlagContainer})
		c.call(zkproto.OpCreateTTL, &zkproto.CreateTTLRequest{Path: top + "/ttl", ACL: openACL, Flags: zkproto.FlagTTL, TTL: zkproto.MaxTTL})
		c.create(top+"/gone", 0)
		c.call(zkproto.OpDelete, &zkproto.DeleteRequest{Path: top + "/gone", Version: -1})
		paths = append(paths, top+"/null", top+"/empty", top+"/container", top+"/ttl")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	g := &golden{files: fs.Killed(fs.Now())}
	found, err := survive(fs)
	if err != nil {
		t.Fatal(err)
	}
	g.nodes, g.sessions = contents(found.server, paths)
	if err := os.WriteFile(fmt.Sprintf("testdata/format%d.txt", store.Format), g.encode(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// find opens a copy of files and returns its contents.
func (g *golden) find(files map[string][]byte) (*survivor, error) {
	return survive(crashfs.New(files))
}

// compare returns an error if the contents differ.
func (g *golden) compare(found *survivor) error {
	paths := slices.Collect(maps.Keys(found.nodes))
	nodes, sessions := contents(found.server, paths)
	if !maps.EqualFunc(nodes, g.nodes, bytes.Equal) {
		return fmt.Errorf("nodes %q; want %q", nodes, g.nodes)
	}
	if !maps.Equal(sessions, g.sessions) {
		return fmt.Errorf("sessions %v; want %v", sessions, g.sessions)
	}
	return nil
}

// goldenFiles returns the names of the golden directories that this version reads.
func goldenFiles(t *testing.T) (names []string) {
	t.Helper()
	for format := 3; format <= store.Format; format++ {
		names = append(names, fmt.Sprintf("testdata/format%d.txt", format)) // write a missing one with -golden
	}
	return names
}

func TestDirectoriesOfEveryFormatOpen(t *testing.T) {
	for _, name := range goldenFiles(t) {
		g := readGolden(t, name)
		fs := crashfs.New(g.files)
		var password []byte
		for again := range 2 { // the second time it has the current format
			found, err := survive(fs)
			if err == nil {
				err = g.compare(found)
			}
			if err != nil {
				t.Fatalf("%s, opened %d times before: %v", name, again, err)
			}
			if p := found.server.password(1); password != nil && !bytes.Equal(p, password) {
				t.Errorf("%s: its secret has changed", name)
			} else {
				password = p
			}
		}
	}
}

// The first two formats were Pebble databases. The server refuses them and leaves them unchanged.
func TestDirectoriesOfPebbleAreRefused(t *testing.T) {
	for format := range 2 {
		fs := crashfs.New(readGolden(t, fmt.Sprintf("testdata/format%d.txt", 1+format)).files)
		_, err := survive(fs)
		if !errors.Is(err, store.ErrFormat) || !strings.Contains(err.Error(), "serve it with that version") {
			t.Errorf("format %d: %v; want ErrFormat with a remedy", 1+format, err)
		}
		if fs.Now() != 0 {
			t.Errorf("format %d: the directory was changed", 1+format)
		}
	}
}

// Power may fail at any moment while a directory is opened for the first time.
func TestCrashWhileADirectoryIsOpened(t *testing.T) {
	seed := testSeed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, name := range goldenFiles(t) {
		g := readGolden(t, name)
		fs := crashfs.New(g.files)
		if _, err := survive(fs); err != nil {
			t.Fatal(err)
		}
		for cut := range fs.Now() + 1 {
			for range 3 {
				image := fs.Image(cut, rng)
				found, err := g.find(image)
				if err == nil {
					err = g.compare(found)
				}
				if err != nil {
					t.Fatalf("%s: crash after change %d of %d: %v\n%s", name, cut, fs.Now(), err, keepImage(image))
				}
			}
		}
	}
}
