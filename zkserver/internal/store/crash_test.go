package store_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/zkserver/internal/crashfs"
	"holdfast/zkserver/internal/store"
)

var (
	crashImages = flag.Int("crash-images", 600, "crash images that the crash test opens")
	seed        = flag.Uint64("seed", 0, "seed of the crash tests; 0 is a random one, which is printed")
)

func testSeed(t *testing.T) uint64 {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("-seed %d", *seed)
	return *seed
}

// counter is a node that every batch sets to its number in the history. So a state
// shows how many batches it has.
const counter = "/counter"

// A history has the committed batches, in order, and records when Commit acknowledged how many.
type history struct {
	start    map[string]string
	batches  []map[string]string // "" deletes
	acks     []ack
	synced   int  // batches that are durable
	restarts bool // some batches are synced later
}

// An ack records that a Commit had returned after a number of changes of the disk.
type ack struct{ now, written, synced int }

// state returns the nodes after the first n batches.
func (h *history) state(n int) map[string]string {
	nodes := maps.Clone(h.start)
	for _, b := range h.batches[:n] {
		for path, record := range b {
			if record == "" {
				delete(nodes, path)
			} else {
				nodes[path] = record
			}
		}
	}
	return nodes
}

// acknowledged returns how many batches were written and synced after a number of changes of the disk.
func (h *history) acknowledged(now int) (a ack) {
	for _, b := range h.acks {
		if b.now <= now {
			a = b
		}
	}
	return a
}

// check compares nodes with the history. They must be the state after at least atLeast batches. It
// returns how many batches they include.
func (h *history) check(nodes map[string]string, atLeast int) (int, error) {
	n := 0
	if c, there := nodes[counter]; there {
		n, _ = strconv.Atoi(c)
		first, _ := strconv.Atoi(h.start[counter])
		n -= first
	}
	if n < atLeast || n > len(h.batches) {
		return n, fmt.Errorf("it has %d of %d batches, but %d were acknowledged", n, len(h.batches), atLeast)
	}
	if want := h.state(n); !maps.Equal(nodes, want) {
		return n, fmt.Errorf("it has %d batches, and %d nodes that differ from the state after them (%d)", n, len(nodes), len(want))
	}
	return n, nil
}

// A writer commits random batches.
type writer struct {
	rng   *rand.Rand
	later float64 // share of the batches that are synced later
	value int     // longest record
	batch int     // most nodes of a batch
}

// write commits n random batches, or stops at the first that fails.
func (w *writer) write(s store.Store, fs *crashfs.FS, h *history, n int) error {
	first, _ := strconv.Atoi(h.start[counter])
	for range n {
		b := new(store.Batch)
		b.SyncLater = w.rng.Float64() < w.later
		changes := map[string]string{counter: fmt.Sprint(first + len(h.batches) + 1)}
		for range 1 + w.rng.IntN(w.batch) {
			path := fmt.Sprint("/", w.rng.IntN(40))
			if w.rng.IntN(4) == 0 {
				changes[path] = ""
			} else {
				changes[path] = strings.Repeat(fmt.Sprint(w.rng.Uint32()), 1+w.rng.IntN(1+w.value/10))
			}
		}
		for path, record := range changes {
			if record == "" {
				b.SetNode(path, 'n', nil)
			} else {
				b.SetNode(path, 'n', []byte(record))
			}
		}
		h.batches = append(h.batches, changes)
		if err := s.Commit(b); err != nil {
			return err
		}
		later := b.SyncLater && fs.BootID != store.BootID{}
		h.restarts = h.restarts || later
		if !later {
			h.synced = len(h.batches)
		}
		h.acks = append(h.acks, ack{fs.Now(), len(h.batches), h.synced})
	}
	return nil
}

// keepImage writes an image that a check refused to a directory for inspection.
func keepImage(image map[string][]byte) string {
	dir, err := os.MkdirTemp("", "holdfast-crash-")
	for name, data := range image {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
		}
	}
	return fmt.Sprintf("image in %s (%v)", dir, err)
}

// boots counts the boot ids of a machine that restarts.
var boots = byte(1)

func nextBoot() store.BootID {
	if boots++; boots == 0 {
		boots = 1
	}
	return store.BootID{boots, 7}
}

