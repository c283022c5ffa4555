package ui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"holdfast"
	"holdfast/internal/deed"
	"holdfast/internal/locks"
	"holdfast/zk"
	"holdfast/zktest"
)

// A stage is a page's actions in front of a server.
type stage struct {
	*door
	http.Handler
	srv    *zktest.Server
	admin  *zk.Client
	cookie string
}

func newStage(t *testing.T, cfg AccessConfig) *stage {
	t.Helper()
	s := &stage{srv: zktest.NewServer()}
	t.Cleanup(func() { s.srv.Close() })
	s.admin = s.srv.Client()
	s.door = newDoor(t, cfg)
	mux := http.NewServeMux()
	(&acts{access: s.Access, client: s.admin, prefix: "/locks/"}).register(mux)
	mux.HandleFunc("GET /lock", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, s.flashOf(r)) })
	s.Handler = s.protect(mux)
	if cfg.Users == nil {
		s.cookie = s.enter(t)
	}
	return s
}

func (s *stage) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.Handler.ServeHTTP(w, r) }

func (s *stage) hold(t *testing.T, path, owner string) *holdfast.Hold {
	t.Helper()
	h, err := holdfast.NewMutex(s.srv.Client(), path, holdfast.WithOwner(owner)).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (s *stage) queue(t *testing.T, path string) []holdfast.Entry {
	t.Helper()
	queue, err := holdfast.List(t.Context(), s.admin, path)
	if err != nil {
		t.Fatal(err)
	}
	return queue
}

func (s *stage) audit(t *testing.T) []deed.Entry {
	t.Helper()
	data, _, err := s.admin.Get(t.Context(), deed.Path)
	if err != nil {
		return nil
	}
	log, err := deed.ParseLog(data)
	if err != nil {
		t.Fatal(err)
	}
	return log.Items
}

// lockForm is the form to act on the lock at path, which h holds.
func lockForm(path string, h *holdfast.Hold, reason string) url.Values {
	return url.Values{"lock": {path}, "layout": {"curator"}, "token": {fmt.Sprint(h.Token())}, "reason": {reason}}
}

// An operator breaks and revokes with a reason. The page says so once it is asked, and the audit has who, why and from
// where. The address that a proxy reports does not count.
func TestOperatorsAct(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"break", "revoke"} {
		s := newStage(t, AccessConfig{})
		h := s.hold(t, "/locks/db", "ada")
		w := send(s, "GET", "/act/"+verb+"?"+lockForm("/locks/db", h, "").Encode(), nil, s.cookie)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "ada") || !strings.Contains(w.Body.String(), "Nobody waits") || len(s.audit(t)) > 0 {
			t.Errorf("%s: the question is %d %s", verb, w.Code, w.Body)
		}
		w = send(s, "POST", "/act/"+verb, lockForm("/locks/db", h, "host is gone"), s.cookie, "X-Forwarded-For: 192.0.2.66")
		to := w.Header().Get("Location")
		if w.Code != http.StatusSeeOther || !strings.HasPrefix(to, "../lock?") {
			t.Fatalf("%s: %d %s", verb, w.Code, w.Body)
		}
		to = strings.TrimPrefix(to, "..")
		if w := send(s, "GET", to, nil, s.cookie); !strings.Contains(w.Body.String(), "/locks/db, token "+fmt.Sprint(h.Token())) {
			t.Errorf("%s: the page says %q", verb, w.Body)
		}
		if w := send(s, "GET", to, nil, s.enter(t)); w.Body.Len() > 0 {
			t.Errorf("%s: another login sees the message %q", verb, w.Body)
		}
		if verb == "break" {
			<-h.Lost()
		} else {
			<-h.Revoked()
		}
		items := s.audit(t)
		if len(items) != 1 || items[0].Action != verb || items[0].By != "ops@web1:9" || items[0].Remote != "127.0.0.1:50000" || items[0].Reason != "host is gone" || items[0].Outcome != "done" {
			t.Errorf("%+v", items)
		}
	}
}

