package terraform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"holdfast/zk"
)

// A Freeze says why nobody can lock a workspace, or all workspaces of a project. A run that holds the lock already can
// finish and store its state.
type Freeze struct {
	Reason string    `json:"reason"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`
}

// place is the content of the node of a project or a workspace.
type place struct {
	Frozen *Freeze `json:"frozen,omitempty"`
}

// freezeNode is the node for a workspace, or for the whole project if it has no name.
func (b *Backend) freezeNode(ws Workspace) (string, error) {
	whole := ws
	if ws.Name == "" {
		whole.Name = DefaultName
	}
	if err := whole.check(); err != nil {
		return "", err
	}
	if ws.Name == "" {
		return b.cfg.Root + "/" + ws.Project, nil
	}
	return b.base(ws), nil
}

// Freeze refuses every LOCK of a workspace from now on, or of a whole project if ws has no Name. It does not wait for
// a run that holds the lock.
func (b *Backend) Freeze(ctx context.Context, ws Workspace, f Freeze) error {
	node, err := b.freezeNode(ws)
	if err != nil {
		return err
	}
	f.Reason, f.By = shorten(f.Reason, maxText), shorten(f.By, maxText)
	data, err := json.Marshal(place{&f})
	if err != nil {
		return err
	}
	return b.put(ctx, node, data)
}

// Thaw ends a Freeze. It returns false if there was none.
func (b *Backend) Thaw(ctx context.Context, ws Workspace) (bool, error) {
	node, err := b.freezeNode(ws)
	if err != nil {
		return false, err
	}
	f, err := b.frozen(ctx, node)
	if err != nil || f == nil {
		return false, err
	}
	return true, b.put(ctx, node, nil)
}

func (b *Backend) frozen(ctx context.Context, node string) (*Freeze, error) {
	data, _, err := b.get(ctx, node)
	if errors.Is(err, zk.ErrNoNode) || err == nil && len(data) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var p place
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("the node %s has other data: %w", node, err)
	}
	return p.Frozen, nil
}

// thawed returns a refusal if the workspace or its project is frozen.
func (b *Backend) thawed(ctx context.Context, ws Workspace, status int, id string) error {
	for _, at := range []Workspace{{ws.Project, ""}, ws} {
		node, err := b.freezeNode(at)
		if err != nil {
			return err
		}
		f, err := b.frozen(ctx, node)
		if err != nil {
			return err
		}
		if f == nil {
			continue
		}
		if h, err := b.holder(ctx, ws); id != "" && err == nil && h != nil && h.info.ID == id {
			return nil // it has locked before
		}
		what := ws.String()
		if at.Name == "" {
			what = ws.Project
		}
		return &refusal{status: status, holder: &LockInfo{
			ID: fmt.Sprintf("frozen: %s", f.Reason), Operation: "freeze", Who: f.By, Created: f.At,
			Info: fmt.Sprintf("%s is frozen: %s; to end it: holdfast tf freeze --end %s", what, f.Reason, what),
		}}
	}
	return nil
}
