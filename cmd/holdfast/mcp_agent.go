package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"holdfast"
	"holdfast/internal/mcp"
)

// leaseTree is the name of the tree of leases without --tree.
const leaseTree = "files"

// An agent is the owner of what one client of mcp holds.
type agent struct {
	*globals
	target target
	taker  taker // with the names and labels of --who and --label
	tree   string
	root   string // paths of --tree count from here; "" without --tree
	say    *sayer
	server *mcp.Server

	dialing chan struct{} // is full while a call connects
	ended   chan struct{} // is closed when the agent is gone

	mu    sync.Mutex  // guards the fields below
	conn  *connection // nil until the first call
	holds []*agentHold
	last  int      // the newest id
	news  []string // what the next answer begins with
}

// An agentHold is a lock or a lease that the agent holds.
type agentHold struct {
	id    string
	name  string // as the agent gave it
	path  string // of the queue
	below string // of a lease, its path in the tree; otherwise ""
	lease bool
	hold  *holdfast.Hold
}

func (g *globals) newAgent(who whoFlags, tree string) (*agent, error) {
	t, err := g.target()
	if err != nil {
		return nil, err
	}
	t.zk.CreateChroot = true
	a := &agent{globals: g, target: t, tree: cmp.Or(tree, leaseTree), dialing: make(chan struct{}, 1), ended: make(chan struct{})}
	if err := who.apply(&a.taker); err != nil {
		return nil, err
	}
	if strings.Contains(tree, "/") {
		return nil, usage("give one word, such as the name of the repository", "--tree %q: a tree of leases has no / in its name", cut(tree, 100))
	}
	if _, err := g.lockPath(a.tree); err != nil {
		return nil, err
	}
	if tree != "" {
		if a.root, err = repository(); err != nil {
			return nil, err
		}
	}
	a.say = g.newSayer(os.Stderr)
	a.server = &mcp.Server{Name: "holdfast", Title: "holdfast: locks", Version: buildInfo().Version, Instructions: instructions, Tools: a.tools()}
	return a, nil
}

// repository returns the nearest directory with .git, from the working directory upwards, or the working directory.
func repository() (string, error) {
	work, err := os.Getwd()
	if err != nil {
		return "", usage("", "mcp: %w", err)
	}
	work = realPath(work)
	for dir := work; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return work, nil
		}
	}
}

// realPath follows the symbolic links in the part of a path that exists.
func realPath(path string) string {
	rest := ""
	for dir := path; ; dir = filepath.Dir(dir) {
		if found, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(found, rest)
		}
		if dir == filepath.Dir(dir) {
			return path
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}

// serve answers the client until it has gone, and releases what it held.
func (a *agent) serve(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- a.server.Serve(ctx, os.Stdin, os.Stdout) }()
	var err error
	select {
	case err = <-served:
	case <-ctx.Done(): // a client that reads nothing holds Serve up, but no release
	}
	close(a.ended)
	a.mu.Lock()
	c := a.conn
	a.mu.Unlock()
	if c != nil {
		c.close() // the end of the session releases everything at once
	}
	a.say.flush()
	if err != nil {
		return &fault{exitUnavailable, fmt.Errorf("mcp: standard input: %w", err), ""}
	}
	return nil
}

// connected returns the connection, which the first call makes.
func (a *agent) connected(ctx context.Context) (*connection, error) {
	select {
	case a.dialing <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-a.dialing }()
	a.mu.Lock()
	c := a.conn
	a.mu.Unlock()
	if c != nil {
		return c, nil
	}
	c, err := a.connect(ctx, a.target, a.timeout, a.say)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	a.conn = c
	a.mu.Unlock()
	return c, nil
}

// A want is what a call asks for.
type want struct {
	lock, path string // one of the two
	shared     bool
	why        string
	wait       time.Duration
}