// A tab that is closed, or a second click, does not stop an action halfway: the lock is broken, and the audit has the
// outcome.
func TestAClosedTabDoesNotStopAnAction(t *testing.T) {
	t.Parallel()
	s := newStage(t, AccessConfig{})
	h := s.hold(t, "/locks/db", "ada")
	gone := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		s.ServeHTTP(w, r.WithContext(ctx))
	})
	send(gone, "POST", "/act/break", lockForm("/locks/db", h, "stuck"), s.cookie)
	if items := s.audit(t); len(items) != 1 || items[0].Outcome != "done" {
		t.Errorf("the audit has %+v", items)
	}
	if q := s.queue(t, "/locks/db"); len(q) > 0 {
		t.Errorf("the queue is %+v", q)
	}
	id := locks.SessionText(s.hold(t, "/locks/b", "ada").SessionID())
	send(gone, "POST", "/act/end", s.endForm(t, id), s.cookie)
	if q := s.queue(t, "/locks/b"); len(q) > 0 {
		t.Errorf("the queue is %+v", q)
	}
}

// An error of an action that was begun never says that nothing was done, unless it is proven. It says what was done.
func TestAnErrorMayFollowTheDeed(t *testing.T) {
	t.Parallel()
	s := newStage(t, AccessConfig{})
	for name, tt := range map[string]struct {
		err   error
		begun bool
		want  string
	}{
		"unknown":    {errors.New("odd"), true, "It may have been done: look at the lock."},
		"refused":    {zk.ErrNoAuth, true, "It may have been done: look at the lock."},
		"no answer":  {context.DeadlineExceeded, true, "It may have been done: look at the lock."},
		"changed":    {&deed.ChangedError{Path: "/locks/db", Token: 7}, true, "Nothing was done."},
		"before":     {zk.ErrNoAuth, false, "Nothing was done."},
		"some of it": {&deed.PartlyError{Done: "took 3 of 5 places", Err: zk.ErrNoAuth}, true, "took 3 of 5 places"},
	} {
		w := httptest.NewRecorder()
		(&acts{access: s.Access}).failed(w, httptest.NewRequest("POST", "/act/break", nil), tt.err, tt.begun)
		body := w.Body.String()
		if !strings.Contains(body, tt.want) || tt.want != "Nothing was done." && strings.Contains(body, "Nothing was done") || w.Code < 400 {
			t.Errorf("%s: %d %s", name, w.Code, body)
		}
	}
}

// A token that was seen before the holder changed does nothing, and the answer has the new holder.
func TestTheNextHolderIsSafe(t *testing.T) {
	t.Parallel()
	s := newStage(t, AccessConfig{})
	h := s.hold(t, "/locks/db", "ada")
	if err := h.Unlock(); err != nil {
		t.Fatal(err)
	}
	next := s.hold(t, "/locks/db", "bob <b>")
	for _, verb := range []string{"break", "revoke"} {
		for _, method := range []string{"GET", "POST"} {
			target, f := "/act/"+verb, lockForm("/locks/db", h, "stuck")
			if method == "GET" {
				target, f = target+"?"+f.Encode(), nil
			}
			w := send(s, method, target, f, s.cookie)
			if w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "bob &lt;b&gt;") || !strings.Contains(w.Body.String(), fmt.Sprint(next.Token())) {
				t.Errorf("%s %s: %d %s", method, verb, w.Code, w.Body)
			}
		}
	}
	select {
	case <-next.Lost():
		t.Error("the next holder has lost the lock")
	case <-next.Revoked():
		t.Error("the next holder is asked")
	default:
	}
	if q := s.queue(t, "/locks/db"); len(q) != 1 || q[0].Token != next.Token() {
		t.Errorf("%+v", q)
	}
}

