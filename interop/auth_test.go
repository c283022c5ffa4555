//go:build unix

package interop

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"holdfast/interop/peers"
	"holdfast/zk"
)

// A password that no log and no error may show.
const planted = "pa55-planted"

// debugLog is a log at debug level. By the end of the test it must not contain the planted password.
type debugLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *debugLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func withDebugLog(t *testing.T, cfg *zk.Config) {
	l := &debugLog{}
	cfg.Logger = slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
	t.Cleanup(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.text.Len() == 0 || strings.Contains(l.text.String(), planted) {
			t.Errorf("the log is empty or shows the password:\n%s", l.text.String())
		}
	})
}

// refused dials and expects an error that is want, contains all of says and does not show the password.
// For an error that is retried, and so reported only when the wait ends, want is context.Canceled; for
// an untrusted certificate, untrusted.
func refused(t *testing.T, url string, change func(*zk.Config), want error, says ...string) {
	t.Helper()
	cfg, err := zk.ParseURL(url)
	must(t, err)
	change(&cfg)
	withDebugLog(t, &cfg)
	ctx, cancel := context.WithTimeout(t.Context(), stepTime)
	defer cancel()
	if want == context.Canceled {
		// The client would retry for as long as it may. When the second attempt begins, the first one's
		// outcome is known.
		attempts := 0
		cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if attempts++; attempts == 2 {
				cancel()
			}
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}
	}
	c, err := zk.Dial(ctx, cfg)
	if err == nil {
		_, _, err = c.Exists(ctx, "/")
		c.Close()
	}
	matches := errors.Is(err, want)
	if want == error(untrusted) {
		_, matches = errors.AsType[*tls.CertificateVerificationError](err)
	}
	if !matches {
		t.Fatalf("got error %v; want %v", err, want)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("got error %v; want one that says %q", err, s)
		}
	}
	if strings.Contains(err.Error(), planted) {
		t.Errorf("the error shows the password: %v", err)
	}
	t.Log(err)
}

// acl grants one identity everything.
func acl(scheme, id string) zk.ACL { return zk.ACL{Perms: 31, Scheme: scheme, ID: id} }

// ownedBy creates a node for one identity with c, and cuts c's connection. Afterwards c must
// still be able to read it, and clients with the other auths must not.
func ownedBy(t *testing.T, url string, mine func(*zk.Config), a zk.ACL, others ...func(*zk.Config)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stepTime)
	defer cancel()
	g := newGate()
	c := dialURL(t, url, mine, func(cfg *zk.Config) { cfg.Dial = g.dial; withDebugLog(t, cfg) })
	s, err := c.Session(ctx)
	must(t, err)
	path, _, err := c.Create(ctx, "/owned-", []byte("x"), zk.PersistentSequential, a)
	must(t, err)
	_, _, w, err := c.GetW(ctx, path)
	must(t, err)
	for range 3 {
		g.cut()
		for {
			_, _, err = c.Get(ctx, path)
			if !errors.Is(err, zk.ErrConnectionLoss) {
				break
			}
		}
		must(t, err)
	}
	if now, err := c.Session(ctx); err != nil || now != s {
		t.Errorf("the session changed: %v", err)
	}
	for _, other := range others {
		o := dialURL(t, url, other, func(cfg *zk.Config) { withDebugLog(t, cfg) })
		_, _, err := o.Get(ctx, path)
		wants(t, "get of another's node", err, zk.ErrNoAuth)
		_, err = o.Set(ctx, path, nil, zk.AnyVersion)
		wants(t, "set of another's node", err, zk.ErrNoAuth)
	}
	_, err = c.Set(ctx, path, []byte("y"), 0)
	must(t, err)
	next(ctx, t, w, zk.EventNodeDataChanged, path)
}

func as(auth ...zk.Auth) func(*zk.Config) { return func(cfg *zk.Config) { cfg.Auth = auth } }

func TestDigestAuthOwnsNodes(t *testing.T) {
	for name, url := range map[string]string{"holdfast serve": oneHoldfast.get(t).URL(), "Apache ZooKeeper": oneZooKeeper.get(t).URL()} {
		t.Run(name, func(t *testing.T) {
			bob := acl("digest", digestID("bob:"+planted))
			ownedBy(t, url, as(zk.DigestAuth("bob", planted)), bob,
				as(), as(zk.DigestAuth("bob", planted+"x")), as(zk.DigestAuth("eve", planted)))
			// Several identities at once: those of all schemes count.
			ownedBy(t, url, as(zk.DigestAuth("eve", planted), zk.DigestAuth("bob", planted)), bob, as(zk.DigestAuth("eve", planted)))
		})
	}
}

func TestSASLIsRefusedWhereItIsNotKnown(t *testing.T) {
	h := oneHoldfast.get(t)
	refused(t, h.URL(), as(zk.SASLDigestAuth("bob", planted)), zk.ErrAuthFailed, h.Addr(), `sasl-digest user "bob"`, "--auth-users")
	z := oneZooKeeper.get(t)
	refused(t, z.URL(), as(zk.SASLDigestAuth("bob", planted)), zk.ErrAuthFailed, z.Addrs()[0], `sasl-digest user "bob"`, "JAAS")
}

// saslConfig returns a ZooKeeper with a JAAS file, which it writes into dir.
func saslConfig(dir string, flags ...string) (peers.ZooKeeperConfig, error) {
	jaas := filepath.Join(dir, "jaas.conf")
	text := fmt.Sprintf(`Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required
  user_bob="%s"
  user_eve="eve-password"
  user_zoë="pass-ë"
  user_snow="pass-☃";
};
`, planted)
	return peers.ZooKeeperConfig{
		Flags:    append(flags, "-Djava.security.auth.login.config="+jaas),
		Settings: []string{"authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"},
	}, os.WriteFile(jaas, []byte(text), 0o600)
}

