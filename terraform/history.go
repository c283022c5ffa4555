package terraform

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"holdfast"
)

// Errors of History, Read and Restore. Compare them with errors.Is.
var (
	ErrNoVersion = errors.New("no such version")
	ErrLocked    = errors.New("the workspace is locked")
)

// History returns the kept versions, the oldest first.
func (b *Backend) History(ctx context.Context, ws Workspace) ([]Version, error) {
	if err := ws.check(); err != nil {
		return nil, err
	}
	x, _, err := b.index(ctx, ws)
	for i := range x.Versions {
		x.Versions[i].Current = x.Versions[i].Number == x.Current
	}
	return x.Versions, err
}

// Read returns the state of a version; 0 is the present one. The error is ErrNoVersion if there is none. States hold
// secrets.
func (b *Backend) Read(ctx context.Context, ws Workspace, number int64) ([]byte, Version, error) {
	if err := ws.check(); err != nil {
		return nil, Version{}, err
	}
	return b.read(ctx, ws, number, func(int64) bool { return true })
}

// read is Read for a valid workspace. grow is called with the size of the state before it is in memory.
func (b *Backend) read(ctx context.Context, ws Workspace, number int64, grow func(int64) bool) ([]byte, Version, error) {
	for {
		x, _, err := b.index(ctx, ws)
		if err != nil {
			return nil, Version{}, err
		}
		n := number
		if n == 0 {
			n = x.Current
		}
		v, ok := x.version(n)
		if !ok {
			return nil, Version{}, fmt.Errorf("%s: %w", ws, ErrNoVersion)
		}
		v.Current = n == x.Current
		if !grow(v.Size) {
			return nil, v, errShare
		}
		state, err := b.load(ctx, ws, v)
		if errors.Is(err, errMissing) && number == 0 {
			if y, _, yerr := b.index(ctx, ws); yerr == nil && y.Current != x.Current {
				grow(-v.Size)
				continue // newer versions have replaced it while we read
			}
		}
		return state, v, err
	}
}

// Restore makes an old version the present one. It gets the serial after the present one's, so clients take it for
// the newest. The error is ErrLocked if somebody holds the lock.
func (b *Backend) Restore(ctx context.Context, ws Workspace, number int64, who string) (Version, error) {
	state, old, err := b.Read(ctx, ws, number)
	if err != nil {
		return Version{}, err
	}
	if f := b.thawed(ctx, ws, 0, ""); f != nil {
		return Version{}, f
	}
	info := LockInfo{ID: crand.Text(), Operation: "restore", Who: who, Created: time.Now().UTC(), Info: fmt.Sprintf("holdfast tf restore, version %d", number)}
	h, release, err := b.hold(ctx, ws, info)
	if errors.Is(err, holdfast.ErrLocked) {
		return Version{}, fmt.Errorf("%s: %w", ws, ErrLocked)
	}
	if err != nil {
		return Version{}, err
	}
	defer release()
	x, _, err := b.index(ctx, ws)
	if err != nil {
		return Version{}, err
	}
	v := Version{Serial: old.Serial, Lineage: old.Lineage, Who: who, LockID: info.ID, From: old.Number}
	for _, kept := range x.Versions {
		v.Serial = max(v.Serial, kept.Serial+1)
	}
	if state, err = withSerial(state, v.Serial); err != nil {
		return Version{}, err
	}
	return b.store(ctx, ws, h, v, state, nil, func(index) error { return nil })
}

// withSerial replaces the serial of a state and leaves every other byte.
func withSerial(state []byte, serial int64) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(state))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("the version is no state")
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		if key == "serial" {
			end := int(d.InputOffset())
			text := strconv.FormatInt(serial, 10)
			return bytes.Join([][]byte{state[:end-len(value)], []byte(text), state[end:]}, nil), nil
		}
	}
	return nil, errors.New("the version has no serial")
}
