package terraform

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"holdfast/zk"
)

// blobs keep the bytes of versions. Each has a name that is used once. A version that no pointer names is a leftover.
type blobs interface {
	write(ctx context.Context, ws Workspace, name string, data []byte) error
	read(ctx context.Context, ws Workspace, name string) ([]byte, error)
	remove(ctx context.Context, ws Workspace, name string) error
	// node is the node that exists as long as the version does, "" if there is none.
	node(ws Workspace, name string) string
	// list returns the names, each with its age.
	list(ctx context.Context, ws Workspace) (map[string]time.Duration, error)
}

// errMissing is the error of a version whose bytes are gone.
var errMissing = errors.New("the bytes of the version are gone")

// pieceBytes is the size of a piece. Servers refuse requests of 1 MiB.
const pieceBytes = 512 << 10

// nodeBlobs keep a version as nodes, one for each piece.
type nodeBlobs struct{ b *Backend }

func (n nodeBlobs) dir(ws Workspace) string { return n.b.base(ws) + "/versions" }

func (n nodeBlobs) node(ws Workspace, name string) string { return n.dir(ws) + "/" + name }

func (n nodeBlobs) write(ctx context.Context, ws Workspace, name string, data []byte) error {
	dir := n.dir(ws) + "/" + name
	if err := n.b.cfg.Client.CreateAll(ctx, dir, n.b.cfg.ACL...); err != nil {
		return err
	}
	for i := 0; i == 0 || len(data) > 0; i++ {
		piece := data[:min(len(data), pieceBytes)]
		data = data[len(piece):]
		if err := n.b.make(ctx, fmt.Sprintf("%s/%04d", dir, i), piece); err != nil {
			return err
		}
	}
	return nil
}

func (n nodeBlobs) read(ctx context.Context, ws Workspace, name string) ([]byte, error) {
	dir := n.dir(ws) + "/" + name
	pieces, err := n.b.children(ctx, dir)
	if err != nil {
		return nil, err
	}
	var all []byte
	for i := range pieces {
		data, _, err := n.b.get(ctx, fmt.Sprintf("%s/%04d", dir, i))
		if errors.Is(err, zk.ErrNoNode) {
			return nil, errMissing
		}
		if err != nil {
			return nil, err
		}
		all = append(all, data...)
	}
	if len(pieces) == 0 {
		return nil, errMissing
	}
	return all, nil
}

func (n nodeBlobs) remove(ctx context.Context, ws Workspace, name string) error {
	dir := n.dir(ws) + "/" + name
	if err := n.b.removeChildren(ctx, dir); err != nil {
		return err
	}
	return n.b.remove(ctx, dir)
}

func (n nodeBlobs) list(ctx context.Context, ws Workspace) (map[string]time.Duration, error) {
	names, err := n.b.children(ctx, n.dir(ws))
	if err != nil {
		return nil, err
	}
	all := make(map[string]time.Duration)
	made := make(map[string]zk.Stat)
	var last zk.Stat // the newest: its time is the latest that we know of the server's clock, which can be set
	for _, name := range names {
		_, stat, err := n.b.get(ctx, n.node(ws, name))
		if err != nil {
			continue
		}
		made[name] = stat
		if stat.Czxid > last.Czxid {
			last = stat
		}
	}
	for name, stat := range made {
		all[name] = time.UnixMilli(last.Ctime).Sub(time.UnixMilli(stat.Ctime))
	}
	return all, nil
}

// fileBlobs keep a version as a file. It appears complete or not at all.
type fileBlobs struct{ dir string }

// node returns none: a complete file is never swept.
func (fileBlobs) node(Workspace, string) string { return "" }

// root opens the directory of a workspace. Names cannot leave it.
func (f fileBlobs) root(ws Workspace) (*os.Root, error) {
	top, err := os.OpenRoot(f.dir)
	if err != nil {
		return nil, err
	}
	defer top.Close()
	path := filepath.Join(ws.Project, ws.Name)
	if err := top.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	return top.OpenRoot(path)
}

func (f fileBlobs) write(_ context.Context, ws Workspace, name string, data []byte) (err error) {
	dir, err := f.root(ws)
	if err != nil {
		return err
	}
	defer dir.Close()
	file, err := dir.OpenFile(name+".tmp", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = dir.Rename(name+".tmp", name)
	}
	if err != nil {
		dir.Remove(name + ".tmp")
		return err
	}
	return syncDirs(f.dir, filepath.Join(f.dir, ws.Project), filepath.Join(f.dir, ws.Project, ws.Name))
}

// syncDirs makes new names durable.
func syncDirs(dirs ...string) error {
	for _, dir := range dirs {
		d, err := os.Open(dir)
		if err != nil {
			return err
		}
		err = d.Sync()
		d.Close()
		if err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrInvalid) && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}

func (f fileBlobs) read(_ context.Context, ws Workspace, name string) ([]byte, error) {
	dir, err := f.root(ws)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	data, err := dir.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errMissing
	}
	return data, err
}

func (f fileBlobs) remove(_ context.Context, ws Workspace, name string) error {
	dir, err := f.root(ws)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// unfinished is the name of a file whose upload has not ended. A complete version that no index has is not removed: the
// directory can have files of others, and versions of another store.
var unfinished = regexp.MustCompile(`^v[a-z2-7]{26}\.tmp$`)

func (f fileBlobs) list(_ context.Context, ws Workspace) (map[string]time.Duration, error) {
	dir, err := f.root(ws)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return nil, err
	}
	all := make(map[string]time.Duration)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && unfinished.MatchString(e.Name()) {
			all[e.Name()] = time.Since(info.ModTime())
		}
	}
	return all, nil
}

// pack compresses a state.
func pack(state []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(state); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// unpack is the inverse. size is the length of the state.
func unpack(packed []byte, size int64) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	state, err := io.ReadAll(io.LimitReader(z, size+1))
	if err != nil {
		return nil, err
	}
	if int64(len(state)) != size {
		return nil, fmt.Errorf("the version has %d bytes, and %d were stored", len(state), size)
	}
	return state, nil
}
