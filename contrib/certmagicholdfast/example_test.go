package certmagicholdfast_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"holdfast/contrib/certmagicholdfast"
	"holdfast/zk"
	"holdfast/zktest"
)

func Example() {
	srv := zktest.NewServer()
	defer srv.Close()
	cfg := srv.Config()
	ctx, issuer := context.Background(), newCA()
	os.Setenv("CERTS_PASSWORD", "secret")

	cfg.Auth = []zk.Auth{zk.DigestAuth("certs", os.Getenv("CERTS_PASSWORD"))}
	c, err := zk.Dial(ctx, cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	storage, err := certmagicholdfast.New(certmagicholdfast.Config{
		Client: c,
		Path:   "/certmagic",
		ACL:    []zk.ACL{{Perms: zk.PermAll, Scheme: "auth"}}, // private keys: for this user only
		Logger: slog.Default(),
	})
	if err != nil {
		log.Fatal(err)
	}

	var magic *certmagic.Config
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return magic, nil },
		Logger:           zap.NewNop(),
	})
	defer cache.Stop()
	magic = certmagic.New(cache, certmagic.Config{Storage: storage, Issuers: []certmagic.Issuer{issuer}, Logger: zap.NewNop()})
	if err := magic.ManageSync(ctx, []string{"example.com"}); err != nil {
		log.Fatal(err)
	}
	cert, err := magic.GetCertificate(&tls.ClientHelloInfo{ServerName: "example.com"})
	if err != nil {
		log.Fatal(err)
	}

	keys, err := storage.List(ctx, "certificates", true)
	fmt.Println(cert.Leaf.DNSNames, err)
	for _, key := range keys {
		fmt.Println(key)
	}
	// Output:
	// [example.com] <nil>
	// certificates/test
	// certificates/test/example.com
	// certificates/test/example.com/example.com.crt
	// certificates/test/example.com/example.com.json
	// certificates/test/example.com/example.com.key
}

// Certificates on a shared file system, with locks in ZooKeeper.
func ExampleWithLocks() {
	srv := zktest.NewServer()
	defer srv.Close()
	dir, err := os.MkdirTemp("", "certificates")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx, c := context.Background(), srv.Client()

	storage, err := certmagicholdfast.WithLocks(&certmagic.FileStorage{Path: dir}, certmagicholdfast.Config{Client: c, Path: "/certmagic"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(storage.Lock(ctx, "issue_cert_example.com"))
	fmt.Println(storage.Unlock(ctx, "issue_cert_example.com"))
	// Output:
	// <nil>
	// <nil>
}

// The README shows lines of the examples.
func TestTheReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(readme), "```go\n")[1:]
	if len(blocks) == 0 {
		t.Error("the README shows no Go")
	}
	for _, b := range blocks {
		if code, _, _ := strings.Cut(b, "```"); !strings.Contains(string(source), code) {
			t.Errorf("example_test.go does not have these lines:\n%s", code)
		}
	}
}