func waitOf(seconds *float64) (time.Duration, error) {
	if seconds == nil {
		return 20 * time.Second, nil
	}
	if !(*seconds >= 0 && *seconds <= 3600) {
		return 0, fmt.Errorf("wait_seconds is %v; want 0 to 3600", *seconds)
	}
	return time.Duration(*seconds * float64(time.Second)), nil
}

func (a *agent) acquire(ctx context.Context, c *mcp.Call) (*mcp.Result, error) {
	var args struct {
		Lock        string   `json:"lock"`
		Shared      bool     `json:"shared"`
		WaitSeconds *float64 `json:"wait_seconds"`
		Why         string   `json:"why"`
	}
	if err := c.Arguments(&args); err != nil {
		return nil, err
	}
	wait, err := waitOf(args.WaitSeconds)
	if err != nil {
		return nil, err
	}
	return a.take(ctx, c, want{lock: args.Lock, shared: args.Shared, why: args.Why, wait: wait})
}

func (a *agent) lease(ctx context.Context, c *mcp.Call) (*mcp.Result, error) {
	var args struct {
		Path        string   `json:"path"`
		WaitSeconds *float64 `json:"wait_seconds"`
		Why         string   `json:"why"`
	}
	if err := c.Arguments(&args); err != nil {
		return nil, err
	}
	if args.Path == "" {
		return nil, errors.New("path is empty; give a file or a directory")
	}
	wait, err := waitOf(args.WaitSeconds)
	if err != nil {
		return nil, err
	}
	return a.take(ctx, c, want{path: args.Path, why: args.Why, wait: wait})
}

// maxWhy bounds the reason, which everybody who lists the queue reads.
const maxWhy = 1000

// taken makes a taker for a want.
func (a *agent) taken(w want, client string) (*taker, error) {
	k := &taker{
		globals: a.globals, target: a.target, name: w.lock, why: cut(w.why, maxWhy), who: a.taker.who,
		try: w.wait == 0, bounded: w.wait > 0, wait: w.wait, say: a.say,
		kind: kindFlags{shared: w.shared, layout: layoutFlag{holdfast.LayoutCurator}},
	}
	if client != "" || len(a.taker.labels) > 0 {
		k.labels = map[string]string{"agent": cut(client, 100)}
		for key, value := range a.taker.labels {
			k.labels[key] = value
		}
	}
	if w.path != "" {
		below, err := a.leased(w.path)
		if err != nil {
			return nil, err
		}
		k.name = strings.TrimSuffix(a.tree+"/"+below, "/")
		k.kind.tree = true
	}
	path, err := a.lockPath(k.name)
	if err != nil {
		return nil, err
	}
	k.place, k.path, err = k.kind.place(k.name, path)
	return k, err
}

// leased returns a path of files as a path in the tree.
func (a *agent) leased(path string) (string, error) {
	base := a.root
	if base == "" {
		var err error
		if base, err = os.Getwd(); err != nil {
			return "", err
		}
	}
	full := path
	if !filepath.IsAbs(path) {
		full = filepath.Join(base, path)
	}
	full = realPath(filepath.Clean(full))
	if a.root == "" {
		return strings.Trim(filepath.ToSlash(full), "/"), nil
	}
	below, err := filepath.Rel(a.root, full)
	if err != nil || below == ".." || strings.HasPrefix(below, ".."+string(filepath.Separator)) {
		return "", fmt.Errorf("%s is not below %s, the root of the tree %s", cut(path, 200), a.root, a.tree)
	}
	if below == "." {
		return "", nil
	}
	return filepath.ToSlash(below), nil
}