// crashCount counts the results of crash images.
type crashCount struct {
	images, killed, again, runs, upgrades, batches, snapshots int
	copies, refused                                           int // backups and checks; and those of a store that Load refuses
}

// A disk is the files left after a crash.
type disk struct {
	files map[string][]byte
	boot  store.BootID
	nodes map[string]string
}

// runAndCrash writes to a store, which begins with the files of an earlier crash, and crashes
// it n times. It returns one of the surviving disks.
func runAndCrash(from disk, rng *rand.Rand, lies crashfs.Lies, room int64, n int, count *crashCount) (disk, error) {
	h := &history{start: from.nodes}
	fs := crashfs.New(from.files)
	fs.Lies, fs.BootID, fs.NoRoom = lies, from.boot, rng.IntN(4) == 0
	w := writer{
		rng: rng, value: []int{20, 200, 2000}[rng.IntN(3)], batch: 1 + rng.IntN(5),
		later: []float64{0, 0, 0.5, 0.9, 1}[rng.IntN(5)],
	}
	h.acks = []ack{{}}
	for range 1 + rng.IntN(3) { // restarts of the process
		j := store.OpenOn(fs, room)
		c, err := load(j)
		if err != nil {
			return disk{}, fmt.Errorf("start: %w", err)
		}
		if _, err := h.check(c.nodes, len(h.batches)); err != nil {
			return disk{}, fmt.Errorf("start: %w", err)
		}
		h.synced = len(h.batches) // Load has made everything durable that it read
		h.acks = append(h.acks, ack{fs.Now(), h.synced, h.synced})
		if err := w.write(j, fs, h, 20+rng.IntN(60)); err != nil {
			return disk{}, err
		}
		killed := rng.IntN(2) == 0
		if killed || rng.IntN(2) == 0 {
			if err := j.Settle(); err != nil {
				return disk{}, err
			}
		}
		if killed { // the next process finds the contents of the page cache
			continue
		}
		if err := j.Close(); err != nil {
			return disk{}, err
		}
		h.synced = len(h.batches)
		h.acks = append(h.acks, ack{fs.Now(), h.synced, h.synced})
	}
	count.runs++
	count.batches += len(h.batches)
	names, err := fs.List()
	if err != nil {
		return disk{}, err
	}
	if slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, ".snapshot") }) {
		count.snapshots++
	}
	var left disk
	syncs := fs.Syncs()
	for i := range n {
		cut := rng.IntN(fs.Now() + 1)
		if i%2 == 0 && len(syncs) > 0 {
			cut = syncs[rng.IntN(len(syncs))] + rng.IntN(2) // right before or after a sync returns
		}
		d := disk{boot: fs.BootID}
		at := h.acknowledged(cut)
		atLeast := at.written
		if rng.IntN(4) == 0 {
			d.files = fs.Killed(cut)
			count.killed++
		} else {
			d.files, atLeast = fs.Image(cut, rng), at.synced
			if h.restarts || rng.IntN(2) == 0 { // if everything is synced, the boot id must not matter
				d.boot = nextBoot()
			}
			if rng.IntN(8) == 0 {
				d.boot = store.BootID{} // this kernel has none
			}
		}
		if rng.IntN(4) == 0 {
			if err := checkCopies(d, rng, room, count); err != nil {
				return disk{}, fmt.Errorf("crash after change %d of %d: %w\n%s", cut, fs.Now(), err, keepImage(d.files))
			}
		}
		// It may crash again while the store is read, several times.
		for depth := 0; ; depth++ {
			again := crashfs.New(d.files)
			again.BootID = d.boot
			j := store.OpenOn(again, room)
			c, err := load(j)
			count.images++
			found := 0
			if err == nil {
				found, err = h.check(c.nodes, atLeast)
			}
			if err == nil && c.meta.Restarted && d.boot == fs.BootID {
				err = errors.New("it reports a restart of the machine")
			}
			loaded := again.Now()
			var next map[string]string
			if err == nil { // and the store is used again
				more := &history{start: c.nodes}
				if err = w.write(j, again, more, 2); err == nil {
					next = more.state(2)
				}
			}
			if err = errors.Join(err, j.Close()); err != nil {
				return disk{}, fmt.Errorf("crash after change %d of %d, %d times again: %w\n%s", cut, fs.Now(), depth, err, keepImage(d.files))
			}
			if left.files == nil || rng.IntN(n) == 0 {
				left = disk{again.Killed(again.Now()), d.boot, next}
			}
			if depth == 2 || rng.IntN(3) > 0 {
				break
			}
			count.again++
			cut := rng.IntN(loaded + 1)
			if cut == loaded {
				atLeast = found // Load has reported it
			}
			d.files, d.boot = again.Image(cut, rng), nextBoot()
		}
	}
	return left, nil
}

