package terraform

import (
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"holdfast"
	"holdfast/internal/fair"
	"holdfast/internal/htpasswd"
	"holdfast/zk"
)

// A Config says where a Backend keeps locks and states, and what it allows. Only Client is required.
type Config struct {
	Client *zk.Client // the Backend does not close it
	Root   string     // the node above all projects; "" is /tf
	ACL    []zk.ACL   // of new nodes with states; nil is open to all

	StateDir  string // an existing directory for the states; "" keeps them in ZooKeeper
	LocksOnly bool   // no states: the clients keep them elsewhere

	Credentials       Credentials // without any, everyone who can connect is admitted
	RefuseForceUnlock bool        // refuse an UNLOCK that does not name the lock: terraform force-unlock

	// Ephemeral makes locks that end with this process or its session. See Lost and Deadline.
	Ephemeral bool

	Poll       time.Duration // how long a LOCK is held open; 0 is 10 seconds
	MaxState   int64         // the longest state in bytes; 0 is 256 MiB
	MaxWaiters int           // the most LOCK requests that are held open; 0 is 1000
	Versions   int           // how many versions are kept; 0 is 50

	// Admitted is called with each request whose credentials are right, and the names of its client, before it is answered. If
	// it returns false, the client has too many connections, and the request is refused. nil is no function.
	Admitted func(r *http.Request, client ...string) bool
	// Audit is called after a force-unlock. nil is no function.
	Audit func(context.Context, Event)
	// Logger gets the requests that were refused or failed. nil logs nothing. States are not logged.
	Logger *slog.Logger
}

// An Event is something that somebody has done to the lock of somebody else.
type Event struct {
	Workspace Workspace
	Path      string         // of the lock
	Entry     holdfast.Entry // the holder's
	From      string         // the address of the client
	Err       error          // why it failed, or nil
}

// A Backend is an http.Handler for the http backend of Terraform and OpenTofu. It is safe for concurrent use.
type Backend struct {
	cfg              Config
	blobs            blobs
	lines            queues
	waiters          *fair.Pool  // LOCK requests that are held open
	uploads, loaded  *fair.Pool  // bytes of states in memory, on the way in and out
	storing, loading *fair.Turns // at the servers' nodes
	mux              *http.ServeMux
	alive            context.Context // until Close
	stop             context.CancelFunc
	guard            *http.CrossOriginProtection
	gate             *htpasswd.Gate
	opened           time.Time

	mu       sync.Mutex // guards the fields below
	users    Credentials
	requests map[*http.Request]answering // that are being answered
	closed   bool
	holds    map[string]*held // of Config.Ephemeral, by lock path and id
	lost     chan struct{}
	isLost   bool
	taking   map[string]int // requests that acquire a lock, by lock path and id
	granted  *recent        // locks that this process has granted
	released *recent        // locks that this process has released
	unstored *recent        // runs whose state was not stored, and of which no node tells
	stored   *recent        // runs that have stored a state, and how long after opened: the clock can be set
}

const (
	defaultPoll       = 10 * time.Second
	defaultMaxState   = 256 << 20
	defaultMaxWaiters = 1000
	defaultVersions   = 50
	maxTransfers      = 4                // of each direction, at the servers
	patience          = 30 * time.Second // of a request that does not wait for a lock
	transferPatience  = 5 * time.Minute  // of a request with a state
)

