//go:build unix

package gssapi_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast"
	"holdfast/contrib/gssapi"
	"holdfast/zk"
)

const realm = "HOLDFAST.TEST"

// Where Debian has the server: packages libzookeeper-java and libslf4j-java.
const classPath = "/usr/share/java/slf4j-simple.jar:/usr/share/java/zookeeper.jar"

// needed is what the test runs, and the Debian packages that have it.
var needed = map[string]string{
	"/usr/sbin/krb5kdc": "krb5-kdc", "/usr/sbin/kdb5_util": "krb5-kdc", "/usr/sbin/kadmin.local": "krb5-admin-server", "/usr/bin/kinit": "krb5-user",
	"/usr/share/java/zookeeper.jar": "libzookeeper-java", "java": "default-jre-headless",
}

// A centre is a key distribution centre of MIT Kerberos with a realm of its own.
type centre struct {
	t    *testing.T
	dir  string
	conf string // the clients' configuration
	at   string // address
	kdc  *exec.Cmd
}

func newCentre(t *testing.T) *centre {
	t.Helper()
	for program, pkg := range needed {
		_, err := os.Stat(program)
		if !filepath.IsAbs(program) {
			_, err = exec.LookPath(program)
		}
		if err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatalf("%v: install %s", err, pkg)
			}
			t.Skipf("%v: install %s", err, pkg)
		}
	}
	c := &centre{t: t, dir: t.TempDir(), at: freeAddress(t)}
	c.conf = c.file("krb5.conf", fmt.Sprintf(`[libdefaults]
  default_realm = %s
  dns_lookup_kdc = false
  dns_lookup_realm = false
  udp_preference_limit = 1
  rdns = false
[realms]
  %[1]s = {
    kdc = %s
  }
[domain_realm]
  localhost = %[1]s
`, realm, c.at))
	c.file("kdc.conf", fmt.Sprintf(`[kdcdefaults]
  kdc_tcp_listen = %s
  kdc_listen = ""
[realms]
  %s = {
    database_name = %s/principal
    key_stash_file = %[3]s/stash
    acl_file = %[3]s/acl
    max_life = 1h
  }
`, c.at, realm, c.dir))
	c.run("/usr/sbin/kdb5_util", "create", "-s", "-r", realm, "-P", "master")
	c.start()
	return c
}

