package terraform

import (
	"context"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"holdfast/zk"
)

// A Version is one state that was stored.
type Version struct {
	Number  int64     `json:"number"` // counts from 1
	Serial  int64     `json:"serial"`
	Lineage string    `json:"lineage"`
	Size    int64     `json:"size"`          // of the state in bytes
	MD5     string    `json:"md5"`           // of the state, as in Content-MD5
	At      time.Time `json:"at"`            // by the clock of the server's machine
	Who     string    `json:"who,omitempty"` // the holder of the lock; "" without one
	LockID  string    `json:"lock_id,omitempty"`
	From    int64     `json:"from,omitempty"` // the number of the version that was restored
	Current bool      `json:"-"`

	Name   string `json:"name"` // of the bytes
	Packed int64  `json:"packed"`
}

// An index is the content of the node …/state.
type index struct {
	Current  int64     `json:"current"` // 0: there is no state
	Next     int64     `json:"next"`    // the number of the next version
	Versions []Version `json:"versions"`

	needs string // the node of a new version, see sweep; "" is none
}

// maxVersions bounds Config.Versions, and maxIndex the list of the versions in bytes, since the index is one node: servers
// refuse requests of 1 MiB. maxPacked bounds what the versions of one workspace
// occupy in ZooKeeper, which keeps everything in memory.
const (
	maxVersions = 500
	maxIndex    = 768 << 10
	maxPacked   = 256 << 20
)

// minLeftover is the age of an upload that nobody continues: requests are shorter.
const minLeftover = 2 * transferPatience

func (b *Backend) indexNode(ws Workspace) string { return b.base(ws) + "/state" }

// index reads the index and the version of its node; -1 is a missing node.
func (b *Backend) index(ctx context.Context, ws Workspace) (index, int32, error) {
	data, stat, err := b.get(ctx, b.indexNode(ws))
	if errors.Is(err, zk.ErrNoNode) {
		return index{Next: 1}, -1, nil
	}
	if err != nil {
		return index{}, 0, err
	}
	var x index
	if err := json.Unmarshal(data, &x); err != nil {
		return index{}, 0, fmt.Errorf("the node %s has other data: %w", b.indexNode(ws), err)
	}
	return x, stat.Version, nil
}

func (x index) version(number int64) (Version, bool) {
	for _, v := range x.Versions {
		if v.Number == number {
			return v, true
		}
	}
	return Version{}, false
}

func (x index) current() (Version, bool) { return x.version(x.Current) }

func (b *Backend) lastWrite(ctx context.Context, ws Workspace) (time.Time, error) {
	x, _, err := b.index(ctx, ws)
	if err != nil || len(x.Versions) == 0 {
		return time.Time{}, err
	}
	return x.Versions[len(x.Versions)-1].At, nil
}

// errFenced means that the lock was lost before the state was stored.
var errFenced = errors.New("the lock was lost")

// store makes a state the present version of a workspace, if h still holds the lock. If h is nil, store takes the lock
// for a moment. accept looks at the present version, and can refuse the new one. The bytes are written first; then one transaction checks the lock, changes the
// index and removes the nodes of clear.
func (b *Backend) store(ctx context.Context, ws Workspace, h *holder, v Version, state []byte, clear []string, accept func(index) error) (_ Version, err error) {
	packed, err := pack(state)
	if err != nil {
		return Version{}, err
	}
	if int64(len(packed)) > maxPacked/2 && b.cfg.StateDir == "" {
		return Version{}, &refusal{status: http.StatusRequestEntityTooLarge, text: fmt.Sprintf("the state has %d bytes when compressed: want at most %d", len(packed), maxPacked/2)}
	}
	v.Size, v.MD5, v.Packed = int64(len(state)), digest(state), int64(len(packed))
	v.Name = "v" + strings.ToLower(crand.Text())
	if err := b.blobs.write(ctx, ws, v.Name, packed); err != nil {
		return Version{}, err
	}
	giveBack := func() {}
	if h == nil {
		if h, giveBack, err = b.borrow(ctx, ws); err != nil {
			_ = b.blobs.remove(ctx, ws, v.Name)
			return Version{}, err
		}
	}
	var dropped []Version
	err = b.change(ctx, ws, h, clear, func(x *index) error {
		if at, ok := x.find(v.Name); ok { // the answer to the transaction was lost
			v = at
			return errUnchanged
		}
		if err := accept(*x); err != nil {
			return err
		}
		v.Number, v.At = x.Next, time.Now().UTC()
		x.Next++
		x.Current = v.Number
		x.Versions = append(x.Versions, v)
		x.needs = b.blobs.node(ws, v.Name)
		dropped = x.trim(b.cfg.Versions, b.cfg.StateDir == "")
		return nil
	})
	giveBack()
	if err != nil {
		if !zk.MayHaveHappened(err) && ctx.Err() == nil {
			_ = b.blobs.remove(ctx, ws, v.Name) // else it is swept later
		}
		return Version{}, err
	}
	for _, old := range dropped {
		_ = b.blobs.remove(ctx, ws, old.Name)
	}
	b.sweep(ctx, ws)
	return v, nil
}

func (x index) find(name string) (Version, bool) {
	for _, v := range x.Versions {
		if v.Name == name {
			return v, true
		}
	}
	return Version{}, false
}

