package zkproto

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// MaxFrame is the longest frame that Apache ZooKeeper accepts by default
// (jute.maxbuffer, 0xfffff bytes).
const MaxFrame = 0xfffff

// ErrMalformed is wrapped by every error that a Reader or ReadFrame reports about
// bytes that are not a ZooKeeper message.
var ErrMalformed = errors.New("malformed message")

// ErrFrameTooLarge is wrapped by ReadFrame's error for a frame above the limit.
var ErrFrameTooLarge = errors.New("frame too large")

// A Reader decodes the body of one frame. It keeps its first error, and every later read
// returns zero. It is not safe for concurrent use.
type Reader struct {
	buf []byte
	off int
	err error
}

// NewReader returns a Reader of body, which it neither copies nor changes.
func NewReader(body []byte) *Reader { return &Reader{buf: body} }

// Reset makes r read from body, as a new Reader would.
func (r *Reader) Reset(body []byte) { *r = Reader{buf: body} }

// Err returns the first error so far.
func (r *Reader) Err() error { return r.err }

// Remaining returns the number of unread bytes.
func (r *Reader) Remaining() int { return len(r.buf) - r.off }

// Rest returns all unread bytes.
func (r *Reader) Rest() []byte { return r.take(r.Remaining()) }

// Complete returns Err, or an error if unread bytes are left.
func (r *Reader) Complete() error {
	if r.err == nil && r.off != len(r.buf) {
		r.Fail("%d bytes after the end of the message", r.Remaining())
	}
	return r.err
}

// Fail makes r report an error, unless it has one already. A decoder calls it for a value that makes
// no sense. The error wraps ErrMalformed and names the byte.
func (r *Reader) Fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: at byte %d: %s", ErrMalformed, r.off, fmt.Sprintf(format, args...))
	}
}

func (r *Reader) take(n int) []byte {
	if r.err != nil {
		return nil
	}
	if n > r.Remaining() {
		r.Fail("%d bytes announced, %d are there", n, r.Remaining())
		return nil
	}
	b := r.buf[r.off : r.off+n : r.off+n]
	r.off += n
	return b
}

// Int32 reads a big-endian int.
func (r *Reader) Int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

// Int64 reads a big-endian long.
func (r *Reader) Int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// Bool reads one byte. As in Java's DataInput, every byte but zero is true.
func (r *Reader) Bool() bool {
	b := r.take(1)
	return b != nil && b[0] != 0
}

// Bytes reads a buffer: nil for null, otherwise a slice of the input.
func (r *Reader) Bytes() []byte {
	n := r.Int32()
	switch {
	case r.err != nil || n == -1:
		return nil
	case n < 0:
		r.Fail("negative length %d", n)
		return nil
	}
	return r.take(int(n))
}

// String reads a string; null reads as "". It does not check for UTF-8, since the
// rules for paths do.
func (r *Reader) String() string { return string(r.Bytes()) }

// Count reads the length of a vector whose items take at least minItem bytes each.
// Null counts as zero. A count that cannot fit in the unread bytes is an error, so the
// caller may allocate for it.
func (r *Reader) Count(minItem int) int {
	n := r.Int32()
	switch {
	case r.err != nil || n == -1:
		return 0
	case n < 0:
		r.Fail("negative count %d", n)
		return 0
	case int64(n)*int64(minItem) > int64(r.Remaining()):
		r.Fail("%d items announced, %d bytes are there", n, r.Remaining())
		return 0
	}
	return int(n)
}

// Strings reads a vector of strings.
func (r *Reader) Strings() []string {
	n := r.Count(4)
	if n == 0 {
		return nil
	}
	ss := make([]string, 0, n)
	for range n {
		ss = append(ss, r.String())
	}
	return ss
}

// AppendInt32 appends a big-endian int.
func AppendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }

// AppendInt64 appends a big-endian long.
func AppendInt64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

// AppendBool appends one byte.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// AppendBytes appends a buffer; nil is null.
func AppendBytes(b, v []byte) []byte {
	if v == nil {
		return AppendInt32(b, -1)
	}
	return append(AppendInt32(b, int32(len(v))), v...)
}

// AppendString appends a string.
func AppendString(b []byte, v string) []byte {
	return append(AppendInt32(b, int32(len(v))), v...)
}

// AppendStrings appends a vector of strings.
func AppendStrings(b []byte, v []string) []byte {
	b = AppendInt32(b, int32(len(v)))
	for _, s := range v {
		b = AppendString(b, s)
	}
	return b
}

// BeginFrame reserves the length at the start of a frame. Append the body to the result, then call
// EndFrame with the length that b had before.
func BeginFrame(b []byte) []byte { return append(b, 0, 0, 0, 0) }

// EndFrame fills in the length of the frame that began at start.
func EndFrame(b []byte, start int) []byte {
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-4))
	return b
}

// ReadFrame reads one frame and returns its body, in buf if that is large enough. It refuses a
// length that is negative or above limit before it allocates anything. For a large frame it
// allocates not much more than the bytes that have arrived. The error is io.EOF only between
// frames; inside one it is io.ErrUnexpectedEOF.
func ReadFrame(r io.Reader, buf []byte, limit int) ([]byte, error) {
	if cap(buf) < 4 {
		buf = make([]byte, 512)
	}
	head := buf[:4]
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	n := int32(binary.BigEndian.Uint32(head))
	switch {
	case n < 0:
		return nil, fmt.Errorf("%w: frame of %d bytes", ErrMalformed, n)
	case int(n) > limit:
		return nil, fmt.Errorf("%w: %w: %d bytes, %d are allowed", ErrMalformed, ErrFrameTooLarge, n, limit)
	}
	// A large buffer grows with the bytes that arrive: announcing a large frame costs a client
	// nothing, and many clients can do it at the same time.
	const first = 64 << 10
	if cap(buf) < min(int(n), first) {
		buf = make([]byte, min(n, first))
	}
	for got := 0; ; {
		buf = buf[:min(int(n), cap(buf))]
		if _, err := io.ReadFull(r, buf[got:]); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		if got = len(buf); got == int(n) {
			return buf, nil
		}
		buf = append(make([]byte, 0, min(int(n), 2*got)), buf...)
	}
}