// take acquires a lock or a lease, and answers.
func (a *agent) take(ctx context.Context, call *mcp.Call, w want) (*mcp.Result, error) {
	k, err := a.taken(w, call.Client)
	if err != nil {
		return nil, told(err)
	}
	if own := a.conflicting(k); own != nil {
		return answer(fmt.Sprintf("NOT HELD: you hold %s already, as id %s. If that is for the same work, go on. Otherwise release it first: your wait would never end.", escape(own.name), own.id),
			map[string]any{"held": false, "own_id": own.id, "lock": k.name}), nil
	}
	if err := k.deadlock(); err != nil {
		return nil, told(err)
	}
	c, err := a.connected(ctx)
	if err != nil {
		return nil, told(err)
	}
	stop := a.report(ctx, call, k, c)
	h, err := k.enter(ctx, c, w.wait)
	stop()
	if f, ok := errors.AsType[*fault](err); ok && f.code == exitBusy {
		text := fmt.Sprintf("NOT HELD: %s. Do not start the work. Do something else, or call again to wait longer; blockers says whom the holder waits for.", escape(f.Error()))
		return answer(text, map[string]any{"held": false, "lock": k.name}), nil
	}
	if err != nil {
		return nil, told(err)
	}
	mine := a.keep(k, h)
	what := map[bool]string{true: "lease", false: "lock"}[mine.lease]
	text := fmt.Sprintf("HELD: %s %s, id %s, fencing token %d. Release it with release as soon as the work is done.", what, escape(k.name), mine.id, k.token(h))
	r := answer(text, map[string]any{"held": true, "id": mine.id, "lock": k.name, "token": strconv.FormatInt(k.token(h), 10)})
	r.Undo = func() {
		a.forget(mine)
		_ = h.Unlock() // if it fails, the session ends
	}
	return r, nil
}

// reportEvery is how often a client is told about a wait. Some clients give a call up that they hear nothing of.
const reportEvery = 5 * time.Second

