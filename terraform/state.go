package terraform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// errLocksOnly is the answer of a Backend without states. The clients do not repeat a request after 501.
var errLocksOnly = &refusal{status: http.StatusNotImplemented, text: "this server keeps locks and no states: give the clients another TF_HTTP_ADDRESS"}

func (b *Backend) serveGet(w http.ResponseWriter, r *http.Request, ws Workspace) error {
	bounded, end := within(w, r, transferPatience)
	defer end()
	if b.cfg.LocksOnly {
		return errLocksOnly
	}
	ctx, cancel := context.WithCancelCause(bounded)
	defer cancel(nil)
	c := http.NewResponseController(w)
	use := b.loaded.Enter(func() { _ = c.SetWriteDeadline(past); cancel(errShare) }, clientOf(ctx)...)
	defer use.Leave()
	done, err := b.loading.Take(ctx, clientOf(ctx)...)
	if err != nil {
		return err
	}
	state, v, err := b.read(ctx, ws, 0, use.Grow)
	done() // from now on, the client may take its time
	switch {
	case errors.Is(err, ErrNoVersion):
		return &refusal{status: http.StatusNotFound, text: "no state"}
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-MD5", v.MD5)
	w.Header().Set("Content-Length", strconv.Itoa(len(state)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		send(ctx, w, state)
	}
	return nil
}

// servePost stores a state. While somebody holds the lock, the request must have its id. The note that the run's state
// is not stored is written before the body is read, and removed in the transaction that stores the state.
func (b *Backend) servePost(w http.ResponseWriter, r *http.Request, ws Workspace) error {
	began := time.Now()
	id := r.URL.Query().Get("ID")
	ctx, cancel := within(w, r, transferPatience)
	defer cancel()
	if b.cfg.LocksOnly {
		return errLocksOnly
	}
	h, err := b.writer(ctx, ws, id)
	if err != nil {
		return b.unsaved(ctx, ws, id, err)
	}
	if h != nil {
		b.remember(b.LockPath(ws)+" "+id, notArrived) // UNLOCK writes it if it comes before we can
		if err := b.markUnstored(ctx, ws, newUnstored(h.info, notArrived)); err != nil {
			return b.failed(ctx, ws, h, began, err)
		}
	}
	body, forget, err := b.receive(ctx, w, r)
	if err != nil {
		return b.failed(ctx, ws, h, began, err)
	}
	defer forget()
	done, err := b.storing.Take(ctx, clientOf(ctx)...)
	if err != nil {
		return b.failed(ctx, ws, h, began, err)
	}
	defer done()
	force := r.URL.Query().Get("force") == "true"
	if err := b.save(ctx, ws, h, body, force); err != nil {
		return b.failed(ctx, ws, h, began, err)
	}
	b.mu.Lock()
	b.unstored.remove(b.LockPath(ws) + " " + id)
	b.stored.add(b.LockPath(ws)+" "+id, time.Since(b.opened).String())
	b.mu.Unlock()
	w.WriteHeader(http.StatusOK)
	return nil
}

// writer returns the holder with the id. Without a lock, it returns nil if the request needs none at this moment: see
// borrow.
func (b *Backend) writer(ctx context.Context, ws Workspace, id string) (*holder, error) {
	h, err := b.holder(ctx, ws)
	switch {
	case err != nil:
		return nil, err
	case h != nil && id == h.info.ID:
		return h, nil
	case h != nil && id == "" && !h.expires():
		return nil, b.held(ctx, ws, h, id, http.StatusLocked)
	case h != nil && id != "":
		return nil, b.held(ctx, ws, h, id, http.StatusConflict)
	case id != "":
		return nil, &refusal{status: http.StatusConflict, text: "the lock with this ID is no longer held: somebody has unlocked it by force"}
	}
	return nil, b.open(ctx, ws, LockInfo{})
}

// unsaved notes that a run has no lock any more and still wants to store its state. Only a lock that this process has
// granted counts: others could make up ids.
func (b *Backend) unsaved(ctx context.Context, ws Workspace, id string, cause error) error {
	key := b.LockPath(ws) + " " + id
	b.mu.Lock()
	who, granted := b.granted.texts[key]
	b.mu.Unlock()
	_, refused := errors.AsType[*refusal](cause)
	switch {
	case id == "" || !granted:
	case !refused: // no server answered, so nobody knows whether the lock is held
		b.remember(key, "no server answered")
	default:
		u := newUnstored(LockInfo{ID: id, Who: who}, "its lock was no longer held")
		if err := b.markUnstored(ctx, ws, u); err != nil {
			b.remember(key, u.Why)
		}
	}
	return cause
}

func (b *Backend) remember(key, why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unstored.add(key, why)
}

// failed notes why the state of the holder is not stored. It notes nothing if a later request of the same run has
// stored it: a client repeats a request that hangs, and the first one may fail long after.
func (b *Backend) failed(ctx context.Context, ws Workspace, h *holder, began time.Time, cause error) error {
	if h == nil || b.storedSince(ws, h.info.ID, began) {
		return cause
	}
	why := "no server answered"
	if no, ok := errors.AsType[*refusal](cause); ok {
		why = no.text
	}
	key := b.LockPath(ws) + " " + h.info.ID
	b.remember(key, why) // UNLOCK writes it if we cannot
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if err := b.markUnstored(ctx, ws, newUnstored(h.info, why)); err == nil {
		b.mu.Lock()
		b.unstored.remove(key)
		b.mu.Unlock()
	}
	return cause
}

// storedSince reports whether a request of the run has stored a state after a moment.
func (b *Backend) storedSince(ws Workspace, id string, began time.Time) bool {
	b.mu.Lock()
	text := b.stored.texts[b.LockPath(ws)+" "+id]
	b.mu.Unlock()
	at, err := time.ParseDuration(text)
	return err == nil && at > began.Sub(b.opened)
}

// A head is what a state says about itself, encrypted or not.
type head struct {
	Serial  *int64 `json:"serial"`
	Lineage string `json:"lineage"`
}

// maxLineage bounds a lineage in bytes, since the index of the versions is one node. The clients use a UUID.
const maxLineage = 256

// headOf returns what a state says about itself. Without a serial, two states could not be told apart by their age.
func headOf(state []byte) (Version, error) {
	var top head
	if err := json.Unmarshal(state, &top); err != nil {
		return Version{}, errors.New("it is not a JSON object with a serial and a lineage")
	}
	switch {
	case top.Serial == nil:
		return Version{}, errors.New("it has no serial")
	case *top.Serial < 0:
		return Version{}, fmt.Errorf("its serial is %d", *top.Serial)
	case len(top.Lineage) > maxLineage:
		return Version{}, fmt.Errorf("its lineage has %d bytes: want at most %d", len(top.Lineage), maxLineage)
	}
	return Version{Serial: *top.Serial, Lineage: top.Lineage}, nil
}

// save stores the body of a POST.
func (b *Backend) save(ctx context.Context, ws Workspace, h *holder, body []byte, force bool) error {
	v, err := headOf(body)
	if err != nil {
		return &refusal{status: http.StatusBadRequest, text: "the body is no state: " + err.Error()}
	}
	clear, err := b.settledBy(ctx, ws, h)
	if err != nil {
		return err
	}
	if h != nil {
		v.Who, v.LockID = h.info.Who, h.info.ID
	}
	same := false // as the present version: the answer was lost
	_, err = b.store(ctx, ws, h, v, body, clear, func(x index) error {
		now, ok := x.current()
		same = ok && now.MD5 == digest(body) && now.Size == int64(len(body))
		if same {
			return errSame
		}
		if !ok || force || h != nil && h.info.replaces() {
			return nil
		}
		return follows(now, v)
	})
	if errors.Is(err, errSame) && h != nil {
		err = b.change(ctx, ws, h, clear, func(*index) error { return nil }) // the lock is checked all the same
	}
	if errors.Is(err, errSame) {
		return nil
	}
	if errors.Is(err, errFenced) {
		return &refusal{status: http.StatusConflict, text: "the lock was lost before the state was stored"}
	}
	return err
}

var errSame = errors.New("this state is stored already")

// follows refuses a state that would replace a newer one, or that of something else.
func follows(now, next Version) error {
	switch {
	case now.Lineage != "" && next.Lineage != now.Lineage:
		return &refusal{status: http.StatusConflict, text: fmt.Sprintf("the state has the lineage %.60q, and the stored one %.60q: it belongs to something else; add ?force=true to TF_HTTP_ADDRESS to replace it", next.Lineage, now.Lineage)}
	case next.Serial < now.Serial:
		return &refusal{status: http.StatusConflict, text: fmt.Sprintf("the state has the serial %d, and a newer one with %d is stored; add ?force=true to TF_HTTP_ADDRESS to replace it", next.Serial, now.Serial)}
	case next.Serial == now.Serial:
		return &refusal{status: http.StatusConflict, text: fmt.Sprintf("another state with the serial %d is stored; add ?force=true to TF_HTTP_ADDRESS to replace it", now.Serial)}
	}
	return nil
}

// settledBy returns the notes that a stored state of h removes: its own, and all others if a person pushes a state.
func (b *Backend) settledBy(ctx context.Context, ws Workspace, h *holder) ([]string, error) {
	switch {
	case h == nil:
		return nil, nil
	case h.info.Operation != statePush:
		return []string{b.dirtyNode(ws, h.info.ID)}, nil
	}
	names, err := b.children(ctx, b.dirtyDir(ws))
	if err != nil {
		return nil, err
	}
	var all []string
	for _, name := range names {
		all = append(all, b.dirtyDir(ws)+"/"+name)
	}
	return all, nil
}

// serveDelete removes the state, as POST stores one. Its versions stay.
func (b *Backend) serveDelete(w http.ResponseWriter, r *http.Request, ws Workspace) error {
	ctx, cancel := within(w, r, transferPatience)
	defer cancel()
	if b.cfg.LocksOnly {
		return errLocksOnly
	}
	done, err := b.storing.Take(ctx, clientOf(ctx)...)
	if err != nil {
		return err
	}
	defer done()
	h, err := b.writer(ctx, ws, r.URL.Query().Get("ID"))
	if err != nil {
		return err
	}
	if h == nil {
		var giveBack func()
		if h, giveBack, err = b.borrow(ctx, ws); err != nil {
			return err
		}
		defer giveBack()
	}
	err = b.change(ctx, ws, h, nil, func(x *index) error {
		if x.Current == 0 {
			return errUnchanged
		}
		x.Current = 0
		return nil
	})
	if errors.Is(err, errFenced) {
		return &refusal{status: http.StatusConflict, text: "the lock was lost before the state was removed"}
	}
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}
