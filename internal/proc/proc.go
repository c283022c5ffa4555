// Package proc identifies the processes that a session belongs to, so that a server on the same machine can end the
// session when they are dead.
//
// A process id alone does not identify a process, because ids are reused. A Group therefore has the start time of each
// process, the pid namespace in which the ids are valid, and the boot in which they are. If a process cannot be
// told from another one, this package takes it for alive: an error makes the end of a session late, never early.
//
// Linux has all that this needs. Elsewhere, Self and Wait return errors.ErrUnsupported.
package proc

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"slices"
	"syscall"
)

// An ID identifies a process within a Group.
type ID struct {
	PID   int32
	Start uint64 // clock ticks from the boot to the start of the process
}

// A Group is processes of one pid namespace. A session that belongs to a Group ends when it has no connection and all of
// them are dead. The first is the client.
type Group struct {
	Boot      [16]byte
	Namespace uint64 // the inode of the pid namespace
	IDs       []ID
}

// Most is the most processes of a Group. A connect request with so many is no longer than servers accept.
const Most = 64

// ErrTooMany is the error of With for more than Most.
var ErrTooMany = errors.New("too many processes")

// Self returns the Group of this process alone.
func Self() (Group, error) {
	if k := simulated.Load(); k != nil {
		return k.Self()
	}
	g, err := self()
	g.IDs = slices.Clone(g.IDs)
	return g, err
}

// With returns g and the process pid. It drops those of g that are known to be dead, except for the first.
func (g Group) With(pid int) (Group, error) {
	start, err := started(pid)
	if err != nil {
		return g, err
	}
	ids := slices.Clone(g.IDs[:1])
	for _, id := range append(slices.Clone(g.IDs[1:]), ID{int32(pid), start}) {
		now, err := started(int(id.PID))
		dead := errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) || err == nil && now != id.Start
		if !dead && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if len(ids) > Most {
		return g, ErrTooMany
	}
	g.IDs = ids
	return g, nil
}

// Wait returns nil when all processes of g have ended, the cause of ctx if that ends first, and another error if this
// cannot be known. While a process lives, Wait calls pause, and waits only if that returns nil. The function that pause
// returns is called afterwards.
func (g Group) Wait(ctx context.Context, pause func(context.Context) (resume func(), err error)) error {
	if k := simulated.Load(); k != nil {
		return k.Wait(ctx, g)
	}
	return g.wait(ctx, pause)
}

// Gone reports whether all processes of g have ended. It is false if this cannot be known: on another machine, after another
// boot, in another pid namespace, and on other systems than Linux.
func (g Group) Gone() bool { return len(g.IDs) > 0 && g.gone() }

// Equal reports whether both are the same processes.
func (g Group) Equal(other Group) bool {
	return g.Boot == other.Boot && g.Namespace == other.Namespace && slices.Equal(g.IDs, other.IDs)
}

const (
	headSize = 16 + 8
	idSize   = 4 + 8
)

// Append appends g to b.
func (g Group) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(append(b, g.Boot[:]...), g.Namespace)
	for _, id := range g.IDs {
		b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(b, uint32(id.PID)), id.Start)
	}
	return b
}

// Decode reads what Append has made of a Group.
func Decode(b []byte) (Group, error) {
	var g Group
	n := len(b) - headSize
	if n < idSize || n%idSize != 0 || n/idSize > Most {
		return g, errors.New("not a group of processes")
	}
	copy(g.Boot[:], b)
	g.Namespace = binary.BigEndian.Uint64(b[16:])
	for b = b[headSize:]; len(b) > 0; b = b[idSize:] {
		id := ID{int32(binary.BigEndian.Uint32(b)), binary.BigEndian.Uint64(b[4:])}
		if id.PID <= 0 {
			return g, errors.New("not a process id")
		}
		g.IDs = append(g.IDs, id)
	}
	return g, nil
}
