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

// ErrNoToken is wrapped by the error of [Token] for a request without a valid token.
var ErrNoToken = errors.New("fence: no token")

// Stamp puts the token of h into the header of r. For a MultiLock, it is that of the first
// lock.
func Stamp(r *http.Request, h *holdfast.Hold) {
	r.Header.Set(Header, strconv.FormatInt(h.Token(), 10))
}

// Token returns the token of the request r. It is for handlers that do their own fencing, for
// example with [Check] in a transaction.
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

// A Gate admits one request at a time to each resource, and none with a smaller token than it
// has admitted before. The zero Gate is ready for use. It is safe for concurrent use and must
// not be copied.
//
// A Gate keeps one token in memory for each resource name, so the names should come from a
// known set. After a restart of the process, the gate admits an old token until it has seen a
// younger one. Where that matters, keep the tokens with the data, as Check does.
type Gate struct {
	mu        sync.Mutex
	resources map[string]*resource // guarded by mu; the resources themselves are not
}

type resource struct {
	busy   chan struct{} // holds a token while a request is inside
	newest int64         // used by the request that is inside only
}

// Enter waits until no other request is at the resource. It fails with ErrStale if the resource
// has seen a larger token, or with ctx's cause. Call leave when the work is done.
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
	// No second request may enter while one is at work. Otherwise an older request could
	// overwrite a younger one's changes after its token was checked.
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

// Handler puts the gate in front of next, for requests that change the resource. It answers a
// request without a token with 428 (Precondition Required), and one with a stale token with 412
// (Precondition Failed). The function resource names the request's resource, for example by its
// path. All resources that one lock protects must have one name.
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
		case err != nil: // the client is gone
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		defer leave()
		next.ServeHTTP(w, r)
	})
}