// report tells the client how a wait gets on, until the caller calls stop.
func (a *agent) report(ctx context.Context, call *mcp.Call, k *taker, c *connection) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for pause := noticeAfter; ; pause = reportEvery {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			text := "waiting for " + escape(k.name)
			for _, path := range k.paths() {
				if queue := k.blocking(path, k.look(ctx, c.client, path)); len(queue) > 0 && !k.owns(ctx, c.client, queue[0]) {
					text += ", held by " + holder(queue[0], time.Now())
					break
				}
			}
			if ctx.Err() == nil {
				call.Progress(text)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// conflicting returns what the agent holds that its own call would wait for. A shared lock waits for itself, too, if
// somebody else has asked for the lock in between, so it counts.
func (a *agent) conflicting(k *taker) *agentHold {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range a.holds {
		if h.path == k.path && h.lease == k.kind.tree ||
			h.lease && k.kind.tree && (within(k.below, h.below) || within(h.below, k.below)) {
			return h
		}
	}
	return nil
}

// within reports whether path is dir or below it, in a tree.
func within(path, dir string) bool {
	return dir == "" || path == dir || strings.HasPrefix(path, dir+"/")
}

// keep records a Hold. A goroutine of its own follows it until it ends.
func (a *agent) keep(k *taker, h *holdfast.Hold) *agentHold {
	a.mu.Lock()
	a.last++
	mine := &agentHold{id: strconv.Itoa(a.last), name: k.name, path: k.path, below: k.below, lease: k.kind.tree, hold: h}
	a.holds = append(a.holds, mine)
	a.mu.Unlock()
	go func() {
		revoked := h.Revoked()
		for {
			select {
			case <-revoked:
				revoked = nil
				a.tell("warning", fmt.Sprintf("ASKED FOR: somebody asks for %s (id %s). Release it as soon as you can.", escape(mine.name), mine.id))
			case <-h.Context().Done():
				if err := h.Err(); errors.Is(err, holdfast.ErrLost) && !a.over() && a.forget(mine) {
					a.tell("error", fmt.Sprintf("LOST: %s (id %s) is no longer held, and another may hold it now: %s.", escape(mine.name), mine.id, escape(cut(err.Error(), 300))))
				}
				return
			}
		}
	}()
	return mine
}

func (a *agent) over() bool {
	select {
	case <-a.ended:
		return true
	default:
		return false
	}
}

// forget removes a Hold from those of the agent. It reports whether it was there.
func (a *agent) forget(h *agentHold) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, other := range a.holds {
		if other == h {
			a.holds = append(a.holds[:i:i], a.holds[i+1:]...)
			return true
		}
	}
	return false
}

// maxNews is how many pieces of news wait for the next answer.
const maxNews = 1000

// tell puts news before the next answer, and sends it at once, for clients that show what a server logs.
func (a *agent) tell(level, text string) {
	a.mu.Lock()
	if a.news = append(a.news, text); len(a.news) > maxNews {
		a.news = a.news[1:]
	}
	a.mu.Unlock()
	a.say.line("%s", text)
	a.server.Log(level, text)
}

// answer makes a result. Some clients show the model only the data, so these have the text, too.
func answer(text string, data map[string]any) *mcp.Result {
	data["text"] = text
	return &mcp.Result{Text: text, Data: data}
}

// withNews makes a tool's answers, and its errors, begin with the news. A call that was cancelled has no answer, so it
// leaves the news to the next one.
func (a *agent) withNews(call func(context.Context, *mcp.Call) (*mcp.Result, error)) func(context.Context, *mcp.Call) (*mcp.Result, error) {
	return func(ctx context.Context, c *mcp.Call) (*mcp.Result, error) {
		r, err := call(ctx, c)
		a.mu.Lock()
		defer a.mu.Unlock()
		if len(a.news) == 0 || ctx.Err() != nil {
			return r, err
		}
		news := strings.Join(a.news, "\n") + "\n"
		a.news = nil
		if err != nil {
			return nil, errors.New(news + err.Error())
		}
		undo := r.Undo
		r = answer(news+r.Text, r.Data.(map[string]any))
		r.Undo = undo
		return r, nil
	}
}

// told is an error with its hint, for the model.
func told(err error) error {
	f := explain(err)
	text := strings.TrimPrefix(f.Error(), "holdfast: ")
	if f.hint != "" {
		text += " (" + f.hint + ")"
	}
	return errors.New(escape(cut(text, maxMessage)))
}

func (a *agent) release(_ context.Context, c *mcp.Call) (*mcp.Result, error) {
	var args struct {
		ID string `json:"id"`
	}
	if err := c.Arguments(&args); err != nil {
		return nil, err
	}
	a.mu.Lock()
	var chosen []*agentHold
	var ids []string
	for _, h := range a.holds {
		ids = append(ids, fmt.Sprintf("%s (%s)", h.id, escape(h.name)))
		if args.ID == "all" || args.ID == h.id {
			chosen = append(chosen, h)
		}
	}
	id, err := strconv.Atoi(args.ID)
	before := err == nil && id >= 1 && id <= a.last
	a.mu.Unlock()
	if len(chosen) == 0 {
		switch {
		case args.ID == "all":
			return answer("You hold nothing.", map[string]any{"released": []string{}}), nil
		case before: // a repeated call
			return answer(fmt.Sprintf("Id %s is not held any more.", args.ID), map[string]any{"released": []string{}}), nil
		case len(ids) == 0:
			return nil, fmt.Errorf("no id %q: you hold nothing", cut(args.ID, 40))
		}
		return nil, fmt.Errorf("no id %q: you hold %s", cut(args.ID, 40), cut(strings.Join(ids, ", "), 500))
	}
	var lines, released []string
	for _, h := range chosen {
		if !a.forget(h) {
			continue // another call has released it
		}
		err := h.hold.Unlock()
		switch {
		case errors.Is(err, holdfast.ErrLost):
			lines = append(lines, fmt.Sprintf("LOST: %s (id %s) was lost before its release: another may have held it.", escape(h.name), h.id))
		case err != nil:
			lines = append(lines, fmt.Sprintf("%s (id %s): %v", escape(h.name), h.id, told(err)))
		default:
			released = append(released, h.id)
			lines = append(lines, fmt.Sprintf("Released %s (id %s).", escape(h.name), h.id))
		}
	}
	return answer(strings.Join(lines, "\n"), map[string]any{"released": append([]string{}, released...)}), nil
}
