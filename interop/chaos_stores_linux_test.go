package interop

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"holdfast"
	"holdfast/chaos"
	"holdfast/zk"
)

// The data that one lock guards: two numbers and the name of an update. Each number is read,
// and some time later written plus one. The name is read, and later replaced by another. Two
// writers of one number have lost an update. chaos.LostUpdates finds the lost names.
const (
	storePath  = "/chaos/store"        // the lock
	commitPath = "/chaos/store-update" // the name that Commit writes: its holder's token

	storeUnfenced = "unfenced" // a file without regard to locks
	storeFenced   = "fenced"   // a file that refuses tokens smaller than the largest seen
	storeCommit   = "commit"   // a node, by Hold.Commit

	storeCommitting = "committing" // recorded before Commit, which may happen and not be acknowledged
)

// stores lists all stores.
var stores = []string{storeUnfenced, storeFenced, storeCommit}

// thinkingFile names the store that a process has read and not written yet. A pause does harm
// at that moment. A nemesis that pauses at random hits these milliseconds in one run of three.
const thinkingFile = "thinking"

// account adds one to each store, over and over.
func (c *chaosClient) account(ctx context.Context) {
	z := c.clients[0]
	for ctx.Err() == nil {
		a := chaos.Attempt{Client: c.Process * 1000, Locks: []chaos.Op{{Lock: storePath, Type: chaos.Mutex}}}
		claim, err := c.log.Acquire(ctx, a, holdfast.NewMutex(z, storePath).Lock)
		if err != nil {
			pause(ctx, 5*time.Millisecond)
			continue
		}
		c.update(claim)
		c.unlock(claim, 1)
		pause(ctx, 2*time.Millisecond)
	}
}

// update does one round under the lock. It does not check its Context between reading and
// writing: any program may be paused right after the check.
func (c *chaosClient) update(claim *chaos.Claim) {
	ctx := claim.Context()
	think := func(store string) {
		c.thinks(store)
		pause(context.Background(), 5*time.Millisecond)
		c.thinks("")
	}
	unfenced := filepath.Join(c.Shared, storeUnfenced)
	n, err := readInt(unfenced)
	if err != nil {
		return
	}
	think(storeUnfenced)
	if os.WriteFile(unfenced, strconv.AppendInt(nil, n+1, 10), 0o600) == nil {
		c.event(chaosEvent{What: storeUnfenced, Value: n + 1})
	}

	store := fencedFile(filepath.Join(c.Shared, storeFenced))
	n, err = store.read(claim.Token())
	if err != nil {
		return
	}
	think(storeFenced)
	if store.write(claim.Token(), n+1) == nil {
		c.event(chaosEvent{What: storeFenced, Value: n + 1})
	}

	data, _, err := c.clients[0].Get(ctx, commitPath)
	if err != nil {
		return
	}
	think(storeCommit)
	read, _ := strconv.ParseInt(string(data), 10, 64)
	c.event(chaosEvent{What: storeCommitting, Value: claim.Token(), Read: read})
	_, err = claim.Commit(context.WithoutCancel(ctx), zk.SetOp(commitPath, strconv.AppendInt(nil, claim.Token(), 10), zk.AnyVersion))
	if err == nil {
		c.event(chaosEvent{What: storeCommit, Value: claim.Token()})
	}
}

// thinks tells the nemesis. An error would show, since no pause would ever hit.
func (c *chaosClient) thinks(store string) {
	os.WriteFile(filepath.Join(c.Dir, thinkingFile), []byte(store), 0o600)
}

func readInt(path string) (int64, error) {
	text, err := os.ReadFile(path)
	if err != nil || len(text) == 0 { // another process is just writing it
		return 0, errors.Join(err, errors.New("empty"))
	}
	return strconv.ParseInt(string(text), 10, 64)
}

// A fencedFile is a number and the largest token seen with it. It stands for a database: a lock
// on the file makes its operations atomic.
type fencedFile string

var errStaleToken = errors.New("a larger token has been seen")

func (f fencedFile) read(token int64) (n int64, err error) {
	err = f.with(token, func(v int64) int64 { n = v; return v })
	return n, err
}

func (f fencedFile) write(token, n int64) error {
	return f.with(token, func(int64) int64 { return n })
}

func (f fencedFile) with(token int64, change func(int64) int64) error {
	file, err := os.OpenFile(string(f), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	var b [16]byte
	if _, err := file.ReadAt(b[:], 0); err != nil {
		return err
	}
	if seen := int64(binary.BigEndian.Uint64(b[:])); token < seen {
		return errStaleToken
	}
	n := int64(binary.BigEndian.Uint64(b[8:]))
	binary.BigEndian.PutUint64(b[:], uint64(token))
	binary.BigEndian.PutUint64(b[8:], uint64(change(n)))
	_, err = file.WriteAt(b[:], 0)
	return err
}