// trim drops the oldest versions that are too many, and never the present one.
func (x *index) trim(most int, bounded bool) (dropped []Version) {
	packed, listed := int64(0), 0
	length := func(v Version) int {
		text, err := json.Marshal(v)
		if err != nil {
			panic(err) // it has strings and numbers only, and times of this process
		}
		return len(text) + 1
	}
	for _, v := range x.Versions {
		packed += v.Packed
		listed += length(v)
	}
	for i := 0; i < len(x.Versions) && (len(x.Versions) > most || listed > maxIndex || bounded && packed > maxPacked); {
		if v := x.Versions[i]; v.Number != x.Current {
			dropped = append(dropped, v)
			packed -= v.Packed
			listed -= length(v)
			x.Versions = append(x.Versions[:i:i], x.Versions[i+1:]...)
			continue
		}
		i++
	}
	return dropped
}

// errUnchanged ends change without an error.
var errUnchanged = errors.New("nothing to change")

// change replaces the index in one transaction with the check of the lock. edit is called again if somebody else has
// changed the index, or if it is unknown whether the transaction was executed.
func (b *Backend) change(ctx context.Context, ws Workspace, h *holder, clear []string, edit func(*index) error) error {
	doubt := error(nil)
	for attempt := 0; ; attempt++ {
		if attempt > 0 {
			// A write comes first. Then the server that we reach now shows what an earlier one may have done for us.
			err := repeat(ctx, func() error {
				_, err := b.cfg.Client.Multi(ctx, zk.CheckOp(b.cfg.Root, zk.AnyVersion))
				return err
			})
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				return errors.Join(doubt, err)
			}
		}
		x, version, err := b.index(ctx, ws)
		if err != nil {
			return errors.Join(doubt, err)
		}
		switch err := edit(&x); {
		case errors.Is(err, errUnchanged):
			return nil
		case err != nil:
			return err
		}
		data, err := json.Marshal(x)
		if err != nil {
			return err
		}
		if version < 0 {
			if err := b.cfg.Client.CreateAll(ctx, b.base(ws), b.cfg.ACL...); err != nil {
				return err
			}
		}
		var ops []zk.Op
		if h != nil {
			ops = append(ops, h.check())
		}
		if x.needs != "" {
			ops = append(ops, zk.CheckOp(x.needs, 0)) // sweep changes the version
		}
		if version < 0 {
			ops = append(ops, zk.CreateOp(b.indexNode(ws), data, zk.Persistent, b.cfg.ACL...))
		} else {
			ops = append(ops, zk.SetOp(b.indexNode(ws), data, version))
		}
		for _, node := range clear {
			ops = append(ops, zk.DeleteOp(node, zk.AnyVersion))
		}
		results, err := b.cfg.Client.Multi(ctx, ops...)
		switch {
		case err == nil:
			return nil
		case h != nil && len(results) > 0 && errors.Is(results[0].Err, zk.ErrNoNode):
			return errFenced
		case x.needs != "" && len(results) > 1 && (errors.Is(results[1].Err, zk.ErrNoNode) || errors.Is(results[1].Err, zk.ErrBadVersion)): // behind the check of the lock
			return errMissing
		case errors.Is(err, zk.ErrNoNode) && len(clear) > 0: // somebody has forgiven it meanwhile
			clear = b.present(ctx, clear)
		case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNodeExists), zk.SafeToRetry(err):
		case zk.MayHaveHappened(err) && !errors.Is(err, zk.ErrUnimplemented):
			doubt = err
		default:
			return err
		}
		if ctx.Err() != nil {
			return errors.Join(doubt, context.Cause(ctx))
		}
	}
}

// present returns the nodes that exist.
func (b *Backend) present(ctx context.Context, nodes []string) (some []string) {
	for _, node := range nodes {
		if _, _, err := b.get(ctx, node); !errors.Is(err, zk.ErrNoNode) {
			some = append(some, node)
		}
	}
	return some
}

// load reads the bytes of a version.
func (b *Backend) load(ctx context.Context, ws Workspace, v Version) ([]byte, error) {
	packed, err := b.blobs.read(ctx, ws, v.Name)
	if err != nil {
		return nil, err
	}
	state, err := unpack(packed, v.Size)
	if err == nil && digest(state) != v.MD5 {
		err = fmt.Errorf("version %d of %s is damaged", v.Number, ws)
	}
	return state, err
}

// sweep removes what interrupted uploads have left. An upload can look old because the server's clock was set. So sweep
// changes the node of a version before it removes the bytes, in a transaction that fails if the index has changed:
// either the upload has entered its version into the index, or it finds the change and fails.
func (b *Backend) sweep(ctx context.Context, ws Workspace) {
	names, err := b.blobs.list(ctx, ws)
	if err != nil {
		return
	}
	x, version, err := b.index(ctx, ws)
	if err != nil {
		return
	}
	for name, old := range names {
		if _, ok := x.find(name); ok || old <= leftoverAge {
			continue
		}
		if node := b.blobs.node(ws, name); node != "" {
			err = repeat(ctx, func() error {
				_, err := b.cfg.Client.Multi(ctx, zk.CheckOp(b.indexNode(ws), version), zk.SetOp(node, nil, zk.AnyVersion))
				return err
			})
		}
		if err == nil {
			_ = b.blobs.remove(ctx, ws, name)
		}
	}
}

// leftoverAge is minLeftover, but in tests.
var leftoverAge = minLeftover
