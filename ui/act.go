package ui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"holdfast"
	"holdfast/internal/deed"
	"holdfast/internal/duration"
	"holdfast/internal/locks"
	"holdfast/zk"
)

const (
	// askPatience is how long the page that asks for a reason may take. It is shorter than the server's ReadTimeout,
	// which ends the context of a request.
	askPatience = 8 * time.Second
	// actPatience is how long an action may take. It is shorter than the server's WriteTimeout. The end of the request
	// does not end it.
	actPatience = 15 * time.Second
)

// An actPage is a page about an action: what will happen, what was refused, or the form to log in.
type actPage struct {
	Title   string
	Refused string // why nothing was done
	Hint    string
	Done    string
	Login   bool   // with the form for name and password
	Next    string // where the login leads
	Here    string // the page's own directory, see here
	Theme   string

	Ask *actQuestion // what will happen, with the form to do it
	Now *actPlace    // the present holder, if it has changed
}

// An actQuestion is what an action will do.
type actQuestion struct {
	Verb, Does             string // of the action
	Lock, Layout, Token    string
	Kind                   string // of the lock, for the way back
	Session, Seen          string // of an end, with its places for the form; then the fields above are empty
	Places                 []actPlace
	Waiting                int
	Next                   string // the owner of the first waiter
	ReservedUntil          string // the time of --min-hold that it ends
	Action, Back, Operator string // addresses of the form and of the way back, below Here, and why there is no form
}

// An actPlace is a place in a queue.
type actPlace struct {
	Lock, Token, Owner, Why, Session, Age string
	Held                                  bool
}

// show writes a page. Everything in it may be hostile text: the template escapes it.
func show(w http.ResponseWriter, r *http.Request, status int, page actPage) {
	page.Here, page.Theme = here(r), themeOf(r)
	var b bytes.Buffer
	if err := templates()["act"].ExecuteTemplate(&b, "act.html", page); err != nil {
		http.Error(w, "the page cannot be shown", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}

// acts are the handlers of the actions.
type acts struct {
	access *Access
	client *zk.Client
	prefix string // of the locks that can be acted on
	// lockPage returns the address of a lock's page in the page's own directory, with the field flash if there is a message.
	lockPage func(path, layout, kind, flash string) string
}

// defaultLockPage is lockPage without another one.
func defaultLockPage(path, layout, kind, flash string) string {
	q := url.Values{"path": {path}}
	if kind != "" && kind != "lock" {
		q.Set("kind", kind)
	}
	if layout != "" {
		q.Set("layout", layout)
	}
	if flash != "" {
		q.Set("flash", flash)
	}
	return "lock?" + q.Encode()
}

// register adds the handlers: GET shows what will happen, and POST does it.
func (s *acts) register(mux *http.ServeMux) {
	if s.lockPage == nil {
		s.lockPage = defaultLockPage
	}
	for _, a := range []deed.Action{deed.Breaking, deed.Revoking} {
		mux.HandleFunc("GET /act/"+a.Name, func(w http.ResponseWriter, r *http.Request) { s.ask(w, r, a) })
		mux.HandleFunc("POST /act/"+a.Name, func(w http.ResponseWriter, r *http.Request) { s.act(w, r, a) })
	}
	mux.HandleFunc("GET /act/end", s.askEnd)
	mux.HandleFunc("POST /act/end", s.end)
}

// look makes the plan that the fields describe. If it cannot, it answers.
func (s *acts) look(ctx context.Context, w http.ResponseWriter, r *http.Request, a deed.Action, fields url.Values) (*deed.Plan, bool) {
	path := fields.Get("lock")
	token, err := strconv.ParseInt(fields.Get("token"), 10, 64)
	switch {
	case err != nil || token <= 0:
		s.access.refuse(w, r, http.StatusBadRequest, "the token is missing, or is no number", "Begin at the page of the lock. Nothing was done.")
		return nil, false
	case zk.ValidatePath(path) != nil || !strings.HasPrefix(path, s.prefix):
		s.access.refuse(w, r, http.StatusBadRequest, "this is no path of a lock below "+s.prefix, "Nothing was done.")
		return nil, false
	}
	p, err := deed.Look(ctx, s.client, a, path, nil, token) // the token tells the layout
	if err != nil {
		s.failed(w, r, err, false)
		return nil, false
	}
	return p, true
}

// acting returns the context of an action. It outlives the request: the action goes on if the user closes the tab, or
// clicks twice, so that nothing is left half done.
func acting(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.Context()), actPatience)
}

// ask shows what will happen to whom. It changes nothing.
func (s *acts) ask(w http.ResponseWriter, r *http.Request, a deed.Action) {
	ctx, cancel := context.WithTimeout(r.Context(), askPatience)
	defer cancel()
	fields := r.URL.Query()
	p, ok := s.look(ctx, w, r, a, fields)
	if !ok {
		return
	}
	q := &actQuestion{
		Verb: a.Name, Does: a.Does, Lock: p.Path, Layout: layoutLabel(fields), Kind: fields.Get("kind"), Token: strconv.FormatInt(p.Token, 10),
		Action: "act/" + a.Name, Back: s.lockPage(p.Path, layoutLabel(fields), fields.Get("kind"), ""), Operator: s.cannot(r),
	}
	for _, e := range p.Places {
		q.Places = append(q.Places, placeNow(p.Path, e))
	}
	if n, next := p.Waiting(); n > 0 {
		q.Waiting, q.Next = n, plain(ownerName(*next))
	}
	if p.Reserved != nil {
		q.ReservedUntil = p.Reserved.Until.UTC().Format(time.RFC3339)
	}
	show(w, r, http.StatusOK, actPage{Title: a.Name + " " + plain(p.Path), Ask: q})
}

