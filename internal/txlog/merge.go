package txlog

import (
	"cmp"
	"errors"
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
		return nil, nil, &fs.PathError{Op: "read", Path: dir, Err: errors.New("there is no log of a ZooKeeper server (log.…) here or in version-2 below it")}
	}
	return logs, snapshots, nil
}

// A server has the logs of one server, one after the other.
type server struct {
	logs []fileName
	open *logFile
	head txn // the next transaction
	over bool
}

// advance reads the next transaction into head. warn gets what is damaged; what follows in that file is skipped.
func (s *server) advance(warn func(error)) {
	for {
		if s.open == nil {
			if len(s.logs) == 0 {
				s.over = true
				return
			}
			l, err := openLog(s.logs[0].path)
			s.logs = s.logs[1:]
			if err != nil {
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

// merge calls do with the transactions of all servers, in their order, each once. warn gets what is damaged.
func merge(servers []*server, warn func(error), do func(*txn) error) error {
	for _, s := range servers {
		defer s.close()
		s.advance(warn)
	}
	last := int64(-1)
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
		if next.head.zxid > last {
			last = next.head.zxid
			if err := do(&next.head); err != nil {
				return err
			}
		}
		next.advance(warn)
	}
}