func (c *centre) file(name, text string) (path string) {
	c.t.Helper()
	path = filepath.Join(c.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

func (c *centre) env() []string {
	return append(os.Environ(), "KRB5_CONFIG="+filepath.Join(c.dir, "krb5.conf"), "KRB5_KDC_PROFILE="+filepath.Join(c.dir, "kdc.conf"))
}

func (c *centre) run(program string, args ...string) {
	c.t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = c.env()
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
}

func (c *centre) start() {
	c.t.Helper()
	c.kdc = exec.Command("/usr/sbin/krb5kdc", "-n", "-r", realm, "-P", filepath.Join(c.dir, "pid"))
	c.kdc.Env, c.kdc.Stdout, c.kdc.Stderr = c.env(), c.t.Output(), c.t.Output()
	if err := c.kdc.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(c.stop)
	await(c.t, "the centre", c.at)
}

func (c *centre) stop() {
	_ = c.kdc.Process.Kill()
	_ = c.kdc.Wait()
}

// keytab makes a principal, or gives it a new key, and returns a file with the key.
func (c *centre) keytab(principal string) (path string) {
	c.t.Helper()
	path = filepath.Join(c.dir, strings.ReplaceAll(principal, "/", "-")+time.Now().Format("150405.000000000")+".keytab")
	cmd := exec.Command("/usr/sbin/kadmin.local", "-r", realm, "-q", "addprinc -randkey "+principal)
	cmd.Env = c.env()
	_ = cmd.Run() // it may exist
	c.run("/usr/sbin/kadmin.local", "-r", realm, "-q", "ktadd -k "+path+" "+principal)
	if _, err := os.Stat(path); err != nil {
		c.t.Fatal(err)
	}
	return path
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func await(t *testing.T, what, address string) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		nc, err := net.Dial("tcp", address)
		if err == nil {
			nc.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not listen: %v", what, err)
		}
	}
}

// zooKeeper starts an Apache ZooKeeper that demands Kerberos, and returns its address.
func (c *centre) zooKeeper(keytab string) string {
	c.t.Helper()
	_, port, _ := net.SplitHostPort(freeAddress(c.t))
	jaas := c.file("jaas.conf", fmt.Sprintf(`Server {
  com.sun.security.auth.module.Krb5LoginModule required
  useKeyTab=true keyTab="%s" storeKey=true useTicketCache=false principal="zookeeper/localhost@%s";
};
`, keytab, realm))
	data := filepath.Join(c.dir, "data")
	cfg := c.file("zoo.cfg", fmt.Sprintf("tickTime=500\ndataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n", data, port))
	cmd := exec.Command("java", "-Xmx256m", "-Djava.security.auth.login.config="+jaas, "-Djava.security.krb5.conf="+c.conf,
		"-Dzookeeper.authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider", "-Dzookeeper.sessionRequireClientSASLAuth=true",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", classPath, "org.apache.zookeeper.server.quorum.QuorumPeerMain", cfg)
	cmd.Stdout, cmd.Stderr = c.t.Output(), c.t.Output()
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	await(c.t, "ZooKeeper", "127.0.0.1:"+port)
	return "localhost:" + port
}

func dial(t *testing.T, server string, auth ...zk.Auth) (*zk.Client, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c, err := zk.Dial(ctx, zk.Config{Servers: []string{server}, SessionTimeout: 5 * time.Second, Auth: auth})
	if err == nil {
		t.Cleanup(func() { c.Close() })
	}
	return c, err
}

// Clients with a keytab and with a cache lock on an Apache ZooKeeper that demands Kerberos, and each is who it says.
func TestKerberos(t *testing.T) {
	c := newCentre(t)
	server := c.zooKeeper(c.keytab("zookeeper/localhost"))
	ann, bob := c.keytab("ann"), c.keytab("app/web1")
	cache := filepath.Join(c.dir, "cache")
	c.run("/usr/bin/kinit", "-k", "-t", bob, "-c", cache, "app/web1")

	plain, err := dial(t, server)
	if err == nil { // the session begins, and the first request is refused
		_, _, err = plain.Create(t.Context(), "/plain", nil, zk.Persistent)
	}
	if !errors.Is(err, zk.ErrAuthFailed) {
		t.Fatalf("without an identity: %v; want ErrAuthFailed", err)
	}

	byKeytab, err := gssapi.New(gssapi.Config{Principal: "ann", Keytab: "FILE:" + ann, Krb5Conf: c.conf})
	if err != nil {
		t.Fatal(err)
	}
	byCache, err := gssapi.New(gssapi.Config{Cache: "FILE:" + cache, Krb5Conf: c.conf})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := byKeytab.String()+", "+byCache.String(), `GSSAPI user "ann@HOLDFAST.TEST", GSSAPI user "app/web1@HOLDFAST.TEST"`; got != want {
		t.Errorf("%s; want %s", got, want)
	}
	first, err := dial(t, server, byKeytab)
	if err != nil {
		t.Fatal(err)
	}
	second, err := dial(t, server, byCache)
	if err != nil {
		t.Fatal(err)
	}
	// A node that only its creator reads.
	if _, _, err := first.Create(t.Context(), "/secret", []byte("x"), zk.Persistent, zk.ACL{Perms: zk.PermAll, Scheme: "auth"}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := second.Get(t.Context(), "/secret"); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("another client reads it: %v", err)
	}
	acl, _, err := first.GetACL(t.Context(), "/secret")
	if err != nil || len(acl) != 1 || acl[0].Scheme != "sasl" || acl[0].ID != "ann@"+realm {
		t.Errorf("its ACL is %+v, %v", acl, err)
	}
	again, err := dial(t, server, byKeytab)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := again.Get(t.Context(), "/secret"); err != nil {
		t.Errorf("the same identity on another connection: %v", err)
	}

	h, err := holdfast.NewMutex(first, "/lock").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holdfast.NewMutex(second, "/lock").TryLock(t.Context()); !errors.Is(err, holdfast.ErrLocked) {
		t.Errorf("the lock of another: %v", err)
	}
	if err := h.Unlock(); err != nil {
		t.Error(err)
	}

	t.Run("another key than the centre's", func(t *testing.T) {
		c.keytab("ann") // a new key
		if _, err := dial(t, server, byKeytab); !errors.Is(err, zk.ErrAuthFailed) {
			t.Errorf("%v; want ErrAuthFailed", err)
		}
	})
	t.Run("no such server", func(t *testing.T) {
		other, err := gssapi.New(gssapi.Config{Cache: cache, Krb5Conf: c.conf, ServerName: "elsewhere.test"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := dial(t, server, other); !errors.Is(err, zk.ErrAuthFailed) || !strings.Contains(err.Error(), "zookeeper/elsewhere.test") {
			t.Errorf("%v; want ErrAuthFailed, and the principal", err)
		}
	})
	t.Run("the key of another server", func(t *testing.T) {
		c.keytab("other/localhost")
		other, err := gssapi.New(gssapi.Config{Cache: cache, Krb5Conf: c.conf, Service: "other"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := dial(t, server, other); !errors.Is(err, zk.ErrAuthFailed) {
			t.Errorf("%v; want ErrAuthFailed", err)
		}
	})
	t.Run("the centre is away for a while", func(t *testing.T) {
		// It must ask the centre, unlike a cache, which can have a ticket for the server.
		byOtherKeytab, err := gssapi.New(gssapi.Config{Principal: "app/web1@" + realm, Keytab: bob, Krb5Conf: c.conf})
		if err != nil {
			t.Fatal(err)
		}
		c.stop()
		connected := make(chan error, 1)
		go func() {
			_, err := dial(t, server, byOtherKeytab)
			connected <- err
		}()
		time.Sleep(500 * time.Millisecond) // the client tries in vain; if it is slow, nothing is tried
		c.start()
		if err := <-connected; err != nil {
			t.Error(err)
		}
	})
}

func TestWrongSettingsAreRefusedAtOnce(t *testing.T) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "krb5.conf")
	empty := filepath.Join(dir, "empty.keytab")
	if err := errors.Join(os.WriteFile(conf, []byte("[libdefaults]\n default_realm = A.TEST\n"), 0o600), os.WriteFile(empty, []byte{5, 2}, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		cfg  gssapi.Config
		want string
	}{
		{gssapi.Config{Krb5Conf: conf}, "give Keytab or Cache"},
		{gssapi.Config{Krb5Conf: conf, Keytab: "a", Cache: "b"}, "give Keytab or Cache"},
		{gssapi.Config{Krb5Conf: conf, Keytab: empty}, "needs Principal"},
		{gssapi.Config{Krb5Conf: conf, Principal: "ann", Keytab: filepath.Join(dir, "none")}, "no such file"},
		{gssapi.Config{Krb5Conf: filepath.Join(dir, "none"), Principal: "ann", Keytab: empty}, "no such file"},
		{gssapi.Config{Krb5Conf: conf, Cache: filepath.Join(dir, "none")}, "no such file"},
		{gssapi.Config{Krb5Conf: conf, Principal: "ann", Keytab: empty}, "keytab "},
		{gssapi.Config{Krb5Conf: conf, Principal: "ann", Keytab: "FILE:" + empty}, "gssapi: keytab " + empty},
		{gssapi.Config{Krb5Conf: conf, Principal: "ann", Keytab: "MEMORY:a"}, "keytab MEMORY:a is of the type MEMORY"},
		{gssapi.Config{Krb5Conf: conf, Cache: "FILE:" + filepath.Join(dir, "none")}, "cache " + filepath.Join(dir, "none") + ": "},
		{gssapi.Config{Krb5Conf: conf, Cache: "KEYRING:persistent:0"}, "cache KEYRING:persistent:0 is of the type KEYRING"},
		{gssapi.Config{Krb5Conf: conf, Cache: "KCM:"}, "kinit -c FILE:"},
		{gssapi.Config{Krb5Conf: conf, Cache: filepath.Join(dir, "a:b")}, "a:b: "},
		{gssapi.Config{Krb5Conf: conf + ":" + conf, Cache: empty}, "is a list of files"},
	} {
		if _, err := gssapi.New(tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v; want %q", tt.cfg, err, tt.want)
		}
	}
}
