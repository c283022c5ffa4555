package once

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"holdfast"
	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// marks are the nodes of one key of a Once. Its directory has the queue of its lock and up to two marks:
// done for the end of a run, begun for the beginning of a run that counts at most once. Only the holder of
// the key's lock writes and removes them, except that a later run of another key may remove an old done.
//
// The directories of all keys are spread over 16 shards, so that lists of them stay short. Every transaction
// that makes or removes a mark also writes the shard's data, which changes their version. So a transaction
// that names this version finds the marks as they were read before.
type marks struct {
	shard string // the directory above
	dir   string // of the key
}

// within is the name of the directory of Every. No key has this name, since a % in the name of a key is
// followed by two digits.
const within = "%"

func marksOf(path, name string) marks {
	shard := fmt.Sprintf("%s/%s%x", path, queue.OnceShard, sha256.Sum256([]byte(name))[0]>>4)
	return marks{shard, shard + "/" + name}
}

func (m *marks) done() string  { return m.dir + "/done" }
func (m *marks) begun() string { return m.dir + "/begun" }

// bump changes the version of the shard's data, if it is the given one.
func (m *marks) bump(version int32) zk.Op { return zk.SetOp(m.shard, []byte{}, version) }

// escapeKey returns the name of a key's directory. zk.UnescapeName returns the key. It escapes more
// than zk.EscapeName: all but letters, digits, some signs, and dots after the first character. Marks are
// stored under these names, so they stay as they are.
func escapeKey(key string) (string, error) {
	if len(key) == 0 || len(key) > MaxKey {
		return "", fmt.Errorf("%w: the key has %d bytes; want 1 to %d", zk.ErrBadArguments, len(key), MaxKey)
	}
	var b strings.Builder
	for i := range len(key) {
		switch c := key[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-_:@=+,~", c) >= 0, c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String(), nil
}

// A mark is the data of such a node: a line of JSON, and then the value as it is.
type mark struct {
	Owner  string `json:"owner,omitempty"`
	Token  int64  `json:"token"` // of the runner's Hold; no other run of the key has it
	Began  int64  `json:"began"` // when the runner's place was made, in milliseconds of the server's clock
	Failed string `json:"failed,omitempty"`

	value []byte
	stat  zk.Stat // of the node; zero for a mark that is to be written
	begun bool    // it is the record of a beginning
}

func (m *mark) encode() []byte {
	line, err := json.Marshal(m)
	if err != nil {
		panic(err) // it has strings and numbers only
	}
	return append(append(line, '\n'), m.value...)
}

// parseMark reads the data of a mark. The error is holdfast.ErrKind.
func parseMark(node string, data []byte) (*mark, error) {
	line, value, ok := bytes.Cut(data, []byte("\n"))
	m := &mark{value: value}
	if !ok || json.Unmarshal(line, m) != nil || m.Token <= 0 {
		return nil, fmt.Errorf("%w: the node %s is not the mark of a Once: remove it if nobody needs it", holdfast.ErrKind, node)
	}
	return m, nil
}

// result is the Result of later callers.
func (m *mark) result() Result {
	if m == nil {
		return Result{}
	}
	r := Result{Owner: m.Owner, Token: m.Token, Value: m.value, Began: queue.TimeIn(m.Began)}
	if m.stat.Mtime != 0 && !m.begun {
		r.At = time.UnixMilli(m.stat.Mtime)
	}
	return r
}

// outcome is the error of later callers.
func (m *mark) outcome() error {
	if m == nil || !m.begun && m.Failed == "" {
		return nil
	}
	by := m.Owner
	if by == "" {
		by = "somebody"
	}
	how := "no end is recorded"
	if m.Failed != "" {
		how = "it failed: " + m.Failed
	}
	return fmt.Errorf("%w: %s began at %s, with the token %d, and %s", ErrBegun, by, time.UnixMilli(m.Began).UTC().Format(time.RFC3339), m.Token, how)
}

// shorten bounds the text of an error that goes into a mark.
func shorten(text string) string { return text[:min(len(text), 1024)] }

// put makes the mark at node, or replaces the old one that was there when we looked.
func (j *call) put(node string, old, m *mark) zk.Op {
	if old != nil {
		return zk.SetOp(node, m.encode(), old.stat.Version)
	}
	return zk.CreateOp(node, m.encode(), zk.Persistent, j.acl...)
}

// A record is what is recorded of a key.
type record struct{ done, begun *mark } // nil: there is none

// A getter reads a node.
type getter interface {
	Get(ctx context.Context, path string) ([]byte, zk.Stat, error)
}

// read reads the mark at node. There is none if it returns nil.
func (j *call) read(ctx context.Context, from getter, node string) (*mark, error) {
	var data []byte
	var stat zk.Stat
	err := zk.Retry(ctx, func() (err error) {
		data, stat, err = from.Get(ctx, node)
		return err
	})
	return j.markIn(node, zk.Result{Data: data, Stat: stat, Err: err})
}

// markIn returns the mark in an answer.
func (j *call) markIn(node string, r zk.Result) (*mark, error) {
	switch {
	case errors.Is(r.Err, zk.ErrNoNode):
		return nil, nil
	case r.Err != nil:
		return nil, r.Err
	}
	m, err := parseMark(node, r.Data)
	if m != nil {
		m.stat, m.begun = r.Stat, node == j.begun()
	}
	return m, err
}

// look reads what is recorded of the key, for the holder of its lock. It shows all that earlier holders
// have recorded. The event of the removal that brought us our turn may have come from another server, and
// this one may be behind it. Then it still shows the node that we have waited for, and look reads again
// after a barrier.
//
// look also makes sure that no other kind of lock has the name. It lists the names after our place was made.
// So if two kinds come together, at least one sees the other.
func (j *call) look(ctx context.Context, h *holder) (record, error) {
	p := h.place
	ops := []zk.Op{zk.GetOp(j.done()), zk.GetOp(j.begun()), zk.ChildrenOp(j.path)}
	before := p.WaitedFor()
	if before != "" { // ahead of the others: they show at least as much
		ops = append([]zk.Op{zk.ExistsOp(before)}, ops...)
	}
	for {
		var res []zk.Result
		err := zk.Retry(ctx, func() (err error) {
			if res, err = p.Session.Pipeline(ctx, ops...); res == nil {
				return err
			}
			for i, r := range res {
				hidden := before != "" && i == 0 && errors.Is(r.Err, zk.ErrNoAuth)
				if r.Err != nil && !errors.Is(r.Err, zk.ErrNoNode) && !hidden {
					return r.Err
				}
			}
			return nil
		})
		if err != nil {
			return record{}, err
		}
		if before != "" {
			if behind := !errors.Is(res[0].Err, zk.ErrNoNode); behind { // it is there, whether we may read it or not
				if err := p.Barrier(); err != nil {
					return record{}, err
				}
				before, ops = "", ops[1:]
				continue
			}
			res = res[1:]
		}
		done, err := j.markIn(j.done(), res[0])
		if err != nil {
			return record{}, err
		}
		begun, err := j.markIn(j.begun(), res[1])
		if err != nil {
			return record{}, err
		}
		all := &queue.Queue{Client: j.client, Path: j.path, Kind: queue.Once, Grammar: names.Default}
		return record{done, begun}, all.CheckKind(ctx, res[2].Children)
	}
}

// write executes a transaction that makes the mark at node with our token, while h lasts. It returns when
// the outcome is certain, and does not guess: after a lost connection, the mark tells. The error is
// holdfast.ErrUncertain if the mark cannot be read. A nil error means that the mark is written, also if the lock was
// lost since. If the session ends while the outcome is not known, undo may be executed.
func (j *call) write(ctx context.Context, h *holder, node string, token int64, ops, undo []zk.Op) error {
	for doubt := false; ; {
		err := h.commit(h.place.Session.Context(), ops)
		if doubt = doubt || zk.MayHaveHappened(err); err == nil || !doubt {
			return err
		}
		ours, stands, readErr := j.settle(ctx, h.place, node, token, undo)
		switch {
		case readErr != nil:
			return fmt.Errorf("%w (%w): %w", holdfast.ErrUncertain, readErr, err)
		case ours: // rare: the answer to the transaction of a result is lost, and the result is recorded
			return nil
		case !stands:
			return fmt.Errorf("%w: %w", holdfast.ErrLost, queue.ErrGone)
		case !errors.Is(err, zk.ErrConnectionLoss):
			return err
		}
	}
}

// settle reports whether the mark at node is ours, after a transaction whose outcome is not known. No
// transaction sent before can change that any more: in the same session, a write comes before the read. If
// the session is over here, it may still live at the server, with the transaction on its way. So the next
// session removes our place, which the transaction checks, and undoes the transaction if it can. stands:
// our place still exists.
func (j *call) settle(ctx context.Context, p *queue.Place, node string, token int64, undo []zk.Op) (ours, stands bool, _ error) {
	session := p.Session
	found := p.Barrier()
	if found == nil || errors.Is(found, queue.ErrGone) {
		if m, err := j.read(session.Context(), session, node); err == nil || session.Context().Err() == nil {
			return m != nil && m.Token == token, found == nil, err
		}
	}
	// rare: the session ends, and the outcome of the transaction of a result is not known
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), session.Timeout())
	defer cancel()
	for {
		next, err := j.client.Session(ctx)
		if err == nil {
			err = p.RemoveWith(ctx, next, undo...)
		}
		var m *mark
		if err == nil { // the same session: another one may read at a server that is behind
			m, err = j.read(ctx, next, node)
		}
		if !errors.Is(err, zk.ErrSessionExpired) || ctx.Err() != nil {
			return err == nil && m != nil && m.Token == token, false, err
		}
	}
}

