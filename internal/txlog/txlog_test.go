package txlog

import (
	"bufio"
	"encoding/binary"
	"flag"
	"fmt"
	"hash/adler32"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

var txnsFlag = flag.Int("txns", 20_000, "how many transactions TestLogOfManyTransactions reads")

// A scribe writes a log as a server of ZooKeeper does.
type scribe struct {
	t    *testing.T
	f    *os.File
	w    *bufio.Writer
	zxid int64
	at   int64
}

func newScribe(t *testing.T, dir string, first int64) *scribe {
	f, err := os.Create(filepath.Join(dir, fmt.Sprintf("log.%x", first)))
	if err != nil {
		t.Fatal(err)
	}
	s := &scribe{t: t, f: f, w: bufio.NewWriterSize(f, 1<<20), zxid: first - 1, at: time.Date(2026, 11, 28, 3, 0, 0, 0, time.UTC).UnixMilli()}
	s.w.Write(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, logMagic<<32|2), 0))
	return s
}

func text(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}

func (s *scribe) txn(session int64, cxid int32, op int32, body []byte) {
	s.zxid++
	s.at += 1000
	b := binary.BigEndian.AppendUint64(nil, uint64(session))
	b = binary.BigEndian.AppendUint32(b, uint32(cxid))
	b = binary.BigEndian.AppendUint64(b, uint64(s.zxid))
	b = binary.BigEndian.AppendUint64(b, uint64(s.at))
	b = binary.BigEndian.AppendUint32(b, uint32(op))
	b = append(b, body...)
	head := binary.BigEndian.AppendUint64(nil, uint64(adler32.Checksum(b)))
	s.w.Write(binary.BigEndian.AppendUint32(head, uint32(len(b))))
	s.w.Write(append(b, endOfTxn))
}

func createBody(path, data string, ephemeral bool) []byte {
	b := binary.BigEndian.AppendUint32(text(text(nil, path), data), 1) // one ACL
	b = text(text(binary.BigEndian.AppendUint32(b, 31), "world"), "anyone")
	flag := byte(0)
	if ephemeral {
		flag = 1
	}
	return binary.BigEndian.AppendUint32(append(b, flag), 1)
}

func (s *scribe) create(session int64, path string) {
	s.txn(session, 1, opCreate, createBody(path, "", session != 0))
}

func (s *scribe) delete(session int64, path string) { s.txn(session, 1, opDelete, text(nil, path)) }

// close pads the file with zeros.
func (s *scribe) close() {
	s.w.Write(make([]byte, 4096))
	if err := s.w.Flush(); err != nil {
		s.t.Fatal(err)
	}
	s.f.Close()
}

func place(n int) string { return fmt.Sprintf("/locks/job/_c_%032x-lock-%010d", n, n) }

