package store

import (
	"errors"
	"time"
)

// Format is the version of the files that a [Journal] writes. It also reads format 3. A store of another
// version is refused. Formats 1 and 2 were Pebble databases, which only Pebble can read.
const Format = 4

// MaxBatch is the most bytes of a batch that Commit accepts, with its header.
const MaxBatch = 64 << 20

// Errors that Open, Load and Commit wrap.
var (
	ErrInUse  = errors.New("another process has it open")
	ErrFormat = errors.New("not a store that this version can read")

	// ErrDamaged means that the store has lost a part of its committed data.
	ErrDamaged = errors.New("the store is damaged")
)

// A Store keeps a server's state.
type Store interface {
	// Load reads the whole state. It initializes an empty store with init. Load is called once,
	// before the first Commit.
	Load(init Meta, visit Visitor) (Meta, error)
	// Commit makes b durable, all of it or none; see Batch.SyncLater for the exception. After
	// an error every later Commit fails, too.
	Commit(b *Batch) error
	// Restored says that the server has taken over a copy, see Meta.Copied. It is called after the
	// changes that this needs are committed.
	Restored() error
	// Waits reports whether the next Commit waits for the disk, whatever its batch says.
	Waits() bool
	// Close closes the store. It is called once, after the last Commit.
	Close() error
}

// Meta has the facts about the server itself.
type Meta struct {
	Secret  []byte // key of the session passwords
	Ceiling int64  // no zxid above it has been given out

	// Restarted is set by Load: the machine has restarted since the last batch of the store
	// was written. Batches with SyncLater may be lost if no later batch was synced.
	// Each Load sets Restarted until a batch is committed.
	Restarted bool

	// Copied is set by Load if the store is a copy that BackUp has made, until Restored: the time at which
	// the copy was made, or the Unix epoch if that is unknown.
	Copied time.Time

	// Ahead is by how much zxids have been ahead of the clock at most.
	Ahead int64
}

// A Visitor receives the records that Load reads, in no particular order. Records are valid during
// the call only.
type Visitor struct {
	Node    func(path string, part byte, record []byte) error // see Batch.SetNode
	Session func(id int64, record []byte) error
}