// Nothing is done without the role, without a reason, without a login, by a link, or for a lock elsewhere.
func TestWhoMayNotAct(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cfg    AccessConfig
		user   string
		change func(url.Values)
		target string
		method string
		want   int
	}{
		"a viewer":             {AccessConfig{Users: users(t)}, "vic", nil, "", "POST", 403},
		"a read-only operator": {AccessConfig{ReadOnly: true}, "", nil, "", "POST", 403},
		"a read-only login":    {AccessConfig{ReadOnly: true, Users: users(t)}, "ann", nil, "", "POST", 403},
		"no login":             {AccessConfig{}, "none", nil, "", "POST", 401},
		"no reason":            {AccessConfig{}, "", func(f url.Values) { f.Set("reason", " \t") }, "", "POST", 400},
		"no token":             {AccessConfig{}, "", func(f url.Values) { f.Del("token") }, "", "POST", 400},
		"a token of zero":      {AccessConfig{}, "", func(f url.Values) { f.Set("token", "0") }, "", "POST", 400},
		"a wrong token":        {AccessConfig{}, "", func(f url.Values) { f.Set("token", "1") }, "", "POST", 409},
		"a lock elsewhere":     {AccessConfig{}, "", func(f url.Values) { f.Set("lock", "/else/db") }, "", "POST", 400},
		"no path":              {AccessConfig{}, "", func(f url.Values) { f.Set("lock", "/locks/../x\x00") }, "", "POST", 400},
		"a long form":          {AccessConfig{}, "", func(f url.Values) { f.Set("reason", strings.Repeat("x", mostForm)) }, "", "POST", 413},
		"a link":               {AccessConfig{}, "", nil, "?all", "GET", 200},
		"fields in the URL":    {AccessConfig{}, "", func(f url.Values) {}, "?all", "POST", 400},
	} {
		for _, verb := range []string{"break", "revoke", "end"} {
			if verb == "end" && (strings.Contains(name, "token") || strings.Contains(name, "path") || strings.Contains(name, "elsewhere")) {
				continue
			}
			s := newStage(t, tt.cfg)
			h := s.hold(t, "/locks/db", "ada")
			cookie := s.cookie
			switch tt.user {
			case "none":
				cookie = "Cookie: x=y"
			case "":
			default:
				cookie = cookieOf(t, s.logIn(tt.user, "correct horse"))
			}
			f := lockForm("/locks/db", h, "stuck")
			f.Set("session", locks.SessionText(h.SessionID()))
			if tt.change != nil {
				tt.change(f)
			}
			target := "/act/" + verb
			if tt.target != "" {
				target, f = target+"?"+f.Encode(), nil
			}
			w := send(s, tt.method, target, f, cookie)
			if w.Code != tt.want {
				t.Errorf("%s, %s: %d %s; want %d", name, verb, w.Code, w.Body, tt.want)
			}
			select {
			case <-h.Lost():
				t.Errorf("%s, %s: the holder has lost the lock", name, verb)
			case <-h.Revoked():
				t.Errorf("%s, %s: the holder is asked", name, verb)
			default:
			}
			if q := s.queue(t, "/locks/db"); len(q) != 1 || q[0].Token != h.Token() || len(s.audit(t)) > 0 {
				t.Errorf("%s, %s: %+v, audit %+v", name, verb, q, s.audit(t))
			}
		}
	}
}

