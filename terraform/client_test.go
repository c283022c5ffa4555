package terraform_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"holdfast/terraform"
	"holdfast/zktest"
)

// patience is how long a test waits for something that must happen.
const patience = 30 * time.Second

// A backend is a Backend on an HTTP server, with ZooKeeper behind it.
type backend struct {
	t  *testing.T
	zk *zktest.Server
	*terraform.Backend
	http *httptest.Server
	dir  string // StateDir
}

func newBackend(t *testing.T, edit ...func(*terraform.Config)) *backend {
	t.Helper()
	s := zktest.NewServer()
	t.Cleanup(s.Close)
	return newBackendOn(t, s, edit...)
}

// newBackendOn returns another Backend for the same locks and states.
func newBackendOn(t *testing.T, s *zktest.Server, edit ...func(*terraform.Config)) *backend {
	t.Helper()
	c := s.Client()
	cfg := terraform.Config{Client: c}
	for _, e := range edit {
		e(&cfg)
	}
	b, err := terraform.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(b)
	t.Cleanup(func() { h.CloseClientConnections(); h.Close(); b.Close() })
	return &backend{t, s, b, h, cfg.StateDir}
}

func (b *backend) ws() terraform.Workspace {
	return terraform.Workspace{Project: "app", Name: "default"}
}

// A client sends what terraform and tofu send.
type client struct {
	t    *testing.T
	base string
	http *http.Client
	info terraform.LockInfo
}

func (b *backend) client(id string) *client {
	return &client{b.t, b.http.URL + "/tf/app/default", b.http.Client(), terraform.LockInfo{
		ID: id, Operation: "OperationTypeApply", Who: "alice@" + id, Version: "1.11.4", Created: time.Now().UTC(),
	}}
}

// An answer is the status and the body of a response.
type answer struct {
	status int
	body   []byte
	md5    string
}

func (a answer) String() string { return fmt.Sprintf("%d %.300s", a.status, a.body) }

// holder is the LockInfo of a refused request.
func (a answer) holder(t *testing.T) terraform.LockInfo {
	t.Helper()
	var i terraform.LockInfo
	if err := json.Unmarshal(a.body, &i); err != nil || i.ID == "" {
		t.Fatalf("%v is no LockInfo with an ID: %v", a, err)
	}
	return i
}

func (c *client) try(ctx context.Context, method, url string, body []byte, header ...string) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if len(body) > 0 {
		sum := md5.Sum(body)
		r.Header.Set("Content-MD5", base64.StdEncoding.EncodeToString(sum[:]))
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, text, resp.Header.Get("Content-MD5")}, err
}

func (c *client) do(method, url string, body []byte, header ...string) answer {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	a, err := c.try(ctx, method, url, body, header...)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, url, err)
	}
	return a
}

func (c *client) json() []byte {
	text, err := json.Marshal(c.info)
	if err != nil {
		c.t.Fatal(err)
	}
	return text
}

func (c *client) lock() answer   { c.t.Helper(); return c.do("LOCK", c.base+"/lock", c.json()) }
func (c *client) unlock() answer { c.t.Helper(); return c.do("UNLOCK", c.base+"/lock", c.json()) }
func (c *client) get() answer    { c.t.Helper(); return c.do("GET", c.base, nil) }
func (c *client) post(s []byte) answer {
	c.t.Helper()
	return c.do("POST", c.base+"?ID="+c.info.ID, s)
}

func want(t *testing.T, what string, a answer, status int) answer {
	t.Helper()
	if a.status != status {
		t.Fatalf("%s: %v; want %d", what, a, status)
	}
	return a
}

// state returns a state with this serial.
func state(serial int, text string) []byte {
	return fmt.Appendf(nil, `{"version":4,"terraform_version":"1.11.4","serial":%d,"lineage":"l1","outputs":{"x":{"value":%q,"type":"string"}},"resources":[]}`, serial, text)
}
