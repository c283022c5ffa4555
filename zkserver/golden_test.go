package zkserver

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/store"
)

var writeGolden = flag.Bool("golden", false, "write a directory of the present format to testdata")

// A golden directory is what a version of this program has written, and what it says.
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

// contents is what is in a server's tree.
func contents(s *Server, paths []string) (nodes map[string][]byte, sessions map[string]string) {
	nodes, sessions = make(map[string][]byte), make(map[string]string)
	for _, path := range paths {
		nodes[path], _ = s.owner.tree.AppendNode(nil, path)
	}
	for id, sess := range s.owner.sessions {
		sessions[fmt.Sprint(id)] = fmt.Sprint(sess.timeout)
	}
	return nodes, sessions
}

// TestWriteGolden makes testdata/formatN.txt: tables and a log, every kind of node, and
// two sessions.
func TestWriteGolden(t *testing.T) {
	if !*writeGolden {
		t.Skip("only with -golden")
	}
	dir := t.TempDir()
	paths := builtIns
	for round := range 2 { // what the first has logged, the second turns into tables
		s, l := serve(t, Config{Dir: dir})
		c := dialRaw(t, l)
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
	g := &golden{files: make(map[string][]byte)}
	entries, err := os.ReadDir(filepath.Join(dir, "store"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if g.files[e.Name()], err = os.ReadFile(filepath.Join(dir, "store", e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	g.nodes, g.sessions = contents(s, paths)
	if err := os.WriteFile(fmt.Sprintf("testdata/format%d.txt", store.Format), g.encode(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// find opens a copy of files and returns what is in it.
func (g *golden) find(files map[string][]byte) (*survivor, error) {
	return survive(newRecordingFS(files))
}

// compare says what is not as it was.
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

func goldenFiles(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob("testdata/format*.txt")
	if err != nil || len(names) != store.Format {
		t.Fatalf("%d golden directories for %d formats (%v); write the missing one with -golden", len(names), store.Format, err)
	}
	return names
}

func TestDirectoriesOfEveryFormatOpen(t *testing.T) {
	for _, name := range goldenFiles(t) {
		g := readGolden(t, name)
		fs := newRecordingFS(g.files)
		var password []byte
		for again := range 2 { // the second time it is of the present format
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

// Power may fail at any moment while a directory of an older version is opened for the
// first time.
func TestCrashWhileADirectoryIsBroughtUpToDate(t *testing.T) {
	seed := testSeed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, name := range goldenFiles(t) {
		g := readGolden(t, name)
		fs := newRecordingFS(g.files)
		if _, err := survive(fs); err != nil {
			t.Fatal(err)
		}
		for cut := range fs.now() + 1 {
			for range 3 {
				image := fs.image(cut, rng)
				found, err := g.find(image)
				if err == nil {
					err = g.compare(found)
				}
				if err != nil {
					t.Fatalf("%s: crash behind change %d of %d: %v\n%s", name, cut, fs.now(), err, keepImage(image))
				}
			}
		}
	}
}
