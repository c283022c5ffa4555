//go:build unix

package interop

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"holdfast/interop/peers"
	"holdfast/zk"
	"holdfast/zk/admin"
)

// The matrix: every feature of our client (suite_test.go) on every kind of server, with every
// way to connect and to authenticate.

// A platform is a kind of server with its expected properties. The server itself reports its release.
type platform struct {
	name    string
	members int   // number of servers that it reports
	ttl     error // the error for a node with a time to live
}

// A cell is one platform with one way to connect and authenticate.
type cell struct {
	platform
	variant string
	url     func(testing.TB) string // without a chroot
	plain   func(testing.TB) string // the same server without TLS
	chroot  bool

	enter    func(testing.TB, *zk.Config) // how we connect and authenticate
	stranger func(testing.TB, *zk.Config) // another identity on the same way
	mine     []zk.ACL                     // ACL of every node of the cases; nil: open to all
	known    []admin.ClientInfo           // identities that the server knows besides the address
}

// ours allows only the creator everything.
var ours = []zk.ACL{acl("auth", "")}

func nobody(testing.TB, *zk.Config) {}

// cells returns the matrix.
func cells() []cell {
	var all []cell
	for _, p := range []struct {
		platform
		plain   func(testing.TB) string
		secured func(testing.TB) secured
		// Apache's servers with TLS and SASL run without nodes that have a time to live, which
		// must be enabled.
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
		securedPlain := func(t testing.TB) string { return p.secured(t).URL() }
		withSecurity := p.platform
		withSecurity.ttl = p.securedTTL
		secureURL := func(t testing.TB) string { return p.secured(t).SecureURL() }
		all = append(all,
			cell{platform: p.platform, variant: "plain", url: p.plain, plain: p.plain, enter: nobody},
			cell{platform: p.platform, variant: "chroot", url: p.plain, plain: p.plain, chroot: true, enter: nobody},
			cell{platform: p.platform, variant: "digest", url: p.plain, plain: p.plain,
				enter:    func(_ testing.TB, cfg *zk.Config) { cfg.Auth = []zk.Auth{zk.DigestAuth("bob", planted)} },
				stranger: func(_ testing.TB, cfg *zk.Config) { cfg.Auth = []zk.Auth{zk.DigestAuth("bob", planted+"x")} },
				mine:     ours, known: []admin.ClientInfo{{Scheme: "digest", User: "bob"}}},
			cell{platform: withSecurity, variant: "TLS", url: secureURL, plain: securedPlain,
				enter: func(t testing.TB, cfg *zk.Config) { cfg.TLS = p.secured(t).trusted(nil) }},
			cell{platform: withSecurity, variant: "mutual TLS", url: secureURL, plain: securedPlain,
				enter:    func(t testing.TB, cfg *zk.Config) { s := p.secured(t); cfg.TLS = s.trusted(s.certificate("alice")) },
				stranger: func(t testing.TB, cfg *zk.Config) { s := p.secured(t); cfg.TLS = s.trusted(s.certificate("eve")) },
				mine:     ours, known: []admin.ClientInfo{{Scheme: "x509", User: "CN=alice"}}},
			cell{platform: withSecurity, variant: "SASL", url: securedPlain, plain: securedPlain,
				enter:    func(_ testing.TB, cfg *zk.Config) { cfg.Auth = []zk.Auth{zk.SASLDigestAuth("bob", planted)} },
				stranger: nobody, // another user at the same time would meet ZOOKEEPER-4839
				mine:     ours, known: []admin.ClientInfo{{Scheme: "sasl", User: "bob"}}},
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
			plain:    func(t testing.TB) string { return p.demanding(t).URL() },
			enter:    enter("bob", zk.SASLDigestAuth("bob", planted), zk.DigestAuth("bob", planted)),
			stranger: enter("eve", zk.SASLDigestAuth("eve", "eve-password")),
			mine:     ours, known: []admin.ClientInfo{{Scheme: "x509", User: "CN=bob"}, {Scheme: "sasl", User: "bob"}, {Scheme: "digest", User: "bob"}},
		})
	}
	return all
}

// release returns the release that the cell's server reports.
func (c *cell) release(t testing.TB) peers.Version {
	t.Helper()
	cfg, err := zk.ParseURL(c.plain(t))
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), stepTime)
	defer cancel()
	v, err := peers.AskVersion(ctx, cfg.Servers[0])
	must(t, err)
	return v
}

const casesAtOnce = 8

// listed has the releases whose missing requests are already in the summary.
var listed sync.Map

func TestClientMatrix(t *testing.T) {
	for _, c := range cells() {
		t.Run(c.name+"/"+c.variant, func(t *testing.T) {
			release := c.release(t) // starts the server, which is part of no case
			cases, lacking := offered(suite(), release)
			var ran, passed atomic.Int32
			// The cases mostly wait. So more of them run at once than there are processors,
			// which t.Parallel does not allow.
			room := make(chan struct{}, casesAtOnce)
			var wg sync.WaitGroup
			for _, e := range cases {
				room <- struct{}{}
				wg.Go(func() {
					defer func() { <-room }()
					t.Run(e.name, func(t *testing.T) {
						ran.Add(1)
						x := newExam(t, &c, e.caller)
						e.run(x)
						if needs, ok := x.sent.needs(); ok && needs != e.needs {
							t.Errorf("the case says that it needs ZooKeeper %v, and sends what %v has", e.needs, needs)
						}
						if !t.Failed() {
							passed.Add(1)
						}
					})
				})
			}
			wg.Wait()
			measured(t, "says that it is ZooKeeper %v: %d cases run, %d passed, %d left out", release, ran.Load(), passed.Load(), len(lacking))
			if _, told := listed.LoadOrStore(release, true); !told && len(lacking) > 0 {
				summarize(fmt.Sprintf("ZooKeeper %v does not have every request of these cases (in brackets the release that has):\n\t%s",
					release, strings.Join(lacking, "\n\t")))
			}
			if len(cases) == 0 {
				t.Errorf("ZooKeeper %v has nothing that the client needs", release)
			}
		})
	}
}

// where returns a name for the nodes of the test.
func where(t testing.TB) string {
	clean := strings.NewReplacer("/", "-", " ", "-", ",", "")
	return fmt.Sprintf("/%s-%d", clean.Replace(t.Name()), unique.Add(1))
}

// unique distinguishes the nodes of several runs on a shared server.
var unique atomic.Int64