// tell reads logs, and returns a line for each event.
func tell(t *testing.T, dirs ...string) (lines []string, warnings []string) {
	t.Helper()
	_, err := Read(Config{
		Dirs: dirs, Warn: func(err error) { warnings = append(warnings, err.Error()) },
		Report: func(e Event) error {
			line := fmt.Sprintf("%s %s %d", e.Lock, e.Type, e.Place.Token)
			if e.Held > 0 {
				line += fmt.Sprintf(" held %v", e.Held)
			}
			if e.By != 0 {
				line += fmt.Sprintf(" by %d", e.By)
			}
			lines = append(lines, line)
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines, warnings
}

func write(s *scribe) {
	s.create(0, "/locks")                          // 1
	s.create(0, "/locks/job")                      // 2
	s.create(7, place(0))                          // 3
	s.create(8, place(1))                          // 4
	s.create(9, place(2))                          // 5
	s.delete(9, place(2))                          // 6
	multi := binary.BigEndian.AppendUint32(nil, 2) // 7: two operations
	multi = text(binary.BigEndian.AppendUint32(multi, opSetData), string(append(text(text(nil, "/locks/job"), "x"), 0, 0, 0, 1)))
	multi = text(binary.BigEndian.AppendUint32(multi, opDelete), string(text(nil, place(0))))
	s.txn(7, 1, opMulti, multi)
	s.create(9, place(3))            // 8
	s.txn(8, 0, opCloseSession, nil) // 9
	s.delete(7, place(3))            // 10
	s.create(7, place(4))            // 11
	s.txn(7, 5, opCloseSession, nil) // 12
}

var told = []string{
	"/locks/job joined 3", "/locks/job acquired 3", "/locks/job joined 4", "/locks/job joined 5", "/locks/job left 5",
	"/locks/job released 3 held 4s", "/locks/job acquired 4", "/locks/job joined 8",
	"/locks/job expired 4 held 2s", "/locks/job acquired 8", "/locks/job removed 8 held 1s by 7",
	"/locks/job joined 11", "/locks/job acquired 11", "/locks/job closed 11 held 1s",
}

func TestLogIsTold(t *testing.T) {
	dir := t.TempDir()
	s := newScribe(t, dir, 1)
	write(s)
	s.close()
	lines, warnings := tell(t, dir)
	if !slices.Equal(lines, told) || len(warnings) > 0 {
		t.Errorf("got\n%s\nwant\n%s\nwarnings: %v", strings.Join(lines, "\n"), strings.Join(told, "\n"), warnings)
	}
}

// Each transaction counts once, whoever has it: a server can have been down, and the end of a file can be damaged.
func TestLogsOfSeveralServersAreOne(t *testing.T) {
	whole, cut := t.TempDir(), t.TempDir()
	s := newScribe(t, filepath.Join(whole), 1)
	write(s)
	s.close()
	b, err := os.ReadFile(filepath.Join(whole, "log.1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cut, "log.1"), b[:400], 0o600); err != nil {
		t.Fatal(err)
	}
	lines, warnings := tell(t, cut, whole)
	if !slices.Equal(lines, told) || len(warnings) != 1 || !strings.Contains(warnings[0], "ends within a transaction") {
		t.Errorf("got\n%s\nwant\n%s\nwarnings: %v", strings.Join(lines, "\n"), strings.Join(told, "\n"), warnings)
	}
}

// Whatever is damaged is reported, and nothing that is read is invented.
func TestDamagedLogIsReported(t *testing.T) {
	dir := t.TempDir()
	s := newScribe(t, dir, 1)
	write(s)
	s.close()
	file := filepath.Join(dir, "log.1")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	end := len(whole) - 4096
	for at := 0; at < end; at += 7 {
		b := slices.Clone(whole)
		b[at] ^= 0x20
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		lines, warnings := tell(t, dir)
		harmless := at >= 4 && at < 16 // the version and the id of the database
		if (len(warnings) == 0) != harmless {
			t.Errorf("byte %d is damaged: warnings %v", at, warnings)
		}
		if len(lines) > len(told) || !slices.Equal(lines, told[:len(lines)]) {
			t.Errorf("byte %d is damaged: got\n%s", at, strings.Join(lines, "\n"))
		}
	}
}

// Logs that begin later than the oldest snapshot need it. Here there is none. That is said, and so is that an older place
// may be ahead: until the directory is made anew.
func TestLogThatBeginsLateIsReported(t *testing.T) {
	dir := t.TempDir()
	s := newScribe(t, dir, 0x500)
	s.create(7, place(1))
	s.create(8, place(2))
	s.delete(7, place(1))
	s.txn(8, 0, opCloseSession, nil)
	s.delete(0, "/locks/job")
	s.create(0, "/locks/job")
	s.create(7, place(3))
	s.close()
	lines, warnings := tell(t, dir)
	want := []string{
		"/locks/job joined 1280", "/locks/job unknown 1280", "/locks/job joined 1281", "/locks/job gone 1280", "/locks/job unknown 1281",
		"/locks/job expired 1281", "/locks/job joined 1286", "/locks/job acquired 1286",
	}
	if !slices.Equal(lines, want) || len(warnings) != 1 || !strings.Contains(warnings[0], "unknown") {
		t.Errorf("got %q, warnings %v; want %q", lines, warnings, want)
	}
	if _, err := Read(Config{Dirs: []string{t.TempDir()}}); err == nil || !strings.Contains(err.Error(), "no log of a ZooKeeper server") {
		t.Errorf("a directory without logs: %v", err)
	}
}

// A leader writes a transaction before the others agree. If it loses its office in between, the others go on without the
// transaction, and the leader removes it when it comes back. Here it has not come back.
func TestUncommittedTransactionIsLeftOut(t *testing.T) {
	const second = 1 << 32
	first, others, late := t.TempDir(), t.TempDir(), t.TempDir()
	begin := func(dir string) *scribe {
		s := newScribe(t, dir, 1)
		s.create(0, "/locks")
		s.create(0, "/locks/job")
		s.create(7, place(0))
		s.create(8, place(1))
		return s
	}
	at := time.Date(2026, 11, 28, 3, 0, 4, 0, time.UTC).UnixMilli()
	onward := func(s *scribe) {
		s.zxid, s.at = second, at
		s.delete(7, place(0))
		s.close()
	}
	s := begin(first)
	s.delete(8, place(1)) // 5: nobody else has it
	s.create(9, place(2)) // 6
	s.close()
	onward(begin(others))
	s = newScribe(t, late, second+1) // a server that was added: it knows nothing of the time before
	onward(s)

	want := []string{
		"/locks/job joined 3", "/locks/job acquired 3", "/locks/job joined 4",
		"/locks/job released 3 held 2s", "/locks/job acquired 4",
	}
	for _, dirs := range [][]string{{first, others}, {others, first}, {first, late, others}} {
		lines, warnings := tell(t, dirs...)
		if !slices.Equal(lines, want) || len(warnings) != 1 || !strings.Contains(warnings[0], "from 0x5 to the end of its epoch were never committed") ||
			!strings.Contains(warnings[0], first) || !strings.Contains(warnings[0], others) {
			t.Errorf("got %q, warnings %v; want %q", lines, warnings, want)
		}
	}

	// The leader has come back far behind, and was given a snapshot instead: the transaction stays in its log.
	back := t.TempDir()
	s = begin(back)
	s.delete(8, place(1))
	if err := os.WriteFile(filepath.Join(back, "snapshot.100000000"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	onward(s)
	if lines, warnings := tell(t, back, others); !slices.Equal(lines, want) || len(warnings) != 1 {
		t.Errorf("after a snapshot: got %q, warnings %v; want %q", lines, warnings, want)
	}

	// It was committed: a server that went on has it, and the other one has lost a part of its log, or was given a snapshot.
	has := t.TempDir()
	s = begin(has)
	s.delete(8, place(1))
	onward(s)
	snapshot := filepath.Join(others, "snapshot.6")
	if lines, warnings := tell(t, others, has); !slices.Contains(lines, "/locks/job left 4") || len(warnings) > 0 {
		t.Errorf("committed: got %q, warnings %v", lines, warnings)
	}
	if err := os.WriteFile(snapshot, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if lines, warnings := tell(t, others, first); !slices.Contains(lines, "/locks/job left 4") || len(warnings) > 0 {
		t.Errorf("the other one was given a snapshot: got %q, warnings %v", lines, warnings)
	}
	// Nobody went on: it is not known.
	if lines, _ := tell(t, first); !slices.Contains(lines, "/locks/job left 4") {
		t.Errorf("alone: got %q", lines)
	}
}

// A snapshot that cannot be read is named, with what to do.
func TestSnapshotOfSnappyIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := newScribe(t, dir, 0x500)
	s.create(7, place(1))
	s.close()
	if err := os.WriteFile(filepath.Join(dir, "snapshot.4ff.snappy"), []byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Read(Config{Dirs: []string{dir}, Warn: func(error) {}, Report: func(Event) error { return nil }})
	if err == nil || !strings.Contains(err.Error(), "snapshot.4ff.snappy: it is compressed with snappy") || !strings.Contains(err.Error(), "method=gz") {
		t.Errorf("got %v", err)
	}
}

// TestLogOfManyTransactions measures the time and the memory of a long log.
func TestLogOfManyTransactions(t *testing.T) {
	dir := t.TempDir()
	s := newScribe(t, dir, 1)
	s.create(0, "/locks")
	const locks, deep = 100, 10
	queues := make([][]string, locks)
	for i := range queues {
		s.create(0, fmt.Sprintf("/locks/l%d", i))
	}
	for n := 0; int(s.zxid) < *txnsFlag; n++ {
		i := n % locks
		path := fmt.Sprintf("/locks/l%d/_c_%032x-lock-%010d", i, n, n)
		s.create(int64(100+i), path)
		if queues[i] = append(queues[i], path); len(queues[i]) > deep {
			s.delete(int64(100+i), queues[i][0])
			queues[i] = queues[i][1:]
		}
	}
	s.close()
	began, events := time.Now(), 0
	if _, err := Read(Config{Dirs: []string{dir}, Warn: func(err error) { t.Error(err) }, Report: func(Event) error { events++; return nil }}); err != nil {
		t.Fatal(err)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.Logf("figure: %d transactions, %d events in %v; %d MB from the system", *txnsFlag, events, time.Since(began).Round(time.Millisecond), m.Sys>>20)
	if events < *txnsFlag/2 {
		t.Errorf("%d events are too few", events)
	}
}
