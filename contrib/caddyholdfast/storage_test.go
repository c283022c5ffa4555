package caddyholdfast_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	_ "github.com/caddyserver/caddy/v2/modules/logging" // the log file
	"github.com/caddyserver/certmagic"

	"holdfast/contrib/caddyholdfast"
	"holdfast/contrib/certmagicholdfast"
	"holdfast/zk"
	"holdfast/zkserver"
)

// serve starts a server of ZooKeeper's protocol and returns its address.
func serve(t *testing.T) string {
	t.Helper()
	srv, err := zkserver.Open(zkserver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go srv.Serve(l)
	t.Cleanup(func() { srv.Close() })
	return l.Addr().String()
}

func TestCaddyfiles(t *testing.T) {
	for _, tc := range []struct{ text, want, err string }{
		{"holdfast zk://a:2181", `{"server":"zk://a:2181"}`, ""},
		{"holdfast {\n server zk://a:2181,b:2181/app\n path /tls\n user certs\n password_file /run/secrets/zk\n connect_timeout 3s\n}",
			`{"server":"zk://a:2181,b:2181/app","path":"/tls","user":"certs","password_file":"/run/secrets/zk","connect_timeout":3000000000}`, ""},
		{"holdfast a b", "", "wrong argument count"},
		{"holdfast {\n path\n}", "", "wrong argument count"},
		{"holdfast {\n path /a /b\n}", "", "wrong argument count"},
		{"holdfast a {\n server b\n}", "", "given twice"},
		{"holdfast {\n connect_timeout soon\n}", "", "connect_timeout"},
		{"holdfast {\n password secret\n}", "", `unknown setting "password"`},
	} {
		s := new(caddyholdfast.Storage)
		err := s.UnmarshalCaddyfile(caddyfile.NewTestDispenser(tc.text))
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%s\n%v, want %s", tc.text, err, tc.err)
			}
			continue
		}
		got, _ := json.Marshal(s)
		if err != nil || string(got) != tc.want {
			t.Errorf("%s\n%s, %v; want %s", tc.text, got, err, tc.want)
		}
	}
}

// load provisions the storage of a Caddyfile, and returns it with the function that cleans it up.
func load(t *testing.T, text string) (caddy.StorageConverter, func(), error) {
	t.Helper()
	config, _, err := caddyfile.Adapter{ServerType: httpcaddyfile.ServerType{}}.Adapt([]byte(text), nil)
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	var c struct {
		Storage json.RawMessage `json:"storage"`
	}
	if err := json.Unmarshal(config, &c); err != nil {
		t.Fatal(err)
	}
	settings := make(map[string]any)
	if err := json.Unmarshal(c.Storage, &settings); err != nil || settings["module"] != "holdfast" {
		t.Fatalf("%s has the storage %v, %v", text, settings, err)
	}
	delete(settings, "module") // Caddy takes it off before it loads the module
	raw, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	v, err := ctx.LoadModuleByID("caddy.storage.holdfast", raw)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	return v.(caddy.StorageConverter), cancel, nil
}

// The Caddyfile of the README, as Caddy loads it: two servers share values and locks, and only their user can read.
func TestCaddyLoadsTheStorage(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(readme), "```caddyfile\n")
	text, _, _ = strings.Cut(text, "```")
	address, password := serve(t), filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text = strings.NewReplacer("zk1:2181,zk2:2181,zk3:2181", address, "/etc/caddy/zookeeper", password).Replace(text)
	if !strings.Contains(text, address) || !strings.Contains(text, password) {
		t.Fatalf("the Caddyfile of the README has no address or no password file:\n%s", text)
	}
	ctx := context.Background()
	first, cleanUp, err := load(t, text)
	if err != nil {
		t.Fatal(err)
	}
	a, err := first.CertMagicStorage()
	if err != nil {
		t.Fatal(err)
	}
	second, cleanUpSecond, err := load(t, strings.Replace(text, "/app\n", "/app?timeout=14s\n", 1)) // it connects, as another server does
	if err != nil {
		t.Fatal(err)
	}
	defer cleanUpSecond()
	b, err := second.CertMagicStorage()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Lock(ctx, "issue_cert_example.com"); err != nil {
		t.Fatal(err)
	}
	if err := a.Store(ctx, "certificates/ca/example.com/example.com.key", []byte("private")); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Load(ctx, "certificates/ca/example.com/example.com.key"); string(got) != "private" || err != nil {
		t.Errorf("Load: %q, %v", got, err)
	}
	stranger, err := zk.Dial(ctx, zk.Config{Servers: []string{address}})
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	if _, _, err := stranger.Get(ctx, "/app/caddy/values/certificates/ca/example.com/example.com.key"); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("a stranger reads the key: %v", err)
	}
	// The end of a configuration ends its locks.
	cleanUp()
	if err := b.Lock(ctx, "issue_cert_example.com"); err != nil {
		t.Error(err)
	}
}

func TestStoragesThatCannotWork(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // nobody answers
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, tc := range []struct{ lines, want string }{
		{"path /caddy", "server is missing"},
		{"server zk://" + l.Addr().String() + "\nconnect_timeout 200ms", "deadline exceeded"},
		{"server http://a", "holdfast storage"},
		{"server zk://a\nuser certs", "password_file"},
		{"server zk://a\nuser certs\npassword_file /no/such/file", "no such file"},
	} {
		_, _, err := load(t, "{\nstorage holdfast {\n"+tc.lines+"\n}\n}\n")
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s\n%v, want %s", tc.lines, err, tc.want)
		}
	}
}

// A running is Caddy with a storage, in this process.
type running struct {
	t        *testing.T
	settings map[string]any // of the storage
	log      string         // its file
	loads    int
}