// New returns a Backend. It sends nothing. The error is about an invalid Config.
func New(cfg Config) (*Backend, error) {
	set := func(n *int, d int) {
		if *n == 0 {
			*n = d
		}
	}
	set(&cfg.MaxWaiters, defaultMaxWaiters)
	set(&cfg.Versions, defaultVersions)
	if cfg.Poll == 0 {
		cfg.Poll = defaultPoll
	}
	if cfg.MaxState == 0 {
		cfg.MaxState = defaultMaxState
	}
	if cfg.Root == "" {
		cfg.Root = "/tf"
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	switch err := zk.ValidatePath(cfg.Root); {
	case cfg.Client == nil:
		return nil, errors.New("terraform: the Config has no Client")
	case err != nil:
		return nil, fmt.Errorf("terraform: Root: %w", err)
	case cfg.Root == "/":
		return nil, errors.New("terraform: Root must not be /")
	case cfg.Poll < 0 || cfg.MaxState < 0 || cfg.MaxWaiters < 0 || cfg.Versions < 1:
		return nil, errors.New("terraform: a limit of the Config is negative")
	case cfg.LocksOnly && cfg.StateDir != "":
		return nil, errors.New("terraform: LocksOnly and StateDir do not go together")
	case cfg.Versions > maxVersions:
		return nil, fmt.Errorf("terraform: %d versions: want at most %d", cfg.Versions, maxVersions)
	}
	b := &Backend{
		cfg: cfg, waiters: fair.NewPool(int64(cfg.MaxWaiters)), uploads: fair.NewPool(maxTransfers * cfg.MaxState), loaded: fair.NewPool(maxTransfers * cfg.MaxState),
		storing: fair.NewTurns(maxTransfers), loading: fair.NewTurns(maxTransfers),
		mux: http.NewServeMux(), guard: http.NewCrossOriginProtection(), gate: htpasswd.NewGate(),
		holds: make(map[string]*held), lost: make(chan struct{}), granted: newRecent(), released: newRecent(), unstored: newRecent(), stored: newRecent(),
		taking: make(map[string]int), opened: time.Now(), users: cfg.Credentials, requests: make(map[*http.Request]answering),
	}
	b.alive, b.stop = context.WithCancel(context.Background())
	b.blobs = nodeBlobs{b}
	if cfg.StateDir != "" {
		dir, err := filepath.Abs(cfg.StateDir)
		if err != nil {
			return nil, fmt.Errorf("terraform: StateDir: %w", err)
		}
		b.blobs = fileBlobs{dir}
	}
	b.mux.HandleFunc("/tf/{project}/{workspace}", b.route(false))
	b.mux.HandleFunc("/tf/{project}/{workspace}/lock", b.route(true))
	return b, nil
}

// ServeHTTP answers one request of a client.
func (b *Backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	// The server reads the rest of a refused request, so that has an end, too, as has its answer. The handlers set deadlines of
	// their own.
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Now().Add(patience))
	_ = c.SetWriteDeadline(time.Now().Add(2 * patience))
	switch err := b.guard.Check(r); {
	case path.Clean(r.URL.EscapedPath()) != r.URL.EscapedPath(): // the mux would redirect to the clean path, and out of that of a proxy
		http.Error(w, "want /tf/PROJECT/WORKSPACE, with single slashes: see TF_HTTP_ADDRESS", http.StatusNotFound)
	case err != nil:
		http.Error(w, "the request comes from a web page", http.StatusForbidden)
	case b.cfg.Credentials.Empty() && rebound(r):
		http.Error(w, "use localhost or an IP address, or give the server users", http.StatusForbidden)
	default:
		ctx, end, err := b.admit(r)
		defer end()
		if err != nil {
			b.refuseGuess(w, r, err)
			return
		}
		if b.cfg.Admitted != nil && !b.cfg.Admitted(r, clientOf(ctx)...) {
			w.Header().Set("Connection", "close")
			busy(w, "too many connections of this user or address")
			return
		}
		b.mux.ServeHTTP(w, r.WithContext(ctx))
	}
}

// busy answers a request of a client that has more than its share.
func busy(w http.ResponseWriter, why string) {
	w.Header().Set("Retry-After", "5")
	http.Error(w, why, http.StatusServiceUnavailable)
}

