package zkserver

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
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

var (
	restores = flag.Int("restores", 20, "restores of random copies")
	backups  = flag.Int("backups", 20, "backups under load, each of which is damaged")
)

// A branch is a store with its own history: the first one, or a restored copy.
type branch struct {
	dir     string
	s       *Server
	session *zkproto.ConnectResponse
}

// lockAndUnlock returns a fencing token: the creation zxid of an ephemeral node.
func lockAndUnlock(t *testing.T, c *rawClient) int64 {
	t.Helper()
	a := c.call(zkproto.OpCreate2, &zkproto.CreateRequest{Path: "/lock-", ACL: openACL, Flags: zkproto.FlagEphemeralSequential})
	if a.Err != zkproto.CodeOK {
		t.Fatal(a.Err)
	}
	var m zkproto.Create2Response
	m.Decode(a.body)
	c.call(zkproto.OpDelete, &zkproto.DeleteRequest{Path: m.Path, Version: -1})
	return m.Stat.Czxid
}

// open serves the store in dir.
func (b *branch) open(t *testing.T) *rawClient {
	t.Helper()
	s, err := Open(Config{Dir: b.dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	b.s = s
	c := dialUnix(t, s)
	b.session = c.connect(40*time.Second, nil)
	return c
}

// Copies are made of stores at work, of closed stores and of other copies, and restored in any order, some of them
// several times, and within one second. Each token is larger than all before it, whoever has given them out. The
// sessions of a copy have ended.
func TestTokensRiseAcrossRestores(t *testing.T) {
	seed := testSeed(t)
	rng := rand.New(rand.NewPCG(seed, 3))
	dir := t.TempDir()
	branches := []*branch{{dir: filepath.Join(dir, "first")}}
	var copies []string
	last := int64(0)
	work := func(b *branch, c *rawClient) {
		t.Helper()
		for range 1 + rng.IntN(20) {
			token := lockAndUnlock(t, c)
			if token <= last {
				t.Fatalf("%s: token %x; %x was given out before", b.dir, token, last)
			}
			last = token
		}
	}
	backUp := func(of string) {
		t.Helper()
		dest := filepath.Join(dir, fmt.Sprint("copy", len(copies)))
		if _, err := BackUp(of, dest); err != nil {
			t.Fatal(err)
		}
		copies = append(copies, dest)
	}
	work(branches[0], branches[0].open(t))
	backUp(branches[0].dir)
	for n := range *restores {
		b := &branch{dir: filepath.Join(dir, fmt.Sprint("restored", n))}
		of := copies[rng.IntN(len(copies))]
		if err := os.CopyFS(b.dir, os.DirFS(of)); err != nil { // the same copy may be restored again
			t.Fatal(err)
		}
		if rng.IntN(4) == 0 {
			backUp(of)
		}
		c := b.open(t)
		if st := b.s.Stats(); st.Sessions != 1 || st.Ephemerals != 0 {
			t.Fatalf("%d sessions and %d ephemeral nodes in a restored store", st.Sessions, st.Ephemerals)
		}
		for _, other := range branches {
			if r := dialUnix(t, b.s).connect(40*time.Second, other.session); r.SessionID != 0 {
				t.Fatal("a session of another server was resumed")
			}
		}
		branches = append(branches, b)
		work(b, c)
		for range rng.IntN(3) {
			b := branches[rng.IntN(len(branches))]
			switch rng.IntN(3) {
			case 0:
				backUp(b.dir)
			case 1: // a planned restart
				if err := b.s.Shutdown(t.Context()); err != nil {
					t.Fatal(err)
				}
				if rng.IntN(2) == 0 {
					backUp(b.dir)
				}
				work(b, b.open(t))
			}
		}
		// Only the restored store gives out tokens from now on, and the others are switched off.
	}
	t.Logf("%d copies, %d stores", len(copies), len(branches))
}

// loadAt is what a start at a time of the clock loads.
func loadAt(t *testing.T, dir string, now time.Time) (*Server, error) {
	t.Helper()
	cfg, err := Config{Dir: dir}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{cfg: cfg, store: st}
	s.limited.Store(&cfg.Limits)
	err = s.load(store.Meta{Secret: []byte("secret"), Ceiling: zxidAt(now)}, now)
	if err == nil {
		err = s.commitLoaded()
	}
	return s, errors.Join(err, st.Close())
}

// The clocks of the servers of a store may be fast, and may be set back later. Tokens rise all the same, unless the clock
// of a restore is behind that of an earlier server.
func TestTokensRiseAlthoughAClockWasFast(t *testing.T) {
	const day = 24 * time.Hour
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	dir := filepath.Join(t.TempDir(), "data")
	first, err := loadAt(t, dir, now.Add(1000*day)) // its clock is fast
	if err != nil {
		t.Fatal(err)
	}
	copies := 0
	backUp := func(of string) string {
		t.Helper()
		copies++
		dest := filepath.Join(t.TempDir(), fmt.Sprint(copies))
		if _, err := BackUp(of, dest); err != nil {
			t.Fatal(err)
		}
		return dest
	}
	start := func(dir string, at time.Time) int64 {
		t.Helper()
		s, err := loadAt(t, dir, at)
		if err != nil {
			t.Fatal(err)
		}
		return s.owner.zxid
	}
	// The clock is right from now on.
	if z := start(dir, now); z < first.owner.zxid {
		t.Errorf("zxid %x after the clock was set back; %x before", z, first.owner.zxid)
	}
	early := backUp(dir)
	start(dir, now.Add(day))
	late := backUp(dir)
	restored := start(early, now.Add(2*day))
	if z := start(late, now.Add(2*day+time.Millisecond)); z <= restored {
		t.Errorf("zxid %x; an earlier copy began at %x before", z, restored)
	}
}

func TestACopyThatIsNewerThanTheClockIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	now := time.Now()
	if _, err := loadAt(t, dir, now); err != nil {
		t.Fatal(err)
	}
	dest := filepath.Join(t.TempDir(), "copy")
	if _, err := BackUp(dir, dest); err != nil {
		t.Fatal(err)
	}
	for _, at := range []time.Time{now.Add(-time.Hour), time.Unix(1000, 0), time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)} {
		before := filesOf(t, dest)
		_, err := loadAt(t, dest, at)
		if err == nil || !strings.Contains(err.Error(), "set the clock") {
			t.Errorf("at %v: %v; want a refusal", at, err)
		}
		if _, there := filesOf(t, dest)[filepath.Join(dest, "store", "copied")]; !there {
			t.Errorf("at %v: the copy is none any more; its files were %d", at, len(before))
		}
	}
	if _, err := loadAt(t, dest, time.Now()); err != nil {
		t.Error(err)
	}
	if _, err := loadAt(t, dest, now.Add(-time.Hour)); err != nil {
		t.Errorf("after the first start, it is no copy: %v", err)
	}
}

