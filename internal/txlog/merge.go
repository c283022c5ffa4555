package txlog

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A fileName is a log or a snapshot, and the zxid in its name.
type fileName struct {
	path string
	zxid int64
}

// find returns the logs and the snapshots of a server: those in dir, or in version-2 below it.
func find(dir string) (logs, snapshots []fileName, err error) {
	for _, d := range []string{dir, filepath.Join(dir, "version-2")} {
		entries, err := os.ReadDir(d)
		if errors.Is(err, fs.ErrNotExist) && d != dir {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		for _, e := range entries {
			kind, hex, ok := strings.Cut(e.Name(), ".")
			hex, _, _ = strings.Cut(hex, ".") // .gz, .snappy
			zxid, err := strconv.ParseUint(hex, 16, 64)
			if !ok || err != nil || !e.Type().IsRegular() {
				continue
			}
			f := fileName{filepath.Join(d, e.Name()), int64(zxid)}
			switch kind {
			case "log":
				logs = append(logs, f)
			case "snapshot":
				snapshots = append(snapshots, f)
			}
		}
	}
	byZxid := func(a, b fileName) int { return cmp.Compare(a.zxid, b.zxid) }
	slices.SortFunc(logs, byZxid)
	slices.SortFunc(snapshots, byZxid)
	if len(logs) == 0 {
		return nil, nil, &fs.PathError{Op: "read", Path: dir, Err: errors.New("there is no log of a ZooKeeper server (log.…) here or in version-2 below it, and no store of holdfast serve")}
	}
	return logs, snapshots, nil
}

// A server has the logs of one server, one after the other.
type server struct {
	dir       string
	logs      []fileName
	snapshots []fileName
	open      *logFile
	head      txn // the next transaction
	over      bool

	before int64           // the zxid of the transaction before head; 0 if there is none
	gap    bool            // some of what was between them is damaged
	later  map[int64]int64 // by epoch, see keeps
}

// advance reads the next transaction into head. warn gets what is damaged; what follows in that file is skipped.
func (s *server) advance(warn func(error)) {
	s.before, s.gap = s.head.zxid, false
	for {
		if s.open == nil {
			if len(s.logs) == 0 {
				s.over = true
				return
			}
			l, err := openLog(s.logs[0].path)
			s.logs = s.logs[1:]
			if err != nil {
				s.gap = true
				warn(err)
				continue
			}
			s.open = l
		}
		t, err := s.open.next()
		if err == nil {
			s.head = t
			return
		}
		if err != io.EOF {
			s.gap = true
			warn(err)
		}
		s.open.close()
		s.open = nil
	}
}

func (s *server) close() {
	if s.open != nil {
		s.open.close()
	}
}

// epoch returns the epoch of a zxid: the number of the leader that has given it.
func epoch(zxid int64) int64 { return zxid >> 32 }

// lacks reports whether the log of s shows that s went on without a transaction of an earlier epoch.
func (s *server) lacks(zxid int64) bool {
	return !s.over && !s.gap && s.before > 0 && s.before < zxid && epoch(s.head.zxid) > epoch(zxid) && !s.snapshotBetween(zxid, s.head.zxid)
}

// snapshotBetween reports whether s has a snapshot of a state at from or later, and before to. A server that is far behind is
// given a snapshot by the leader, so its log before it says nothing of what was committed.
func (s *server) snapshotBetween(from, to int64) bool {
	return slices.ContainsFunc(s.snapshots, func(f fileName) bool { return f.zxid >= from && f.zxid < to })
}

// keeps reports whether s, which has head, went on with it in a later epoch. Then head was committed: a server removes what
// was not before it follows a new leader, or it is given a snapshot.
func (s *server) keeps() bool {
	e := epoch(s.head.zxid)
	next, known := s.later[e]
	if !known {
		next = s.firstAfter(e)
		if s.later == nil {
			s.later = make(map[int64]int64)
		}
		s.later[e] = next
	}
	return next > 0 && !s.snapshotBetween(s.head.zxid, next)
}

// firstAfter returns the zxid of the first transaction after head that is of a later epoch than e, or 0.
func (s *server) firstAfter(e int64) int64 {
	ahead := server{logs: s.logs}
	if l, err := openLog(s.open.path); err == nil {
		if err := l.seek(s.open.at); err == nil {
			ahead.open = l
		} else {
			l.close()
		}
	}
	defer ahead.close()
	for !ahead.over && epoch(ahead.head.zxid) <= e {
		ahead.advance(func(error) {})
	}
	if ahead.over {
		return 0
	}
	return ahead.head.zxid
}

// A merger reads the logs of several servers as one.
type merger struct {
	servers []*server
	warn    func(error)
	told    map[int64]bool // epochs of which it is said that some transactions were never committed
}

// merge calls do with the transactions of all servers, in their order, each once. warn gets what is damaged.
func merge(servers []*server, warn func(error), do func(*txn) error) error {
	m := merger{servers, warn, make(map[int64]bool)}
	for _, s := range servers {
		defer s.close()
		s.advance(warn)
	}
	for {
		var next *server
		for _, s := range servers {
			if !s.over && (next == nil || s.head.zxid < next.head.zxid) {
				next = s
			}
		}
		if next == nil {
			return nil
		}
		zxid := next.head.zxid
		if !m.dropped(zxid) {
			if err := do(&next.head); err != nil {
				return err
			}
		}
		for _, s := range servers {
			for !s.over && s.head.zxid <= zxid {
				s.advance(warn)
			}
		}
	}
}

// dropped reports whether a transaction was never committed, as far as the logs tell: another server went on in a later
// epoch without it, and no server that has it did. A leader writes a transaction before the others agree, and may lose its
// office in between.
func (m *merger) dropped(zxid int64) bool {
	i := slices.IndexFunc(m.servers, func(s *server) bool { return s.lacks(zxid) })
	if i < 0 {
		return false
	}
	var has string
	for _, s := range m.servers {
		if s.over || s.head.zxid != zxid {
			continue
		}
		if s.keeps() {
			return false
		}
		has = s.dir
	}
	if e := epoch(zxid); !m.told[e] {
		m.told[e] = true
		m.warn(fmt.Errorf("%s: the transactions from 0x%x to the end of its epoch were never committed, and are left out: %s went on in a later epoch without them", has, zxid, m.servers[i].dir))
	}
	return true
}
