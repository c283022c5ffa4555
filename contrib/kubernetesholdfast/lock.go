// Package kubernetesholdfast lets client-go and controller-runtime elect their leader over a node in ZooKeeper: for
// candidates in several clusters, or outside of any. It is a module of its own, so programs without it do not get
// client-go.
//
//	lock, err := kubernetesholdfast.New(c, "/leaders/controller", identity)
//	…
//	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{Lock: lock, …})
//
// With controller-runtime, it is manager.Options.LeaderElectionResourceLockInterface. The package starts no
// goroutine.
package kubernetesholdfast

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"holdfast/zk"
)

// A Lock is the resourcelock.Interface of one candidate. It is safe for concurrent use.
//
// A leader that was paused goes on for up to RenewDeadline after it runs again, while another leads: client-go does not stop when it
// reads the other's record. LeaderElector.IsLeader is false then.
//
// The record of the election is the data of one persistent node. As in Kubernetes, the candidates measure the
// time since its last change by their own clocks, so the record outlives sessions. Do not remove the node
// while a candidate leads: another would lead at once.
type Lock struct {
	client   *zk.Client
	path     string
	identity string
	acl      []zk.ACL

	mu      sync.Mutex
	version int32 // of the record that was read or written last; guarded by mu
	known   bool  // whether there is one; guarded by mu
}

var _ resourcelock.Interface = (*Lock)(nil)

// New makes the lock of a candidate. The identity must differ from that of every other candidate, also of earlier
// processes. The node at path, and those above it, are made when they are missing, with the access control list acl; by default
// everybody may do everything. New sends nothing. The error is zk.ErrInvalidPath, or zk.ErrBadArguments without an identity.
func New(c *zk.Client, path, identity string, acl ...zk.ACL) (*Lock, error) {
	if err := zk.ValidatePath(path); err != nil {
		return nil, fmt.Errorf("kubernetesholdfast: %w", err)
	}
	if path == "/" {
		return nil, fmt.Errorf("kubernetesholdfast: %w: the election needs a node of its own", zk.ErrInvalidPath)
	}
	if identity == "" {
		return nil, fmt.Errorf("kubernetesholdfast: %w: the identity is empty", zk.ErrBadArguments)
	}
	return &Lock{client: c, path: path, identity: identity, acl: acl}, nil
}

// resource is the kind of thing that errors are about.
var resource = schema.GroupResource{Group: "zookeeper", Resource: "nodes"}

// Get reads the record. The error is apierrors.NewNotFound if there is none.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	data, stat, err := l.client.Get(ctx, l.path)
	if err != nil {
		return nil, nil, l.fail("get", err)
	}
	var record resourcelock.LeaderElectionRecord
	if len(data) > 0 {
		if err := json.Unmarshal(data, &record); err != nil {
			return nil, nil, fmt.Errorf("the node %s has something else than a record of an election: %w", l.path, err)
		}
	}
	l.saw(stat.Version)
	return &record, data, nil
}

// Create makes the record. The error is apierrors.NewAlreadyExists if there is one.
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	data, err := json.Marshal(record)
	if err != nil {
		return err
	}
	ctx, cancel := inTime(ctx, record)
	defer cancel()
	_, stat, err := l.client.Create(ctx, l.path, data, zk.Persistent, l.acl...)
	if errors.Is(err, zk.ErrNoNode) {
		if err := l.client.CreateAll(ctx, path.Dir(l.path), l.acl...); err != nil {
			return fmt.Errorf("create the nodes above the record of the election: %w", err)
		}
		_, stat, err = l.client.Create(ctx, l.path, data, zk.Persistent, l.acl...)
	}
	if err != nil {
		return l.fail("create", err)
	}
	l.saw(stat.Version)
	return nil
}

// Update replaces the record that was read or written last. The error is apierrors.NewConflict if another candidate
// has changed it since, and apierrors.NewNotFound if it is gone. After a lost connection, Update may have succeeded;
// client-go then reads the record.
//
// Update fails if the answer takes more than a tenth of the lease duration. client-go counts its lease from the answer,
// and the others count from the change. Its usual durations of 15, 10 and 2 s allow for a difference of 3 s. A record
// without a holder is a release, which begins no lease. So only ctx limits it.
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	version, known := l.version, l.known
	l.mu.Unlock()
	if !known {
		return fmt.Errorf("update %s: call Get or Create first", l.path)
	}
	data, err := json.Marshal(record)
	if err != nil {
		return err
	}
	ctx, cancel := inTime(ctx, record)
	defer cancel()
	stat, err := l.client.Set(ctx, l.path, data, version)
	if err != nil {
		return l.fail("update", err)
	}
	l.saw(stat.Version)
	return nil
}

// inTime limits a change that begins a lease to a tenth of the lease duration. For a release, client-go writes a
// duration of 1 s, which says nothing about the time that an answer may take.
func inTime(ctx context.Context, record resourcelock.LeaderElectionRecord) (context.Context, context.CancelFunc) {
	if record.HolderIdentity == "" {
		return context.WithCancel(ctx)
	}
	limit := time.Duration(record.LeaseDurationSeconds) * time.Second / 10
	if limit <= 0 {
		limit = time.Second
	}
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v, a tenth of the lease duration: %w", limit, context.DeadlineExceeded))
}

func (l *Lock) saw(version int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.version, l.known = version, true
}

// fail returns err as one of Kubernetes's API where client-go looks for it.
func (l *Lock) fail(op string, err error) error {
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return apierrors.NewNotFound(resource, l.path)
	case errors.Is(err, zk.ErrNodeExists):
		return apierrors.NewAlreadyExists(resource, l.path)
	case errors.Is(err, zk.ErrBadVersion):
		return apierrors.NewConflict(resource, l.path, errors.New("another candidate has changed the record"))
	}
	return fmt.Errorf("%s the record of the election: %w", op, err)
}

// RecordEvent does nothing: an event needs an object of Kubernetes. LeaderCallbacks report changes.
func (l *Lock) RecordEvent(string) {}

// Identity returns the identity of the candidate.
func (l *Lock) Identity() string { return l.identity }

// Describe returns the path of the node.
func (l *Lock) Describe() string { return l.path }
