//go:build unix

package interop

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"holdfast/zk"
)

// The matrix: all that our client can do (suite_test.go), on every kind of server, and
// on each in every way to reach it and to say who we are.

// A platform is a kind of server, and what can be expected of it.
type platform struct {
	name    string
	members int   // how many servers it says it has
	ttl     error // what a node with a time to live is refused with
}

// A cell is one platform, reached and entered in one way.
type cell struct {
	platform
	variant string
	url     func(testing.TB) string // without a chroot
	chroot  bool

	enter    func(testing.TB, *zk.Config) // how we connect and who we are
	stranger func(testing.TB, *zk.Config) // somebody else on the same way
	mine     []zk.ACL                     // of every node that the cases create; nil: open to all
	known    []zk.ClientInfo              // what the server knows of us besides the address
}

// ours lets nobody but the creator do anything.
var ours = []zk.ACL{acl("auth", "")}

func nobody(testing.TB, *zk.Config) {}

// cells is the matrix.
func cells() []cell {
	var all []cell
	for _, p := range []struct {
		platform
		plain   func(testing.TB) string
		secured func(testing.TB) secured
		// Apache's servers with TLS and SASL do without nodes that have a time to live,
		// which have to be allowed.
		securedTTL error
	}{
		{platform{"Apache ZooKeeper", 0, nil},
			func(t testing.TB) string { return oneZooKeeper.get(t).URL() },
			func(t testing.TB) secured { return securedAlone.get(t) }, zk.ErrUnimplemented},
		{platform{"Apache ensemble", 3, nil},
			func(t testing.TB) string { return ensemble.get(t).URL() },
			func(t testing.TB) secured { return securedEnsemble.get(t) }, zk.ErrUnimplemented},
		{platform{"holdfast serve", 0, nil},
			func(t testing.TB) string { return oneHoldfast.get(t).URL() },
			func(t testing.TB) secured { return securedServe.get(t) }, nil},
	} {
		withSecurity := p.platform
		withSecurity.ttl = p.securedTTL
		secureURL := func(t testing.TB) string { return p.secured(t).SecureURL() }
		all = append(all,
			cell{platform: p.platform, variant: "plain", url: p.plain, enter: nobody},
			cell{platform: p.platform, variant: "chroot", url: p.plain, chroot: true, enter: nobody},
			cell{platform: p.platform, variant: "digest", url: p.plain,
				enter:    func(_ testing.TB, cfg *zk.Config) { cfg.Auth = []zk.Auth{zk.DigestAuth("bob", planted)} },
				stranger: func(_ testing.TB, cfg *zk.Config) { cfg.Auth = []zk.Auth{zk.DigestAuth("bob", planted+"x")} },
				mine:     ours, known: []zk.ClientInfo{{Scheme: "digest", User: "bob"}}},
			cell{platform: withSecurity, variant: "TLS", url: secureURL,
				enter: func(t testing.TB, cfg *zk.Config) { cfg.TLS = p.secured(t).trusted(nil) }},
			cell{platform: withSecurity, variant: "mutual TLS", url: secureURL,
				enter:    func(t testing.TB, cfg *zk.Config) { s := p.secured(t); cfg.TLS = s.trusted(s.certificate("alice")) },
				stranger: func(t testing.TB, cfg *zk.Config) { s := p.secured(t); cfg.TLS = s.trusted(s.certificate("eve")) },
				mine:     ours, known: []zk.ClientInfo{{Scheme: "x509", User: "CN=alice"}}},
			cell{platform: withSecurity, variant: "SASL", url: func(t testing.TB) string { return p.secured(t).URL() },
				enter:    func(_ testing.TB, cfg *zk.Config) { cfg.Auth = []zk.Auth{zk.SASLDigestAuth("bob", planted)} },
				stranger: nobody, // one more user at a time would meet ZOOKEEPER-4839
				mine:     ours, known: []zk.ClientInfo{{Scheme: "sasl", User: "bob"}}},
		)
	}
	for _, p := range []struct {
		platform
		demanding func(testing.TB) secured
	}{
		{platform{"Apache ZooKeeper", 0, nil}, func(t testing.TB) secured { return oneDemanding.get(t) }},
		{platform{"holdfast serve", 0, nil}, func(t testing.TB) secured { return demandingServe.get(t) }},
	} {
		enter := func(certificate string, auth ...zk.Auth) func(t testing.TB, cfg *zk.Config) {
			return func(t testing.TB, cfg *zk.Config) {
				s := p.demanding(t)
				cfg.TLS, cfg.Auth = s.trusted(s.certificate(certificate)), auth
			}
		}
		all = append(all, cell{
			platform: p.platform, variant: "certificate and SASL demanded, chroot", chroot: true,
			url:      func(t testing.TB) string { return p.demanding(t).SecureURL() },
			enter:    enter("bob", zk.SASLDigestAuth("bob", planted), zk.DigestAuth("bob", planted)),
			stranger: enter("eve", zk.SASLDigestAuth("eve", "eve-password")),
			mine:     ours, known: []zk.ClientInfo{{Scheme: "x509", User: "CN=bob"}, {Scheme: "sasl", User: "bob"}, {Scheme: "digest", User: "bob"}},
		})
	}
	return all
}

const casesAtOnce = 8

func TestClientMatrix(t *testing.T) {
	for _, c := range cells() {
		t.Run(c.name+"/"+c.variant, func(t *testing.T) {
			c.url(t) // starts the server, which is no part of any case
			var ran, passed atomic.Int32
			// They wait more than they work, so more of them run at once than there are
			// processors, which t.Parallel would not allow.
			room := make(chan struct{}, casesAtOnce)
			var wg sync.WaitGroup
			for _, e := range suite() {
				room <- struct{}{}
				wg.Go(func() {
					defer func() { <-room }()
					t.Run(e.name, func(t *testing.T) {
						ran.Add(1)
						e.run(newExam(t, &c, e.caller))
						if !t.Failed() {
							passed.Add(1)
						}
					})
				})
			}
			wg.Wait()
			measured(t, "%d cases run, %d passed", ran.Load(), passed.Load())
		})
	}
}

// where is a name for the nodes of the test.
func where(t testing.TB) string {
	clean := strings.NewReplacer("/", "-", " ", "-", ",", "")
	return fmt.Sprintf("/%s-%d", clean.Replace(t.Name()), unique.Add(1))
}

// unique tells apart what several runs of a test leave on a shared server.
var unique atomic.Int64