func newRunning(t *testing.T, settings map[string]any) *running {
	r := &running{t: t, settings: settings, log: filepath.Join(t.TempDir(), "log")}
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// load loads a configuration that differs from the last one, and returns its storage.
func (r *running) load() (certmagic.Storage, error) {
	r.t.Helper()
	r.loads++
	storage := map[string]any{"module": "holdfast"}
	for k, v := range r.settings {
		storage[k] = v
	}
	writer := func(name string) any {
		return map[string]any{"writer": map[string]any{"output": "file", "filename": name}}
	}
	config, err := json.Marshal(map[string]any{
		"admin": map[string]any{"disabled": true, "config": map[string]any{"persist": false}}, "storage": storage,
		"logging": map[string]any{"logs": map[string]any{"default": writer(r.log), "another": writer(fmt.Sprint(r.log, r.loads))}},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	if err := caddy.Load(config, true); err != nil {
		return nil, err
	}
	return caddy.ActiveContext().Storage(), nil
}

func (r *running) logged() string {
	r.t.Helper()
	text, err := os.ReadFile(r.log)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

const (
	certLock = "issue_cert_example.com"
	certKey  = "certificates/ca/example.com/example.com.key"
)

// A reload does not end an order that is under way, and logs no loss.
func TestReloadKeepsAnOrder(t *testing.T) {
	ctx := context.Background()
	address := serve(t)
	other, err := zk.Dial(ctx, zk.Config{Servers: []string{address}})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	stranger, err := certmagicholdfast.New(certmagicholdfast.Config{Client: other, Path: "/caddy"})
	if err != nil {
		t.Fatal(err)
	}
	r := newRunning(t, map[string]any{"server": "zk://" + address})
	s, err := r.load()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Lock(ctx, certLock); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		next, err := r.load()
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := stranger.TryLock(ctx, certLock); ok || err != nil {
			t.Fatalf("another server gets the lock of the order: %v, %v", ok, err)
		}
		if ok, err := next.(certmagic.TryLocker).TryLock(ctx, certLock); ok || err != nil {
			t.Fatalf("the new configuration gets the lock of the order: %v, %v", ok, err)
		}
	}
	if err := s.Store(ctx, certKey, []byte("private")); err != nil {
		t.Errorf("the order cannot store: %v", err)
	}
	if err := s.Unlock(ctx, certLock); err != nil {
		t.Errorf("Unlock: %v", err)
	}
	if log := r.logged(); strings.Contains(log, "lost") || !strings.Contains(log, "private keys") {
		t.Errorf("log:\n%s", log)
	}
}

// A reload with other settings connects anew. The locks of the old connection end, which is no loss.
func TestReloadWithOtherSettings(t *testing.T) {
	ctx := context.Background()
	r := newRunning(t, map[string]any{"server": "zk://" + serve(t)})
	s, err := r.load()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Lock(ctx, certLock); err != nil {
		t.Fatal(err)
	}
	r.settings["path"] = "/other"
	next, err := r.load()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Store(ctx, certKey, []byte("late")); !errors.Is(err, zk.ErrClosed) {
		t.Errorf("Store of the old configuration: %v, want ErrClosed", err)
	}
	if _, err := next.Load(ctx, certKey); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Load: %v, want ErrNotExist", err)
	}
	r.settings["path"] = "/caddy"
	again, err := r.load()
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Lock(ctx, certLock); err != nil {
		t.Fatal(err)
	}
	if err := again.Unlock(ctx, certLock); err != nil {
		t.Fatal(err)
	}
	if log := r.logged(); strings.Contains(log, "lost") {
		t.Errorf("log:\n%s", log)
	}
}

// Without a server, a reload with the same settings succeeds, and one with others fails and changes nothing.
func TestReloadWithoutAServer(t *testing.T) {
	ctx := context.Background()
	srv, err := zkserver.Open(zkserver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go srv.Serve(l)
	r := newRunning(t, map[string]any{"server": "zk://" + l.Addr().String(), "connect_timeout": "500ms"})
	s, err := r.load()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Store(ctx, certKey, []byte("private")); err != nil {
		t.Fatal(err)
	}
	srv.Close()
	if s, err = r.load(); err != nil {
		t.Errorf("reload with the same settings: %v", err)
	}
	r.settings["path"] = "/other"
	if _, err := r.load(); err == nil || !strings.Contains(err.Error(), "holdfast storage") {
		t.Errorf("reload with other settings: %v", err)
	}
	if got := caddy.ActiveContext().Storage(); got != s {
		t.Error("the reload that failed has changed the storage")
	}
	delete(r.settings, "path")
	if _, err := r.load(); err != nil {
		t.Errorf("reload with the first settings: %v", err)
	}
}

// A client that a server has refused has given up for good. A reload does not take it.
func TestReloadAfterARefusal(t *testing.T) {
	users := func(password string) zkserver.Config {
		return zkserver.Config{Users: map[string]string{"certs": password}, RequireAuth: []string{"digest"}}
	}
	srv, err := zkserver.Open(users("secret"))
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go srv.Serve(l)
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRunning(t, map[string]any{"server": "zk://" + l.Addr().String(), "user": "certs", "password_file": password})
	s, err := r.load()
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.SetUsers(t.Context(), users("another")); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := s.Load(t.Context(), certKey); errors.Is(err, zk.ErrAuthFailed) {
			break
		}
	}
	if err := srv.SetUsers(t.Context(), users("secret")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if s, err = r.load(); err != nil {
			t.Fatal(err)
		}
		if err := s.Store(t.Context(), certKey, []byte("private")); err != nil {
			t.Errorf("Store after the reload: %v", err)
		}
	}
}