// A viewer sees what would happen, and has no form. What a session has is on the page of the sessions: to read it from
// the server costs too much for everybody.
func TestViewersHaveNoForm(t *testing.T) {
	t.Parallel()
	s := newStage(t, AccessConfig{Users: users(t)})
	h := s.hold(t, "/locks/db", "ada")
	w := send(s, "GET", "/act/break?"+lockForm("/locks/db", h, "").Encode(), nil, cookieOf(t, s.logIn("vic", "correct horse")))
	if w.Code != http.StatusOK || strings.Contains(w.Body.String(), "<form") || !strings.Contains(w.Body.String(), "role operator") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := send(s, "GET", "/act/end?session="+locks.SessionText(h.SessionID()), nil, cookieOf(t, s.logIn("vic", "correct horse"))); w.Code != http.StatusForbidden {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

var seenField = regexp.MustCompile(`name="seen" value="([^"]+)"`)

// endForm returns the form to end a session, filled in.
func (s *stage) endForm(t *testing.T, id string) url.Values {
	t.Helper()
	w := send(s, "GET", "/act/end?session="+id, nil, s.cookie)
	m := seenField.FindStringSubmatch(w.Body.String())
	if m == nil {
		t.Fatalf("no form: %d %s", w.Code, w.Body)
	}
	return url.Values{"session": {id}, "seen": {m[1]}, "reason": {"gone"}}
}

// A session is ended as the operator saw it: not if it has joined another queue since, or acquired a lock for which it
// was waiting. A lock that it has released in between is no reason.
func TestASessionThatChangesIsNotEnded(t *testing.T) {
	t.Parallel()
	s := newStage(t, AccessConfig{})
	first := s.hold(t, "/locks/queue", "bob")
	c := s.srv.Client()
	lock := func(path string) *holdfast.Hold {
		h, err := holdfast.NewMutex(c, path, holdfast.WithOwner("ada")).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	a, b := lock("/locks/a"), lock("/locks/b")
	id := locks.SessionText(a.SessionID())
	waited := make(chan *holdfast.Hold, 1)
	go func() { waited <- lock("/locks/queue") }()
	for len(s.queue(t, "/locks/queue")) < 2 {
		time.Sleep(time.Millisecond)
	}
	refused := func(what string, form url.Values, lock string) {
		t.Helper()
		w := send(s, "POST", "/act/end", form, s.cookie)
		if w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), lock) || !strings.Contains(w.Body.String(), "Nothing was done") {
			t.Errorf("%s: %d %s", what, w.Code, w.Body)
		}
		if a.Err() != nil || len(s.audit(t)) > 0 {
			t.Errorf("%s: something was done", what)
		}
	}
	form := s.endForm(t, id)
	later := lock("/locks/later")
	refused("a new lock", form, "/locks/later")
	form = s.endForm(t, id)
	if err := first.Unlock(); err != nil {
		t.Fatal(err)
	}
	now := <-waited
	refused("a lock for which it waited", form, "/locks/queue")
	for _, bad := range []string{"", "x", "AAAA", strings.Repeat("A", 22)} {
		form.Set("seen", bad)
		if w := send(s, "POST", "/act/end", form, s.cookie); w.Code != http.StatusBadRequest && w.Code != http.StatusConflict || a.Err() != nil {
			t.Errorf("%q: %d, %v", bad, w.Code, a.Err())
		}
	}
	form = s.endForm(t, id)
	if err := b.Unlock(); err != nil {
		t.Fatal(err)
	}
	if w := send(s, "POST", "/act/end", form, s.cookie); w.Code != http.StatusSeeOther {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for _, h := range []*holdfast.Hold{a, later, now} {
		<-h.Lost()
	}
}

// A session with more places than a form has is refused before anything is done, and the message names the command.
func TestASessionWithManyPlaces(t *testing.T) {
	t.Parallel()
	s := newStage(t, AccessConfig{})
	c := s.srv.Client()
	ops := []zk.Op{zk.CreateOp("/locks", nil, zk.Persistent)}
	for i := range mostPlaces + 1 {
		ops = append(ops, zk.CreateOp(fmt.Sprintf("/locks/%04d", i), nil, zk.Ephemeral))
	}
	if _, err := c.Multi(t.Context(), ops...); err != nil {
		t.Fatal(err)
	}
	session, err := c.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	id := locks.SessionText(session.ID())
	w := send(s, "GET", "/act/end?session="+id, nil, s.cookie)
	if w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), "holdfast sessions end "+id) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if err := c.Delete(t.Context(), "/locks/0000", zk.AnyVersion); err != nil {
		t.Fatal(err)
	}
	if w := send(s, "POST", "/act/end", s.endForm(t, id), s.cookie); w.Code != http.StatusSeeOther {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if names, _, err := c.Children(t.Context(), "/locks"); err != nil || len(names) > 0 {
		t.Errorf("%d nodes are left, %v", len(names), err)
	}
}

// The end of a session shows all locks that it will lose, and takes those away.
func TestASessionIsEnded(t *testing.T) {
	t.Parallel()
	s := newStage(t, AccessConfig{})
	c := s.srv.Client()
	var holds []*holdfast.Hold
	for _, path := range []string{"/locks/a", "/locks/b"} {
		h, err := holdfast.NewMutex(c, path, holdfast.WithOwner("ada")).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		holds = append(holds, h)
	}
	other := s.hold(t, "/locks/c", "bob")
	id := locks.SessionText(holds[0].SessionID())
	w := send(s, "GET", "/act/end?session="+id, nil, s.cookie)
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "/locks/a") || !strings.Contains(w.Body.String(), "/locks/b") || strings.Contains(w.Body.String(), "/locks/c") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := send(s, "POST", "/act/end", s.endForm(t, id), s.cookie); w.Code != http.StatusSeeOther {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for _, h := range holds {
		<-h.Lost()
	}
	if items := s.audit(t); len(items) != 1 || len(items[0].Places) != 2 || items[0].Session != id {
		t.Errorf("%+v", items)
	}
	for _, bad := range []string{id, "", "0", "zz", "0x0", locks.SessionText(1)} {
		if w := send(s, "POST", "/act/end", url.Values{"session": {bad}, "reason": {"gone"}}, s.cookie); w.Code != http.StatusBadRequest && w.Code != http.StatusConflict {
			t.Errorf("%q: %d", bad, w.Code)
		}
	}
	if len(s.queue(t, "/locks/c")) != 1 || other.Err() != nil {
		t.Error("another session has lost its lock")
	}
}

// hostile are texts that would be markup, a header or an escape sequence.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `javascript:alert(1)`, `</title><svg onload=alert(1)>`,
	`{{.Secret}}`, "a\r\nSet-Cookie: x=y", "\x1b]0;title\a", `<!--`, `&lt;b&gt;`, "\u202eevil", strings.Repeat("<b>", 100),
}

