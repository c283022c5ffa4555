package txlog

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"holdfast/zk"
)

const (
	snapshotMagic = 0x5a4b534e  // ZKSN
	snappyMagic   = -0x7dacb1bf // as int32: the first bytes that snappy-java's SnappyOutputStream writes
	persisted     = 60          // bytes of a StatPersisted
)

// readSnapshot calls put with every node of a snapshot.
func readSnapshot(path string, put func(path string, data []byte, stat zk.Stat)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<20)
	if head, err := in.Peek(2); err == nil && head[0] == 0x1f && head[1] == 0x8b {
		z, err := gzip.NewReader(in)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		in = bufio.NewReaderSize(z, 1<<20)
	}
	s := snapshot{in: in}
	s.read(put)
	if s.err != nil {
		return fmt.Errorf("%s: %w", path, s.err)
	}
	return nil
}

// A snapshot reads the fields of one. After an error, all are zero.
type snapshot struct {
	in  *bufio.Reader
	err error
}

func (s *snapshot) read(put func(path string, data []byte, stat zk.Stat)) {
	switch magic := s.int32(); {
	case s.err != nil:
	case magic == snappyMagic:
		s.err = errors.New("it is compressed with snappy, which holdfast does not read: set zookeeper.snapshot.compression.method=gz on the servers, or give the directory of a server with an older snapshot")
	case magic != snapshotMagic:
		s.err = errors.New("it does not begin as a snapshot of ZooKeeper does")
	}
	s.bytes(12)
	for n := s.int32(); n > 0 && s.err == nil; n-- { // sessions
		s.bytes(12)
	}
	for n := s.int32(); n > 0 && s.err == nil; n-- { // lists of ACLs
		s.bytes(8)
		for m := s.int32(); m > 0 && s.err == nil; m-- {
			s.bytes(4)
			s.buffer()
			s.buffer()
		}
	}
	for s.err == nil {
		path := string(s.buffer())
		if path == "/" {
			return
		}
		data := s.buffer()
		s.bytes(8)
		b := s.bytes(persisted)
		if s.err != nil {
			return
		}
		n := func(at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }
		stat := zk.Stat{Czxid: n(0), Mzxid: n(8), Ctime: n(16), Mtime: n(24), Version: int32(binary.BigEndian.Uint32(b[32:])), EphemeralOwner: n(44)}
		if stat.EphemeralOwner < 0 && stat.EphemeralOwner>>56&0xff == 0xff || stat.EphemeralOwner == -1<<63 { // a TTL, or a container
			stat.EphemeralOwner = 0
		}
		put("/"+strings.TrimPrefix(path, "/"), data, stat)
	}
}

func (s *snapshot) bytes(n int) []byte {
	if s.err != nil || n == 0 {
		return nil
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(s.in, b); err != nil {
		s.err = errors.New("it ends too early")
		return nil
	}
	return b
}

func (s *snapshot) int32() int32 {
	b := s.bytes(4)
	if s.err != nil {
		return 0
	}
	return int32(binary.BigEndian.Uint32(b))
}

func (s *snapshot) buffer() []byte {
	n := int(s.int32())
	if n > maxLength {
		s.err = fmt.Errorf("a length of %d", n)
	}
	if n < 0 { // null
		n = 0
	}
	return s.bytes(n)
}