func TestZxidsFollowTheClock(t *testing.T) {
	year := func(y int) time.Time { return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC) }
	for _, tt := range []struct {
		at   time.Time
		want int64
	}{
		{year(1970), 0}, {year(2019), 0}, {year(2020), 0}, {year(2020).Add(time.Second), 1 << 32},
		{year(2020).Add(1500 * time.Millisecond), 3 << 31}, {year(2026), 189388800 << 32}, {year(2099), 0},
	} {
		if got := zxidAt(tt.at); got != tt.want {
			t.Errorf("%v: %x; want %x", tt.at, got, tt.want)
		}
	}
}

// A running server notices that somebody has set the clock back, and the next start knows it.
func TestTheClockIsSetBackUnderAServer(t *testing.T) {
	cfg := Config{Memory: NewMemory()}
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c := dialUnix(t, s)
	c.connect(40*time.Second, nil)
	token := lockAndUnlock(t, c)
	onOwner(s, func() {
		o := &s.owner
		o.zxid, o.ceiling = o.zxid+1000<<32, o.ceiling+1000<<32 // as if it had begun with a fast clock
		s.check(time.Second)
	})
	fast := lockAndUnlock(t, c)
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(cfg); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.owner.ahead < 999<<32 || s.owner.zxid < fast || fast < token+1000<<32 {
		t.Errorf("ahead of the clock by %x: zxid %x after %x", s.owner.ahead, s.owner.zxid, fast)
	}
}

// Copies are made while a server is under load, and each is cut off, zeroed at its end, and has a flipped bit, anywhere.
// Check finds all of it, and no server serves it. What is left can be accepted by hand if the damage is in a journal.
//
//	go test -run DamagedBackups . -backups 1000 -v
func TestDamagedBackupsAreFound(t *testing.T) {
	rng := rand.New(rand.NewPCG(testSeed(t), 4))
	dir := filepath.Join(t.TempDir(), "data")
	s, err := Open(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	stop, stopped := make(chan struct{}), make(chan struct{})
	c := dialUnix(t, s)
	c.connect(40*time.Second, nil)
	for i := range 40 { // a snapshot
		c.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: fmt.Sprint("/n", i), Data: make([]byte, 150<<10), ACL: openACL})
	}
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				c.call(zkproto.OpSetData, &zkproto.SetDataRequest{Path: fmt.Sprint("/n", i%40), Data: make([]byte, i%3000), Version: -1})
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	damages, accepted := 0, 0
	copies := t.TempDir()
	for n := range *backups {
		sound := filepath.Join(copies, "sound")
		if _, err := BackUp(dir, sound); err != nil {
			t.Fatal(err)
		}
		if _, err := Check(sound); err != nil {
			t.Fatalf("backup %d, as it is: %v", n, err)
		}
		for _, way := range []string{"cut off", "zeroed", "flipped"} {
			dest := filepath.Join(copies, way)
			if err := os.CopyFS(dest, os.DirFS(sound)); err != nil {
				t.Fatal(err)
			}
			damages++
			if damagedIsFound(t, rng, fmt.Sprintf("backup %d", n), dest, way, s.Stats().LastZxid) {
				accepted++
			}
			if err := os.RemoveAll(dest); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.RemoveAll(sound); err != nil {
			t.Fatal(err)
		}
	}
	if *backups >= 20 && accepted == 0 {
		t.Error("none was accepted by hand")
	}
	t.Logf("%d backups, %d damages, all found, %d accepted by hand", *backups, damages, accepted)
}

