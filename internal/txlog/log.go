package txlog

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"io"
	"os"
	"time"

	"holdfast/zkproto"
)

// The codes of transactions (ZooDefs.OpCode).
const (
	opError           = -1
	opCreateSession   = -10
	opCloseSession    = -11
	opCreate          = 1
	opDelete          = 2
	opSetData         = 5
	opSetACL          = 7
	opCheck           = 13
	opMulti           = 14
	opCreate2         = 15
	opReconfig        = 16
	opCreateContainer = 19
	opDeleteContainer = 20
	opCreateTTL       = 21
)

// A txn is one transaction.
type txn struct {
	session int64
	cxid    int32 // number of the client's request; 0 if a server has made it
	zxid    int64
	time    int64 // milliseconds since 1970, by the clock of the leader
	op      int32
	body    []byte // valid until the next call of next

	// over is nil but for a batch of a holdfast server's journal. It has the sessions that end with the batch.
	over map[int64]bool
}

func (t *txn) when() time.Time { return time.UnixMilli(t.time) }

const (
	logMagic  = 0x5a4b4c47 // ZKLG
	endOfTxn  = 0x42
	maxLength = 64 << 20 // of a transaction; servers refuse requests of more than jute.maxbuffer, 1 MiB by default
)

// A logFile reads one file of transactions.
type logFile struct {
	path string
	file *os.File
	r    *bufio.Reader
	buf  []byte
	at   int64
}

func openLog(path string) (*logFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	l := &logFile{path: path, file: f, r: bufio.NewReaderSize(f, 1<<20)}
	var head [16]byte
	_, err = io.ReadFull(l.r, head[:])
	if err == nil && binary.BigEndian.Uint32(head[:]) != logMagic {
		err = errors.New("it does not begin as a log of ZooKeeper does")
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	l.at = int64(len(head))
	return l, nil
}

// next returns the next transaction. The error is io.EOF at the end; the rest of the file is zeros. Another error says
// what is damaged, and where.
func (l *logFile) next() (t txn, err error) {
	var head [12]byte
	if _, err := io.ReadFull(l.r, head[:]); err != nil {
		return t, io.EOF // a file that is not padded
	}
	sum, length := binary.BigEndian.Uint64(head[:]), int(int32(binary.BigEndian.Uint32(head[8:])))
	switch {
	case length == 0:
		return t, io.EOF
	case length < 0 || length > maxLength:
		return t, l.damaged("a length of %d", length)
	}
	if cap(l.buf) < length+1 {
		l.buf = make([]byte, length+1)
	}
	l.buf = l.buf[:length+1]
	if _, err := io.ReadFull(l.r, l.buf); err != nil {
		return t, l.damaged("it ends within a transaction")
	}
	body := l.buf[:length]
	switch {
	case uint64(adler32.Checksum(body)) != sum:
		return t, l.damaged("the checksum is wrong")
	case l.buf[length] != endOfTxn:
		return t, l.damaged("a transaction has no end")
	}
	l.at += int64(len(head) + length + 1)
	r := zkproto.NewReader(body)
	t = txn{session: r.Int64(), cxid: r.Int32(), zxid: r.Int64(), time: r.Int64(), op: r.Int32()}
	t.body = r.Rest()
	if r.Err() != nil {
		return t, l.damaged("%v", r.Err())
	}
	return t, nil
}

// seek goes to the transaction that begins at a byte.
func (l *logFile) seek(at int64) error {
	_, err := l.file.Seek(at, io.SeekStart)
	l.r.Reset(l.file)
	l.at = at
	return err
}

func (l *logFile) damaged(format string, args ...any) error {
	return fmt.Errorf("%s: damaged at byte %d: %s", l.path, l.at, fmt.Sprintf(format, args...))
}

func (l *logFile) close() { l.file.Close() }

// A change is what one operation of a transaction does to a node.
type change struct {
	op      int32
	path    string
	data    []byte
	owner   bool // the node is ephemeral
	version int32
}

// changes decodes the operations of a transaction. The strings and data are copies.
func (t *txn) changes() ([]change, error) {
	if t.op != opMulti {
		return decode(nil, t.op, t.body)
	}
	r := zkproto.NewReader(t.body)
	var all []change
	for n := r.Count(8); n > 0 && r.Err() == nil; n-- {
		op, body := r.Int32(), r.Bytes()
		if r.Err() != nil {
			break
		}
		if op == opError { // the whole transaction has failed
			return nil, nil
		}
		var err error
		if all, err = decode(all, op, body); err != nil {
			return nil, err
		}
	}
	return all, r.Err()
}

// decode appends the change of one operation. It does not read the fields behind those that matter here: versions differ in them.
func decode(all []change, op int32, body []byte) ([]change, error) {
	r := zkproto.NewReader(body)
	c := change{op: op}
	switch op {
	case opCreate, opCreate2, opCreateTTL, opCreateContainer:
		c.path, c.data = r.String(), bytes.Clone(r.Bytes())
		for n := r.Count(12); n > 0 && r.Err() == nil; n-- {
			r.Int32()
			r.Bytes()
			r.Bytes()
		}
		c.owner = op != opCreateContainer && op != opCreateTTL && r.Bool()
	case opDelete, opDeleteContainer:
		c.path = r.String()
	case opSetData, opReconfig:
		c.path, c.data = r.String(), bytes.Clone(r.Bytes())
		c.version = r.Int32()
	default:
		return all, nil
	}
	if r.Err() != nil {
		return nil, fmt.Errorf("operation %d: %w", op, r.Err())
	}
	return append(all, c), nil
}