// withdraw removes the record of a beginning, since f will not be called, or puts back the older one that it
// has replaced. While our place exists, the record can only be ours or that older one. So undo is executed
// together with the removal of our place. If that fails, the record stays, and nobody runs.
func (j *call) withdraw(ctx context.Context, h *holder, undo []zk.Op) {
	p := h.place
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.Session.Timeout())
	defer cancel()
	for {
		s, err := j.client.Session(ctx)
		if err == nil {
			err = p.RemoveWith(ctx, s, undo...)
		}
		if !errors.Is(err, zk.ErrSessionExpired) || ctx.Err() != nil {
			return
		}
	}
}

// pruneMost bounds how many old marks a run looks for and removes. A run that removes more than one for
// each that it writes is enough to bound their number.
const pruneMost = 16

// old returns the removal of old marks of other keys of the shard, and the version of the shard for which it
// is right. It looks at some keys, drawn at random. It returns nothing if that fails, since a later run can
// do it.
func (j *call) old(p *queue.Place) (removals []zk.Op, version int32) {
	ctx := p.Session.Context()
	var keys []string
	var stat zk.Stat
	err := zk.Retry(ctx, func() (err error) {
		keys, stat, err = p.Session.Children(ctx, j.shard)
		return err
	})
	if err != nil {
		return nil, 0
	}
	rand.Shuffle(len(keys), func(a, b int) { keys[a], keys[b] = keys[b], keys[a] })
	var looks []zk.Op
	for _, key := range keys {
		if m := (marks{dir: j.shard + "/" + key}); m.dir != j.dir && key != within && len(looks) < pruneMost {
			looks = append(looks, zk.ExistsOp(m.done()))
			removals = append(removals, zk.DeleteOp(m.done(), zk.AnyVersion))
		}
	}
	var res []zk.Result
	err = zk.Retry(ctx, func() (err error) {
		if res, err = p.Session.Pipeline(ctx, looks...); res == nil {
			return err
		}
		return nil
	})
	if err != nil {
		return nil, 0
	}
	n := 0
	for i, r := range res {
		if r.Err == nil && p.Ctime()-r.Stat.Mtime > j.options.forgetAfter.Milliseconds() {
			removals[n] = removals[i]
			n++
		}
	}
	return removals[:n], stat.Version
}