// damage damages a file of a copy, at a random byte, and says what it has done.
func damage(t *testing.T, rng *rand.Rand, dir, way string) string {
	t.Helper()
	files := filesOf(t, dir)
	maps.DeleteFunc(files, func(_, text string) bool { return text == "" })
	names := slices.Sorted(maps.Keys(files))
	for {
		name := names[rng.IntN(len(names))]
		b := []byte(files[name])
		at := rng.IntN(len(b))
		if len(b) > 1000 && rng.IntN(3) == 0 {
			at = len(b) - 1 - rng.IntN(1000) // in the last batches
		}
		switch way {
		case "cut off":
			b = b[:at]
		case "zeroed":
			if clear(b[at:]); string(b) == files[name] {
				continue // it had zeros there
			}
		case "flipped":
			b[at] ^= 1 << rng.IntN(8)
		}
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%s %s at byte %d of %d", filepath.Base(name), way, at, len(files[name]))
	}
}

// damagedIsFound damages a copy, and reports whether the error says how to accept what is left. last is a zxid of the store.
func damagedIsFound(t *testing.T, rng *rand.Rand, what, dest, way string, last int64) (accepted bool) {
	t.Helper()
	what += ", " + damage(t, rng, dest, way)
	_, err := Check(dest)
	if !errors.Is(err, ErrDamaged) {
		t.Fatalf("%s: check: %v; want ErrDamaged", what, err)
	}
	if s, served := Open(Config{Dir: dest}); !errors.Is(served, ErrDamaged) {
		s.Close()
		t.Fatalf("%s: it is served: %v", what, served)
	}
	if !strings.Contains(err.Error(), "write the word accepted into ") {
		if !strings.Contains(what, ".snapshot") && !strings.Contains(err.Error(), "header is damaged") {
			t.Fatalf("%s: %v; want what to do", what, err)
		}
		return false
	}
	acceptByHand(t, dest, err)
	if _, err := Check(dest); err != nil {
		t.Fatalf("%s, accepted by hand: %v", what, err)
	}
	restored, err := Open(Config{Dir: dest})
	if err != nil {
		t.Fatalf("%s, accepted by hand: %v", what, err)
	}
	defer restored.Close()
	if restored.owner.zxid <= last || len(restored.owner.sessions) != 0 {
		t.Errorf("%s, accepted by hand: zxid %x, %d sessions", what, restored.owner.zxid, len(restored.owner.sessions))
	}
	return true
}

// acceptByHand does what the error of a damaged copy says.
func acceptByHand(t *testing.T, dir string, damaged error) {
	t.Helper()
	text := damaged.Error()
	if _, after, cut := strings.Cut(text, "(truncate -s "); cut {
		var size, number int64
		if _, err := fmt.Sscan(strings.SplitN(after, ")", 2)[0], &size); err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(text[strings.Index(text, dir+"/store/"):], ",")
		if err := os.Truncate(name, size); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscanf(filepath.Base(name), "%d.journal", &number); err != nil {
			t.Fatal(err)
		}
		journals, err := filepath.Glob(filepath.Join(dir, "store", "*.journal"))
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range journals {
			if j > name {
				if err := os.Remove(j); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "store", "copied"), []byte("accepted\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A copy is not made inside the directory that it is of, whatever the path is called.
func TestBackUpRefusesItsOwnSource(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if _, err := loadAt(t, dir, time.Now()); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Skip(err)
	}
	before := filesOf(t, dir)
	for _, dest := range []string{dir + "/copy", dir + "/store/copy", link + "/copy", dir + "/../data/copy", link + "/store/copy"} {
		for _, source := range []string{dir, link} {
			if _, err := BackUp(source, dest); !errors.Is(err, ErrInside) {
				t.Errorf("%s to %s: %v; want ErrInside", source, dest, err)
			}
		}
	}
	if after := filesOf(t, dir); len(after) != len(before) {
		t.Errorf("%d files; %d before", len(after), len(before))
	}
	if _, err := BackUp(dir, dir+"-copy"); err != nil {
		t.Errorf("a copy beside it: %v", err)
	}
	if _, err := BackUp(dir, dir+"/none/copy"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a copy in no directory: %v", err)
	}
}
