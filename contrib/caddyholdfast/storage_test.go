package caddyholdfast_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"holdfast/contrib/caddyholdfast"
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
	second, cleanUpSecond, err := load(t, text)
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