// checkCopies reads a store with Load, Check and BackUp: as it is, and after a file has lost its end or
// a bit has flipped. If Load accepts the store, Check and BackUp accept it, and return the same nodes.
// If Load refuses it, so do they.
func checkCopies(d disk, rng *rand.Rand, room int64, count *crashCount) error {
	damaged := maps.Clone(d.files)
	for name, b := range d.files {
		if rng.IntN(2) == 0 || len(b) == 0 {
			continue
		}
		if at := rng.IntN(len(b)); rng.IntN(2) == 0 {
			damaged[name] = b[:at]
		} else {
			damaged[name] = slices.Clone(b)
			damaged[name][at] ^= 1 << rng.IntN(8)
		}
		break
	}
	for what, files := range map[string]map[string][]byte{"as it is": d.files, "damaged": damaged} {
		on := func(files map[string][]byte) *crashfs.FS {
			fs := crashfs.New(files)
			fs.BootID = d.boot
			return fs
		}
		j := store.OpenOn(on(files), room)
		want, wantErr := load(j)
		if err := j.Close(); err != nil {
			return err
		}
		checked, copied, from, to := newContents(), newContents(), on(files), on(nil)
		_, checkErr := store.CheckFS(from, checked.visitor())
		copyErr := store.Copy(from, to)
		if copyErr == nil {
			_, copyErr = store.CheckFS(to, copied.visitor())
		}
		count.copies++
		switch {
		case from.Now() != 0:
			return fmt.Errorf("%s: Check or BackUp changed it", what)
		case wantErr != nil:
			count.refused++
			if checkErr == nil || copyErr == nil {
				return fmt.Errorf("%s: load: %v; check: %v; backup: %v", what, wantErr, checkErr, copyErr)
			}
			continue
		case len(want.nodes) == 0 && errors.Is(checkErr, store.ErrFormat) && errors.Is(copyErr, store.ErrFormat):
			continue // nothing was ever committed
		case checkErr != nil || copyErr != nil:
			return fmt.Errorf("%s: load accepts it; check: %v; backup: %v", what, checkErr, copyErr)
		case !maps.Equal(checked.nodes, want.nodes) || !maps.Equal(copied.nodes, want.nodes):
			return fmt.Errorf("%s: %d nodes; check has %d, a backup %d", what, len(want.nodes), len(checked.nodes), len(copied.nodes))
		}
		j = store.OpenOn(to, room)
		again, err := load(j)
		if err = errors.Join(err, j.Close()); err != nil || !maps.Equal(again.nodes, want.nodes) || again.meta.Restarted != want.meta.Restarted {
			return fmt.Errorf("%s: the backup is loaded: %v, %d nodes of %d, restarted: %v", what, err, len(again.nodes), len(want.nodes), again.meta.Restarted)
		}
	}
	return nil
}

// older returns the disk of a store of format 3 that was written and closed.
func older(rng *rand.Rand, room int64) (disk, error) {
	fs := crashfs.New(nil)
	h := &history{start: map[string]string{}, acks: []ack{{}}}
	w := writer{rng: rng, value: 200, batch: 3}
	j := store.OpenOn(fs, room)
	_, err := load(j)
	if err == nil {
		err = w.write(j, fs, h, 20+rng.IntN(60))
	}
	if err == nil {
		err = j.Settle()
	}
	d := disk{boot: fs.BootID, nodes: h.state(len(h.batches))}
	for path, record := range d.nodes {
		d.nodes[path] = store.OlderRecord(record)
	}
	err = errors.Join(err, j.Close())
	d.files = store.Older(fs.Killed(fs.Now()))
	return d, err
}

