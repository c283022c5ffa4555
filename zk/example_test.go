package zk_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log"

	"holdfast/zk"
	"holdfast/zktest"
)

func ExampleDial() {
	srv := zktest.NewServer() // stands for your ensemble
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	name, _, err := c.Create(ctx, "/job-", []byte("resize"), zk.PersistentSequential)
	if err != nil {
		log.Fatal(err)
	}
	data, stat, err := c.Get(ctx, name)
	fmt.Println(name, string(data), stat.Version, err)
	// Output: /job-0000000000 resize 0 <nil>
}

func ExampleCalls_GetW() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, _, err := c.Create(ctx, "/config", []byte("v1"), zk.Persistent); err != nil {
		log.Fatal(err)
	}
	_, _, w, err := c.GetW(ctx, "/config")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := c.Set(ctx, "/config", []byte("v2"), zk.AnyVersion); err != nil {
		log.Fatal(err)
	}
	ev := <-w.C
	fmt.Println(ev.Type, ev.Path)
	// Output: NodeDataChanged /config
}

// Either all of a transaction happens, or nothing.
func ExampleCalls_Multi() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, _, err := c.Create(ctx, "/a", nil, zk.Persistent); err != nil {
		log.Fatal(err)
	}
	_, err = c.Multi(ctx, zk.CreateOp("/a/b", nil, zk.Persistent), zk.CheckOp("/a", 7))
	fmt.Println(err, errors.Is(err, zk.ErrBadVersion))
	// Output: zk: check /a: version conflict true
}

// Operations in one flush: one round trip for all of them.
func ExampleCalls_Pipeline() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	r, err := c.Pipeline(ctx, zk.CreateOp("/a", []byte("x"), zk.Ephemeral), zk.GetOp("/a"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r[0].Path, string(r[1].Data))
	// Output: /a x
}

// The client trusts servers by its own authority, shows a certificate, and identifies itself with a
// password.
func ExampleSASLDigestAuth() {
	connect := func(ctx context.Context, authority *x509.CertPool, certificate tls.Certificate, password string) (*zk.Client, error) {
		cfg, err := zk.ParseURL("zks://zk1.example.org:2281,zk2.example.org:2281/app")
		if err != nil {
			return nil, err
		}
		cfg.TLS.RootCAs = authority
		cfg.TLS.Certificates = []tls.Certificate{certificate}
		cfg.Auth = []zk.Auth{zk.SASLDigestAuth("app", password)}
		c, err := zk.Dial(ctx, cfg)
		if errors.Is(err, zk.ErrAuthFailed) {
			return nil, fmt.Errorf("the password is wrong, or the servers do not know the user: %w", err)
		}
		return c, err
	}
	_ = connect
}

// A password is not shown, however the value is printed.
func ExampleDigestAuth() {
	cfg := zk.Config{Servers: []string{"127.0.0.1:2181"}, Auth: []zk.Auth{zk.DigestAuth("app", "secret")}}
	fmt.Printf("%v %+v\n", cfg.Auth[0], cfg.Auth)
	// Output: digest user "app" [digest user "app"]
}
