package fence

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"holdfast"
)

// Header carries the token, a decimal number, from the holder to the resource.
const Header = "Holdfast-Token"

// ErrNoToken is wrapped by the error of [Token] for a request without a token, or with
// something else in its place.
var ErrNoToken = errors.New("fence: no token")

// Stamp puts the token of h into the header of r; of a MultiLock, that of its first lock.
func Stamp(r *http.Request, h *holdfast.Hold) {
	r.Header.Set(Header, strconv.FormatInt(h.Token(), 10))
}

// Token is the token that r came with. For a handler that fences by itself, as with
// [Check] in its transaction.
func Token(r *http.Request) (int64, error) {
	values := r.Header.Values(Header)
	if len(values) != 1 {
		return 0, fmt.Errorf("%w: want one header %s, there are %d", ErrNoToken, Header, len(values))
	}
	token, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil || token <= 0 {
		return 0, fmt.Errorf("%w: header %s: %q is not a number above zero", ErrNoToken, Header, values[0])
	}
	return token, nil
}

// A Gate lets one request at a time to each resource, and none with an older token than
// it has let in before. The zero Gate is ready for use; it is safe for concurrent use
// and must not be copied.
//
// It remembers the tokens in memory, one number for each resource that it has been asked
// for, so the names should come from a known set. When the process starts anew, the gate
// knows nothing, and lets an old token in until it has seen a younger one: where that
// matters, keep the tokens where the data are, as Check does.
type Gate struct {
	mu        sync.Mutex
	resources map[string]*resource // guarded by mu; the resources themselves are not
}

type resource struct {
	busy   chan struct{} // holds a token while somebody is inside
	newest int64         // for whoever is inside
}

// Enter waits until nobody else is at the resource, and fails with ErrStale if a larger
// token has been there; or with ctx's cause. Call leave when the work is done.
func (g *Gate) Enter(ctx context.Context, name string, token int64) (leave func(), err error) {
	g.mu.Lock()
	if g.resources == nil {
		g.resources = make(map[string]*resource)
	}
	r := g.resources[name]
	if r == nil {
		r = &resource{busy: make(chan struct{}, 1)}
		g.resources[name] = r
	}
	g.mu.Unlock()
	// Nobody may come in behind who is at work: between its look at the token and its last
	// change, a younger one's changes would be overwritten.
	select {
	case r.busy <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("fence: enter %q: %w", name, context.Cause(ctx))
	}
	if token < r.newest {
		<-r.busy
		return nil, fmt.Errorf("%w (%q, token %d)", ErrStale, name, token)
	}
	r.newest = token
	return sync.OnceFunc(func() { <-r.busy }), nil
}

// Handler puts the gate before next, for requests that change something: one without a
// token is answered with 428 (Precondition Required), one with a stale token with 412
// (Precondition Failed). The function resource names what the request is about, as by
// its path; all that one lock protects must have one name.
func (g *Gate) Handler(resource func(*http.Request) string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, err := Token(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusPreconditionRequired)
			return
		}
		leave, err := g.Enter(r.Context(), resource(r), token)
		switch {
		case errors.Is(err, ErrStale):
			http.Error(w, err.Error(), http.StatusPreconditionFailed)
			return
		case err != nil: // the client has gone
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		defer leave()
		next.ServeHTTP(w, r)
	})
}