func startSASL(t *testing.T, flags ...string) *peers.ZooKeeper {
	t.Helper()
	dir := t.TempDir()
	cfg, err := saslConfig(dir, flags...)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), peerStart)
	defer cancel()
	z, err := peers.StartZooKeeper(ctx, dir, cfg)
	return closing(t, z, err)
}

// startSASLHoldfast starts a holdfast serve with the users of saslConfig.
func startSASLHoldfast(t *testing.T, flags ...string) *peers.Holdfast {
	t.Helper()
	dir := t.TempDir()
	users := filepath.Join(dir, "users")
	text := "bob:" + planted + "\neve:eve-password\nzoë:pass-ë\nsnow:pass-☃\n"
	must(t, os.WriteFile(users, []byte(text), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), peerStart)
	defer cancel()
	h, err := peers.StartHoldfast(ctx, holdfastBin(t), dir, append(flags, "--auth-users", users)...)
	return closing(t, h, err)
}

// withSASL runs test on both servers, which have the same users.
func withSASL(t *testing.T, zookeeper, holdfast []string, test func(t *testing.T, url, addr string)) {
	t.Run("holdfast serve", func(t *testing.T) {
		h := startSASLHoldfast(t, holdfast...)
		test(t, h.URL(), h.Addr())
	})
	t.Run("Apache ZooKeeper", func(t *testing.T) {
		z := startSASL(t, zookeeper...)
		test(t, z.URL(), z.Addrs()[0])
	})
}

func TestSASLDigestAuthOwnsNodes(t *testing.T) {
	withSASL(t, nil, nil, func(t *testing.T, url, addr string) {
		bob := zk.SASLDigestAuth("bob", planted)
		ownedBy(t, url, as(bob), acl("sasl", "bob"), as(), as(zk.DigestAuth("bob", planted)), as(zk.SASLDigestAuth("eve", "eve-password")))
		ownedBy(t, url, as(zk.DigestAuth("x", planted), bob), acl("sasl", "bob"), as(zk.DigestAuth("x", planted)))
		ownedBy(t, url, as(zk.SASLDigestAuth("zoë", "pass-ë")), acl("sasl", "zoë"), as(bob))
		ownedBy(t, url, as(zk.SASLDigestAuth("snow", "pass-☃")), acl("sasl", "snow"), as(bob))
		for _, wrong := range []zk.Auth{
			// Not with bob's password: Apache's server would check it against the password of
			// the latest user (ZOOKEEPER-4839), and admit nobody.
			zk.SASLDigestAuth("bob", planted+"x"), zk.SASLDigestAuth("nobody", planted+"y"), zk.SASLDigestAuth(`b"o,b\`, planted+"z"),
		} {
			refused(t, url, as(wrong), zk.ErrAuthFailed, addr, wrong.String(), "refused the user or the password")
		}
	})
}

func TestApacheZooKeeperThatLetsFailedSASLClientsStay(t *testing.T) {
	z := startSASL(t, "-Dzookeeper.allowSaslFailedClients=true")
	refused(t, z.URL(), as(zk.SASLDigestAuth("bob", planted+"x")), zk.ErrAuthFailed, "did not accept the user or the password")
}

func TestServersThatDemandSASL(t *testing.T) {
	require := []string{"-Dzookeeper.sessionRequireClientSASLAuth=true"}
	withSASL(t, require, []string{"--auth-required", "sasl"}, func(t *testing.T, url, addr string) {
		ownedBy(t, url, as(zk.SASLDigestAuth("bob", planted)), acl("sasl", "bob"), as(zk.SASLDigestAuth("eve", "eve-password")))
		refused(t, url, as(), zk.ErrAuthFailed, addr, "requires a login", "this client has none")
		refused(t, url, as(zk.DigestAuth("bob", planted)), zk.ErrAuthFailed, `this client has [digest user "bob"]`)
		refused(t, url, as(zk.SASLDigestAuth("bob", planted+"x")), zk.ErrAuthFailed, "refused the user or the password")
	})
}

// Foreign clients prove the same password to both servers.
func TestForeignClientsAuthenticateBySASL(t *testing.T) {
	need(t, peers.NeedKazoo())
	classes := curatorClasses(t)
	dir := t.TempDir()
	jaas, password := filepath.Join(dir, "jaas.conf"), filepath.Join(dir, "password")
	login := "%s {\n  org.apache.zookeeper.server.auth.DigestLoginModule required username=\"bob\" password=\"%s\";\n};\n"
	must(t, os.WriteFile(jaas, fmt.Appendf(fmt.Appendf(nil, login, "Bob", planted), login, "Wrong", planted+"x"), 0o600))
	must(t, os.WriteFile(password, []byte(planted), 0o600))
	withSASL(t, nil, nil, func(t *testing.T, _, addr string) {
		ctx, cancel := context.WithTimeout(t.Context(), stepTime)
		defer cancel()
		t.Run("Java", func(t *testing.T) {
			runProgram(t, peers.Curator(ctx, classes, "SaslClient", addr, "/java", jaas), "authenticates", "owns", "refused")
		})
		t.Run("kazoo", func(t *testing.T) {
			cmd := peers.Kazoo(ctx, filepath.Join("py", "kazoo_sasl.py"), addr, "/kazoo", password)
			runProgram(t, cmd, "authenticates", "owns", "refused")
		})
	})
}
