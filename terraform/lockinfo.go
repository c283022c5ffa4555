package terraform

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"holdfast"
)

// A LockInfo is the JSON object in which the clients describe a lock. The Backend answers with that of the holder.
type LockInfo struct {
	ID        string    // chosen by the client
	Operation string    // such as OperationTypeApply
	Info      string    // for people; the clients show it if the lock is held
	Who       string    // user@host
	Version   string    // of the client
	Created   time.Time // by the client's clock
	Path      string
}

// maxLockInfo bounds the body of LOCK and UNLOCK in bytes, and maxID and maxText the parts that are stored.
const (
	maxLockInfo = 64 << 10
	maxID       = 256
	maxText     = 1000
)

// parseLockInfo reads the body of LOCK or UNLOCK.
func parseLockInfo(body []byte) (LockInfo, error) {
	var i LockInfo
	if err := json.Unmarshal(body, &i); err != nil {
		return LockInfo{}, fmt.Errorf("the body is no LockInfo: %w", err)
	}
	if len(i.ID) > maxID {
		return LockInfo{}, fmt.Errorf("the ID has %d bytes: want at most %d", len(i.ID), maxID)
	}
	for _, text := range []*string{&i.Operation, &i.Info, &i.Who, &i.Version, &i.Path} {
		*text = shorten(*text, maxText)
	}
	return i, nil
}

func shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}

// statePush is the Operation of terraform state push: the one that may lock a dirty workspace.
const statePush = "state-push"

// stateMigration is the Operation of terraform init -migrate-state on the state that is replaced.
const stateMigration = "migration destination state"

// replaces reports whether the client has compared the states itself, or has asked its user: a migration has, and
// terraform state push compares serial and lineage, unless -force says not to.
func (i LockInfo) replaces() bool { return i.Operation == statePush || i.Operation == stateMigration }

// withoutLock is the Operation of a request without a lock while its state is stored, see borrow.
const withoutLock = "state without a lock"

// statePlan is the Operation of terraform plan, which stores no state.
const statePlan = "OperationTypePlan"

// The labels of a lock's node. Its owner is Who, and its reason the Operation.
const (
	labelID      = "tf-id"
	labelInfo    = "tf-info"
	labelVersion = "tf-version"
	labelCreated = "tf-created"
	labelPath    = "tf-path"
)

// options make the node of a lock tell all of the LockInfo.
func (i LockInfo) options() []holdfast.Option {
	labels := map[string]string{labelID: i.ID, labelCreated: i.Created.UTC().Format(time.RFC3339Nano)}
	for name, text := range map[string]string{labelInfo: i.Info, labelVersion: i.Version, labelPath: i.Path} {
		if text != "" {
			labels[name] = text
		}
	}
	return []holdfast.Option{holdfast.WithOwner(i.Who), holdfast.WithReason(i.Operation), holdfast.WithLabels(labels)}
}

// infoOf returns the LockInfo of a place in the queue. A lock that another program of holdfast holds has an ID, too,
// because a client takes an answer without one for no lock at all.
func infoOf(e holdfast.Entry) LockInfo {
	i := LockInfo{
		ID: e.Labels[labelID], Operation: e.Reason, Info: e.Labels[labelInfo], Who: e.Owner,
		Version: e.Labels[labelVersion], Created: e.Since, Path: e.Labels[labelPath],
	}
	if at, err := time.Parse(time.RFC3339Nano, e.Labels[labelCreated]); err == nil && !at.IsZero() {
		i.Created = at
	}
	if i.ID == "" {
		i.ID = "holdfast-" + strconv.FormatInt(e.Token, 10)
	}
	return i
}