// Power fails, or the process is killed, at any moment: while the store is made, written to,
// merged into a snapshot or loaded, once or three times in a row. Load finds the state after
// some batch. After a power failure it includes the last synced batch that was
// acknowledged, and after a kill the last batch that was acknowledged.
func TestCrashImagesHaveAllThatWasAcknowledged(t *testing.T) {
	s := testSeed(t)
	rng := rand.New(rand.NewPCG(s, 0))
	var count crashCount
	left := disk{boot: store.BootID{1}}
	began := time.Now()
	for n := 0; count.images < *crashImages; n++ {
		if n%4 == 0 {
			left = disk{boot: nextBoot(), nodes: map[string]string{}}
			if n%16 == 0 {
				left.boot = store.BootID{} // everything is synced
			}
		}
		var err error
		room := []int64{512, 4096, 16384}[rng.IntN(3)]
		if n%4 == 2 && n%8 > 4 { // with an upgrade
			count.upgrades++
			if left, err = older(rng, room); err != nil {
				t.Fatalf("run %d: %v", n, err)
			}
		}
		if left, err = runAndCrash(left, rng, crashfs.Lies{}, room, 50, &count); err != nil {
			t.Fatalf("run %d: %v", n, err)
		}
	}
	if count.runs > 8 && (count.snapshots == 0 || count.again == 0 || count.killed == 0 || count.refused == 0 || count.upgrades == 0) {
		t.Errorf("%+v: some case was not tried", count)
	}
	t.Logf("%d crash images, %d of them of kills and %d of a recovery, of %d runs (%d with snapshots, %d of format 3) with %d batches; "+
		"%d were checked and backed up, %d of them refused; %v", count.images, count.killed, count.again, count.runs,
		count.snapshots, count.upgrades, count.batches, count.copies, count.refused, time.Since(began).Round(time.Millisecond))
}

// The crash test finds disks that lose synced bytes or names.
func TestCrashCheckFindsDisksThatLose(t *testing.T) {
	s := testSeed(t)
	for name, lies := range map[string]crashfs.Lies{
		"journals are not synced":     {Sync: true},
		"the directory is not synced": {SyncDir: true},
		"neither of them":             {Sync: true, SyncDir: true},
	} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(s, 7))
			var count crashCount
			for count.runs < 10 {
				if _, err := runAndCrash(disk{boot: nextBoot(), nodes: map[string]string{}}, rng, lies, 4096, 100, &count); err != nil {
					t.Logf("found with image %d: %.200s", count.images, strings.Split(err.Error(), "\n")[0])
					return
				}
			}
			t.Errorf("%d images, and the check found no loss", count.images)
		})
	}
}

// Power fails after every single change of a store with a snapshot. The disk loses
// all changes that were not synced, or any part of them.
func TestPowerFailsBehindEveryChange(t *testing.T) {
	rng := rand.New(rand.NewPCG(testSeed(t), 1))
	fs := crashfs.New(nil)
	h := &history{start: map[string]string{}, acks: []ack{{}}}
	w := writer{rng: rng, value: 200, batch: 3}
	for range 2 {
		j := store.OpenOn(fs, 1<<10)
		mustLoad(t, j)
		if err := w.write(j, fs, h, 30); err != nil {
			t.Fatal(err)
		}
		if err := j.Settle(); err != nil {
			t.Fatal(err)
		}
		mustClose(t, j)
	}
	if names, _ := fs.List(); !slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, ".snapshot") }) {
		t.Fatalf("files: %q; want a snapshot", names)
	}
	for cut := range fs.Now() + 1 {
		for range 8 {
			image := fs.Image(cut, rng)
			j := store.OpenOn(crashfs.New(image), 1<<10)
			c, err := load(j)
			if err == nil {
				_, err = h.check(c.nodes, h.acknowledged(cut).synced)
			}
			if err := errors.Join(err, j.Close()); err != nil {
				t.Fatalf("crash after change %d of %d: %v\n%s", cut, fs.Now(), err, keepImage(image))
			}
		}
	}
}