// Names, owners and reasons are text on every page, in every attribute and in every header.
func TestMarkupIsText(t *testing.T) {
	t.Parallel()
	s := newStage(t, AccessConfig{})
	for i, text := range hostile {
		name := strings.Map(func(r rune) rune {
			if r == '/' || r < ' ' {
				return -1
			}
			return r
		}, text)
		path := "/locks/" + name
		c := s.srv.Client()
		h, err := holdfast.NewMutex(c, path, holdfast.WithOwner(text), holdfast.WithReason(text)).Lock(t.Context())
		if err != nil {
			t.Logf("%q: %v", path, err) // not a path
			path = fmt.Sprintf("/locks/%d", i)
			if h, err = holdfast.NewMutex(c, path, holdfast.WithOwner(text), holdfast.WithReason(text)).Lock(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		f := lockForm(path, h, text)
		f.Set("layout", text)
		wrong := lockForm(path, h, text)
		wrong.Set("token", fmt.Sprint(h.Token()+1))
		wrong.Set("layout", text)
		for _, w := range []*httptest.ResponseRecorder{
			send(s, "GET", "/act/break?"+f.Encode(), nil, s.cookie),
			send(s, "GET", "/act/end?session="+locks.SessionText(h.SessionID()), nil, s.cookie),
			send(s, "GET", "/act/end?session="+url.QueryEscape(text), nil, s.cookie),
			send(s, "POST", "/act/break", wrong, s.cookie),
			send(s, "POST", "/act/break", f, s.cookie),
		} {
			body := strings.Replace(w.Body.String(), `value="`+html.EscapeString(path)+`"`, "", 1) // the form has the name as it is
			for _, bad := range []string{"<script", "<img", "<svg", "<!--", "<b><b>", `="javascript:`, "\x1b", "\u202e"} {
				if strings.Contains(strings.Replace(body, "<!doctype", "", 1), bad) {
					t.Errorf("%q: the page %d has %q:\n%s", text, w.Code, bad, body)
				}
			}
			if strings.Contains(html.UnescapeString(body), text) && strings.ContainsAny(text, `<>"'`) && strings.Contains(body, text) {
				t.Errorf("%q: the page has the text as it is", text)
			}
			if to := w.Header().Get("Location"); w.Code == http.StatusSeeOther && (!strings.HasPrefix(to, "../lock?") || strings.ContainsAny(to, "\r\n<>\"'")) || w.Header().Get("X-Y") != "" || len(w.Result().Cookies()) > 0 {
				t.Errorf("%q: to %q, %v", text, to, w.Header())
			}
		}
		items := s.audit(t)
		if last := items[len(items)-1]; !strings.HasPrefix(last.Reason, strings.TrimSpace(text)[:3]) {
			line, _ := json.Marshal(last)
			t.Errorf("%q: the audit has %s", text, line)
		}
	}
}

// A user is removed while the form of an action is on its way. Nothing is done.
func TestUserIsRemovedDuringTheForm(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"break", "revoke", "end"} {
		s := newStage(t, AccessConfig{Users: users(t)})
		cookie := cookieOf(t, s.logIn("ann", "correct horse"))
		h := s.hold(t, "/locks/db", "ada")
		form := lockForm("/locks/db", h, "stuck")
		if verb == "end" {
			w := send(s, "GET", fmt.Sprintf("/act/end?session=0x%x", uint64(h.SessionID())), nil, cookie)
			field := regexp.MustCompile(`name="seen" value="([^"]*)"`).FindStringSubmatch(w.Body.String())
			if field == nil {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			form = url.Values{"session": {fmt.Sprintf("0x%x", uint64(h.SessionID()))}, "seen": {field[1]}, "reason": {"gone"}}
		}
		_, vic, _ := strings.Cut(testUsers(), "\n")
		now, err := ParseUsers(vic)
		if err != nil {
			t.Fatal(err)
		}
		removed := readerFunc(func([]byte) (int, error) {
			if err := s.SetUsers(now); err != nil {
				t.Error(err)
			}
			return 0, io.EOF
		})
		r := httptest.NewRequest("POST", "http://127.0.0.1:7480/act/"+verb, io.MultiReader(removed, strings.NewReader(form.Encode())))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "http://127.0.0.1:7480")
		k, v, _ := strings.Cut(cookie, ": ")
		r.Header.Set(k, v)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != http.StatusForbidden || h.Err() != nil || len(s.queue(t, "/locks/db")) != 1 || len(s.audit(t)) > 0 {
			t.Errorf("%s: %d, %v, audit %v", verb, w.Code, h.Err(), s.audit(t))
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