// layoutLabel returns the layout as the page of the lock has it. It is the one that was given, which can be a mix of
// several, if it looks like one.
func layoutLabel(fields url.Values) string {
	given := fields.Get("layout")
	other := func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(" -_:+*,{}", r)
	}
	if len(given) > 100 || strings.ContainsFunc(given, other) {
		return ""
	}
	return given
}

// act breaks a lock, or asks its holder to release it.
func (s *acts) act(w http.ResponseWriter, r *http.Request, a deed.Action) {
	by, ok := s.may(w, r)
	if !ok {
		return
	}
	ctx, cancel := acting(r)
	defer cancel()
	p, ok := s.look(ctx, w, r, a, r.PostForm) // never the URL: a link must not fill in a form
	if !ok {
		return
	}
	record, err := p.Do(ctx, s.client, by)
	s.logged(r, record, err)
	if err != nil {
		s.failed(w, r, err, true)
		return
	}
	id := s.access.flash(r, fmt.Sprintf("%s %s, token %d.%s", a.Done, plain(p.Path), p.Token, unaudited(record)))
	redirect(w, r, s.lockPage(p.Path, layoutLabel(r.PostForm), r.PostForm.Get("kind"), id))
}

// cannot says why the user may not act, or "".
func (s *acts) cannot(r *http.Request) string {
	switch {
	case s.access.cfg.ReadOnly:
		return "this page is read-only"
	case !userOf(r).mayAct():
		return "this needs the role " + string(Operator)
	}
	return ""
}

// may reads the form, and returns who acts and why. If the user may not act, or gives no reason, it answers.
func (s *acts) may(w http.ResponseWriter, r *http.Request) (by deed.By, ok bool) {
	if why := s.cannot(r); why != "" {
		s.access.refuse(w, r, http.StatusForbidden, why, "Nothing was done.")
		return by, false
	}
	if !s.access.readForm(w, r) {
		return by, false
	}
	if loggedOut(r) { // while the form was on its way
		s.access.refuse(w, r, http.StatusForbidden, "your login has ended", "Log in again. Nothing was done.")
		return by, false
	}
	reason := strings.TrimSpace(r.PostForm.Get("reason"))
	if reason == "" {
		s.access.refuse(w, r, http.StatusBadRequest, "there is no reason", "Go back and say why: the audit keeps it. Nothing was done.")
		return by, false
	}
	u := userOf(r)
	return deed.By{Name: u.Name, Remote: u.Remote, Reason: reason}, true
}

// logged writes what was done to the log.
func (s *acts) logged(r *http.Request, record deed.Record, err error) {
	u := userOf(r)
	s.access.log.Info("ui: acted", "action", record.Action, "user", u.Name, "remote", u.Remote, "reason", record.Reason,
		"places", len(record.Places), "outcome", record.Outcome, "err", err, "audit_missing", record.Missing)
}

// unaudited says that the audit line is missing, or "".
func unaudited(r deed.Record) string {
	if r.Missing == nil {
		return ""
	}
	return " The audit line could not be written."
}

// failed says what went wrong. begun says that the action was begun: then only a *deed.ChangedError proves that nothing
// was done.
func (s *acts) failed(w http.ResponseWriter, r *http.Request, err error, begun bool) {
	page := actPage{Title: "Not done", Refused: plain(strings.TrimPrefix(err.Error(), "holdfast: ")), Hint: "Nothing was done."}
	if begun {
		page.Title, page.Hint = "Not known to be done", "It may have been done: look at the lock."
	}
	status := http.StatusBadGateway
	changed, is := errors.AsType[*deed.ChangedError](err)
	part, partly := errors.AsType[*deed.PartlyError](err)
	switch {
	case is:
		status = http.StatusConflict
		page.Title, page.Hint = "The holder has changed", "Nothing was done. Look at the lock again."
		if h := changed.Holder(); h != nil {
			now := placeNow(changed.Path, *h)
			page.Now = &now
		}
	case errors.Is(err, holdfast.ErrNotHeld):
		status = http.StatusConflict
	case errors.Is(err, zk.ErrNoAuth):
		status = http.StatusForbidden
		page.Hint = "The page's own login at the server may not do that. " + page.Hint
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, zk.ErrConnectionLoss):
		status = http.StatusGatewayTimeout
		page.Hint = "The server has not answered. " + page.Hint
	}
	if partly {
		page.Title, page.Done, page.Refused = "Partly done", plain(part.Done), plain(part.Err.Error())
		page.Hint = "The rest may have been done: look at the lock."
	}
	s.access.log.Warn("ui: action failed", "path", r.URL.Path, "user", userOf(r).Name, "remote", r.RemoteAddr, "err", err)
	show(w, r, status, page)
}

// placeNow describes a place.
func placeNow(path string, e holdfast.Entry) actPlace {
	p := actPlace{
		Lock: plain(path), Token: strconv.FormatInt(e.Token, 10), Owner: plain(ownerName(e)), Why: plain(e.Reason), Session: locks.SessionText(e.Session), Held: e.Held,
		Age: duration.Age(time.Since(e.Since)),
	}
	if e.Detached {
		p.Session = "detached"
	}
	return p
}

// plain makes text of others fit for a page: characters that cannot be seen, or that reorder the text around them, are
// escaped, and long texts are cut. The template escapes markup.
func plain(text string) string {
	const most = 300
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	if utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return text
	}
	quoted := strconv.Quote(text)
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(quoted[1 : len(quoted)-1])
}

// ownerName returns the owner of a place, or what stands for it.
func ownerName(e holdfast.Entry) string {
	switch {
	case e.Owner != "":
		return e.Owner
	case e.Detached:
		return "id " + e.ID
	}
	return "session " + locks.SessionText(e.Session)
}
