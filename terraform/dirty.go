package terraform

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"holdfast/zk"
)

// An Unstored is a run whose state was refused or did not arrive. While there is one, the workspace is dirty: only
// its holder and terraform state push can write.
type Unstored struct {
	ID        string    `json:"id"` // of the lock
	Who       string    `json:"who"`
	Operation string    `json:"operation"`
	At        time.Time `json:"at"`
	Why       string    `json:"why"`
}

const notArrived = "the upload did not end"

func newUnstored(i LockInfo, why string) Unstored {
	return Unstored{ID: i.ID, Who: i.Who, Operation: i.Operation, At: time.Now().UTC().Truncate(time.Second), Why: shorten(why, maxText)}
}

// maxUnstored is how many runs a workspace remembers.
const maxUnstored = 100

func (b *Backend) dirtyDir(ws Workspace) string { return b.base(ws) + "/dirty" }

func (b *Backend) dirtyNode(ws Workspace, id string) string {
	sum := sha256.Sum256([]byte(id))
	return b.dirtyDir(ws) + "/" + hex.EncodeToString(sum[:16])
}

// markUnstored writes that a run's state is not stored. It comes before the upload, so no crash can hide it.
func (b *Backend) markUnstored(ctx context.Context, ws Workspace, u Unstored) error {
	data, err := json.Marshal(u)
	if err != nil {
		return err
	}
	return b.put(ctx, b.dirtyNode(ws, u.ID), data)
}

// settleUnstored writes what this process knows about a run's state and could not write before.
func (b *Backend) settleUnstored(ctx context.Context, ws Workspace, i LockInfo) error {
	key := b.LockPath(ws) + " " + i.ID
	b.mu.Lock()
	why, ok := b.unstored.texts[key]
	b.mu.Unlock()
	if !ok {
		return nil
	}
	if err := b.markUnstored(ctx, ws, newUnstored(i, why)); err != nil {
		return err
	}
	b.mu.Lock()
	b.unstored.remove(key)
	b.mu.Unlock()
	return nil
}

// Unstored returns the runs whose state is not stored, without that of the present holder.
func (b *Backend) Unstored(ctx context.Context, ws Workspace) ([]Unstored, error) {
	if err := ws.check(); err != nil {
		return nil, err
	}
	all, err := b.unstoredOf(ctx, ws)
	if err != nil || len(all) == 0 {
		return all, err
	}
	h, err := b.holder(ctx, ws)
	if err != nil || h == nil {
		return all, err
	}
	others := all[:0]
	for _, u := range all {
		if u.ID != h.info.ID {
			others = append(others, u)
		}
	}
	return others, nil
}

func (b *Backend) unstoredOf(ctx context.Context, ws Workspace) (all []Unstored, err error) {
	names, err := b.children(ctx, b.dirtyDir(ws))
	if err != nil {
		return nil, err
	}
	for _, name := range names[:min(len(names), maxUnstored)] {
		data, _, err := b.get(ctx, b.dirtyDir(ws)+"/"+name)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			continue
		case err != nil:
			return nil, err
		}
		var u Unstored
		if json.Unmarshal(data, &u) != nil {
			u.Why = "unreadable node " + name
		}
		all = append(all, u)
	}
	return all, nil
}

// Forgive forgets the runs whose state is not stored, and returns them. The next run plans on the stored state.
func (b *Backend) Forgive(ctx context.Context, ws Workspace) ([]Unstored, error) {
	if err := ws.check(); err != nil {
		return nil, err
	}
	all, err := b.unstoredOf(ctx, ws)
	if err != nil {
		return nil, err
	}
	return all, b.removeChildren(ctx, b.dirtyDir(ws))
}

// open refuses a LOCK of a frozen workspace, and of a dirty one.
func (b *Backend) open(ctx context.Context, ws Workspace, info LockInfo) error {
	if err := b.thawed(ctx, ws, http.StatusLocked, info.ID); err != nil {
		return err
	}
	if info.Operation == statePush {
		return nil
	}
	all, err := b.unstoredOf(ctx, ws)
	if err != nil {
		return err
	}
	for _, u := range all {
		if u.ID == info.ID {
			continue // the run itself, which asks again
		}
		h, err := b.holder(ctx, ws)
		if err == nil && h != nil && h.info.ID == u.ID {
			continue // it still holds the lock, and may store its state
		}
		return err423(u, ws)
	}
	return nil
}

// err423 is the answer to a LOCK of a dirty workspace. Terraform 1.11 shows nothing of it but the ID.
func err423(u Unstored, ws Workspace) error {
	_, host, ok := strings.Cut(u.Who, "@")
	if !ok {
		host = "its host"
	}
	return &refusal{status: http.StatusLocked, holder: &LockInfo{
		ID: fmt.Sprintf("%s (its state was not stored: holdfast tf forgive %s)", u.ID, ws), Operation: u.Operation, Who: u.Who, Created: u.At,
		Info: fmt.Sprintf("the state of run %s by %s was not stored (%s). If the client could save it, it is in errored.tfstate on %s: push it with tofu state push errored.tfstate or terraform state push errored.tfstate. Otherwise: holdfast tf forgive %s",
			u.ID, u.Who, u.Why, host, ws),
	}}
}