// refuseGuess answers a request without a right login. It logs the names of users whose passwords are wrong: the limit of
// guesses bounds these lines.
func (b *Backend) refuseGuess(w http.ResponseWriter, r *http.Request, err error) {
	if wait, ok := errors.AsType[htpasswd.Wait](err); ok {
		w.Header().Set("Retry-After", strconv.Itoa(int(time.Duration(wait)/time.Second)+1))
		http.Error(w, "too many wrong passwords from this address", http.StatusTooManyRequests)
		return
	}
	if name, _, ok := r.BasicAuth(); ok {
		b.cfg.Logger.Warn("terraform: login refused", "name", name, "from", r.RemoteAddr)
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="holdfast", charset="UTF-8"`)
	http.Error(w, "wrong user, password or token", http.StatusUnauthorized)
}

// An answering is a request that is being answered.
type answering struct {
	who    caller
	cancel context.CancelCauseFunc
}

// admit checks the credentials of a request. ctx ends with the request, or when they are removed.
func (b *Backend) admit(r *http.Request) (ctx context.Context, end func(), err error) {
	b.mu.Lock()
	users := b.users
	b.mu.Unlock()
	hashing, done := context.WithTimeout(r.Context(), patience)
	who, err := users.admit(hashing, r, b.gate)
	done()
	if err != nil {
		return nil, func() {}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.users.has(who) { // they have changed since
		return nil, func() {}, htpasswd.ErrWrong
	}
	ctx, cancel := context.WithCancelCause(context.WithValue(r.Context(), clientKey{}, append(who.names(), "address "+htpasswd.AddressOf(r))))
	b.requests[r] = answering{who, cancel}
	return ctx, func() {
		b.mu.Lock()
		delete(b.requests, r)
		b.mu.Unlock()
		cancel(nil)
	}, nil
}

var errRemoved = errors.New("the credentials of the request were removed")

// SetCredentials replaces the users and the tokens. Requests of those who are gone end. A Backend without credentials
// stays one, and the other way round: then SetCredentials fails and changes nothing.
func (b *Backend) SetCredentials(c Credentials) error {
	if c.Empty() != b.cfg.Credentials.Empty() {
		return errors.New("terraform: a Backend with credentials and one without need a restart in between")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c.inherit(b.users)
	b.users = c
	for _, a := range b.requests {
		if !c.has(a.who) {
			a.cancel(errRemoved)
		}
	}
	return nil
}

// route finds the handler for the method of a request. On the lock's address, POST and PUT are LOCK, and DELETE is
// UNLOCK: some proxies drop the methods LOCK and UNLOCK.
func (b *Backend) route(lock bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ws := Workspace{r.PathValue("project"), r.PathValue("workspace")}
		err := ws.check()
		if err != nil {
			err = &refusal{status: http.StatusBadRequest, text: err.Error()}
		} else {
			serve := b.handler(lock, r.Method)
			if serve == nil {
				err = &refusal{status: http.StatusMethodNotAllowed, text: "no such method here"}
			} else {
				err = serve(w, r, ws)
			}
		}
		if err != nil {
			b.refuse(w, r, ws, err)
		}
	}
}

func (b *Backend) handler(lock bool, method string) func(http.ResponseWriter, *http.Request, Workspace) error {
	switch method {
	case "LOCK":
		return b.serveLock
	case "UNLOCK":
		return b.serveUnlock
	}
	switch {
	case lock && (method == http.MethodPost || method == http.MethodPut):
		return b.serveLock
	case lock && method == http.MethodDelete:
		return b.serveUnlock
	case lock:
		return nil
	case method == http.MethodGet || method == http.MethodHead:
		return b.serveGet
	case method == http.MethodPost || method == http.MethodPut:
		return b.servePost
	case method == http.MethodDelete:
		return b.serveDelete
	}
	return nil
}

// A refusal is the answer to a request that was not done.
type refusal struct {
	status int
	holder *LockInfo // the body, for 423 and 409 of a held lock
	text   string
}

func (r *refusal) Error() string {
	if r.holder != nil {
		return fmt.Sprintf("%s (held by %s, id %s)", r.holder.Info, r.holder.Who, r.holder.ID)
	}
	return r.text
}

// refuse sends the answer for err. Every error that is no refusal is about the servers: the clients try again.
func (b *Backend) refuse(w http.ResponseWriter, r *http.Request, ws Workspace, err error) {
	no, ok := errors.AsType[*refusal](err)
	if !ok {
		no = &refusal{status: http.StatusServiceUnavailable, text: "the lock service did not answer"}
		w.Header().Set("Retry-After", "1")
	}
	level := slog.LevelInfo
	if !ok {
		level = slog.LevelWarn
	}
	b.cfg.Logger.Log(r.Context(), level, "terraform: refused", "method", r.Method, "workspace", ws.String(), "from", r.RemoteAddr, "status", no.status, "err", err)
	if no.holder == nil {
		http.Error(w, no.text, no.status)
		return
	}
	body, err := json.Marshal(no.holder)
	if err != nil {
		http.Error(w, "the lock is held", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(no.status)
	w.Write(body)
}

// digest returns a Content-MD5. It finds damage; it is no protection against an attacker, who could send another.
func digest(body []byte) string {
	sum := md5.Sum(body)
	return base64.StdEncoding.EncodeToString(sum[:])
}

// within bounds a request.
func within(w http.ResponseWriter, r *http.Request, d time.Duration) (context.Context, context.CancelFunc) {
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Now().Add(d)) // a recorder of a test has none
	_ = c.SetWriteDeadline(time.Now().Add(d + patience))
	return context.WithTimeout(r.Context(), d)
}

// base returns the path of the workspace's node.
func (b *Backend) base(ws Workspace) string { return b.cfg.Root + "/" + ws.Project + "/" + ws.Name }

// LockPath returns the path of the lock of a workspace.
func (b *Backend) LockPath(ws Workspace) string { return b.base(ws) + "/lock" }

// recent is a set of the last few strings that were added, with a text each.
type recent struct {
	texts map[string]string
	order []string
}

// maxRecent is how many a recent remembers.
const maxRecent = 4096

func newRecent() *recent { return &recent{texts: make(map[string]string)} }

func (s *recent) add(key, text string) {
	if _, ok := s.texts[key]; !ok {
		s.order = append(s.order, key)
	}
	s.texts[key] = text
	if len(s.order) > maxRecent {
		delete(s.texts, s.order[0])
		s.order = s.order[1:]
	}
}

func (s *recent) has(key string) bool { _, ok := s.texts[key]; return ok }

func (s *recent) remove(key string) {
	if !s.has(key) {
		return
	}
	delete(s.texts, key)
	for i, k := range s.order {
		if k == key {
			s.order = append(s.order[:i:i], s.order[i+1:]...)
			return
		}
	}
}
