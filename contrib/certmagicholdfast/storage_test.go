package certmagicholdfast_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"

	"holdfast"
	"holdfast/contrib/certmagicholdfast"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

func newStorage(t *testing.T, c *zk.Client) *certmagicholdfast.Storage {
	t.Helper()
	s, err := certmagicholdfast.New(certmagicholdfast.Config{Client: c, Path: "/certmagic"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func expire(t *testing.T, srv *zktest.Server, c *zk.Client) {
	t.Helper()
	s, err := c.Session(context.Background())
	if err != nil {
		t.Error(err)
		return
	}
	srv.Expire(s.ID())
}

// suites runs f on every storage of this package, and on certmagic's own, which shows that f tests what certmagic
// expects.
func suites(t *testing.T, f func(t *testing.T, s certmagic.Storage)) {
	t.Run("certmagic", func(t *testing.T) { f(t, &certmagic.FileStorage{Path: t.TempDir()}) })
	t.Run("zookeeper", func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		f(t, newStorage(t, srv.Client()))
	})
	t.Run("locks", func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		s, err := certmagicholdfast.WithLocks(&certmagic.FileStorage{Path: t.TempDir()}, certmagicholdfast.Config{Client: srv.Client(), Path: "/certmagic"})
		if err != nil {
			t.Fatal(err)
		}
		f(t, s)
	})
}

func TestValues(t *testing.T) {
	suites(t, func(t *testing.T, s certmagic.Storage) {
		ctx := context.Background()
		missing := func(key string) {
			t.Helper()
			if s.Exists(ctx, key) {
				t.Errorf("%q exists", key)
			}
			if _, err := s.Load(ctx, key); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("Load of %q: %v", key, err)
			}
			if _, err := s.Stat(ctx, key); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("Stat of %q: %v", key, err)
			}
			if _, err := s.List(ctx, key, true); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("List of %q: %v", key, err)
			}
			if err := s.Delete(ctx, key); err != nil {
				t.Errorf("Delete of %q: %v", key, err)
			}
		}
		missing("a/b/c.crt")
		missing("a/b")
		for _, value := range []string{"first", "second, which is longer", "", "\x00\xff"} {
			before := time.Now().Add(-2 * time.Second)
			if err := s.Store(ctx, "a/b/c.crt", []byte(value)); err != nil {
				t.Fatal(err)
			}
			got, err := s.Load(ctx, "a/b/c.crt")
			if string(got) != value || err != nil {
				t.Errorf("Load: %q, %v; want %q", got, err, value)
			}
			info, err := s.Stat(ctx, "a/b/c.crt")
			if err != nil || info.Key != "a/b/c.crt" || info.Size != int64(len(value)) || !info.IsTerminal || info.Modified.Before(before) || info.Modified.After(time.Now().Add(2*time.Second)) {
				t.Errorf("Stat: %+v, %v", info, err)
			}
		}
		for _, dir := range []string{"a", "a/b"} {
			if info, err := s.Stat(ctx, dir); err != nil || info.IsTerminal || info.Key != dir || !s.Exists(ctx, dir) {
				t.Errorf("Stat of the directory %s: %+v, %v", dir, info, err)
			}
			if _, err := s.Load(ctx, dir); err == nil {
				t.Errorf("Load of the directory %s succeeded", dir)
			}
		}
		if err := s.Store(ctx, "ab/c.crt", nil); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Load(ctx, "ab/c.crt"); len(got) != 0 || err != nil {
			t.Errorf("Load of an empty value: %q, %v", got, err)
		}
		if err := s.Delete(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		missing("a")
		missing("a/b/c.crt")
		if !s.Exists(ctx, "ab/c.crt") {
			t.Error("Delete of a removed ab/c.crt")
		}
	})
}

func TestLists(t *testing.T) {
	suites(t, func(t *testing.T, s certmagic.Storage) {
		ctx := context.Background()
		for _, key := range []string{"a/1.crt", "a/b/2.crt", "a/b/c/3.crt", "ab/4.crt", "5.crt"} {
			if err := s.Store(ctx, key, []byte(key)); err != nil {
				t.Fatal(err)
			}
		}
		for _, tc := range []struct {
			prefix    string
			recursive bool
			want      string
		}{
			{"a", false, "a/1.crt a/b"},
			{"a", true, "a/1.crt a/b a/b/2.crt a/b/c a/b/c/3.crt"},
			{"a/b", true, "a/b/2.crt a/b/c a/b/c/3.crt"},
			{"", false, "5.crt a ab"},
			{"", true, "5.crt a a/1.crt a/b a/b/2.crt a/b/c a/b/c/3.crt ab ab/4.crt"},
			{"5.crt", true, ""},
		} {
			got, err := s.List(ctx, tc.prefix, tc.recursive)
			slices.Sort(got)
			if strings.Join(got, " ") != tc.want || err != nil {
				t.Errorf("List of %q, recursive %v: %q, %v; want %q", tc.prefix, tc.recursive, got, err, tc.want)
			}
		}
	})
}

func TestLocksOfAStorage(t *testing.T) {
	suites(t, func(t *testing.T, s certmagic.Storage) {
		ctx := context.Background()
		if err := s.Unlock(ctx, "nobody"); err == nil {
			t.Error("Unlock of a lock that is not held succeeded")
		}
		var group sync.WaitGroup
		inside, holders := make(chan struct{}, 1), 0
		for range 6 {
			group.Go(func() {
				if err := s.Lock(ctx, "issue_cert_example.com"); err != nil {
					t.Error(err)
					return
				}
				select {
				case inside <- struct{}{}:
				default:
					t.Error("two holders")
				}
				holders++ // -race finds two holders, too
				<-inside
				if err := s.Unlock(ctx, "issue_cert_example.com"); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if holders != 6 {
			t.Errorf("%d holders, want 6", holders)
		}
		// One name does not wait for another, and a wait ends with its context.
		if err := s.Lock(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		if err := s.Lock(ctx, "b"); err != nil {
			t.Fatal(err)
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if err := s.Lock(ended, "a"); !errors.Is(err, context.Canceled) {
			t.Errorf("Lock with a context that has ended: %v", err)
		}
		for _, name := range []string{"a", "b"} {
			if err := s.Unlock(ended, name); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestTryLock(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	a, b := newStorage(t, srv.Client()), newStorage(t, srv.Client())
	try := func(s *certmagicholdfast.Storage, want bool) {
		t.Helper()
		if ok, err := s.TryLock(ctx, "ari_1"); ok != want || err != nil {
			t.Errorf("TryLock: %v, %v; want %v", ok, err, want)
		}
	}
	try(a, true)
	try(a, false)
	try(b, false)
	if err := a.Unlock(ctx, "ari_1"); err != nil {
		t.Fatal(err)
	}
	try(b, true)
	try(a, false)
	if err := b.Unlock(ctx, "ari_1"); err != nil {
		t.Fatal(err)
	}
	try(a, true)
}

// Keys of certmagic that each lock guards, and a key that it does not guard.
var fenced = []struct{ lock, key, other string }{
	{"issue_cert_example.com", "certificates/acme-v02/example.com/example.com.crt", "certificates/acme-v02/www.example.com/www.example.com.crt"},
	{"issue_cert_*.Example.com", "certificates/local/wildcard_.example.com/wildcard_.example.com.key", "certificates/local/example.com/example.com.key"},
	{"register_acme_account_me@example.com", "acme/acme-v02/users/me@example.com/me.json", "acme/acme-v02/users/you@example.com/you.json"},
	{"register_acme_account", "acme/acme-v02/users/default/default.key", "acme/acme-v02/challenge_tokens/x.json"},
	{"storage_clean", "last_clean.json", "ocsp/x"},
}

// A holder that was paused until another program had the lock cannot write or delete what that one has written,
// although it does not know that its lock is lost (certmagic#205).
func TestAStoreUnderALostLockFails(t *testing.T) {
	for _, known := range []bool{false, true} {
		for _, tc := range fenced {
			t.Run(fmt.Sprintf("%s known %v", tc.lock, known), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := zktest.NewServer()
					defer srv.Close()
					ctx, c := context.Background(), srv.Client()
					paused, next := newStorage(t, c), newStorage(t, srv.Client())
					if err := paused.Lock(ctx, tc.lock); err != nil {
						t.Fatal(err)
					}
					if err := paused.Store(ctx, tc.key, []byte("old")); err != nil {
						t.Fatal(err)
					}
					if known {
						expire(t, srv, c)
						synctest.Wait()
					} else { // the node is gone, but no event has arrived: its request is refused by the server
						names, _, err := srv.Client().Children(ctx, "/certmagic/locks/"+escaped(tc.lock))
						if err != nil || len(names) != 1 {
							t.Fatal(names, err)
						}
						if err := srv.Client().Delete(ctx, "/certmagic/locks/"+escaped(tc.lock)+"/"+names[0], zk.AnyVersion); err != nil {
							t.Fatal(err)
						}
					}
					if err := next.Lock(ctx, tc.lock); err != nil {
						t.Fatal(err)
					}
					if err := next.Store(ctx, tc.key, []byte("new")); err != nil {
						t.Fatal(err)
					}
					if err := paused.Store(ctx, tc.key, []byte("old")); !errors.Is(err, holdfast.ErrLost) {
						t.Errorf("Store: %v, want ErrLost", err)
					}
					if err := paused.Delete(ctx, tc.key); !errors.Is(err, holdfast.ErrLost) {
						t.Errorf("Delete: %v, want ErrLost", err)
					}
					if err := paused.Delete(ctx, strings.Split(tc.key, "/")[0]); !errors.Is(err, holdfast.ErrLost) {
						t.Errorf("Delete of the directory: %v, want ErrLost", err)
					}
					if got, err := next.Load(ctx, tc.key); string(got) != "new" || err != nil {
						t.Errorf("Load: %q, %v; want new", got, err)
					}
					if err := paused.Store(ctx, tc.other, nil); err != nil {
						t.Errorf("Store of a key of another lock: %v", err)
					}
					if err := paused.Unlock(ctx, tc.lock); err != nil {
						t.Errorf("Unlock: %v", err)
					}
					if err := next.Unlock(ctx, tc.lock); err != nil {
						t.Errorf("Unlock: %v", err)
					}
					if err := paused.Store(ctx, tc.key, []byte("imported")); err != nil {
						t.Errorf("Store without a lock: %v", err)
					}
				})
			})
		}
	}
}

func escaped(name string) string { return strings.ReplaceAll(name, "*", "%2A") }

// The same for another storage, as far as the client knows of the loss.
func TestAnotherStorageIsNotChangedUnderALostLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		ctx, c := context.Background(), srv.Client()
		files := &certmagic.FileStorage{Path: t.TempDir()}
		s, err := certmagicholdfast.WithLocks(files, certmagicholdfast.Config{Client: c, Path: "/certmagic"})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Lock(ctx, fenced[0].lock); err != nil {
			t.Fatal(err)
		}
		if err := s.Store(ctx, fenced[0].key, []byte("old")); err != nil {
			t.Fatal(err)
		}
		expire(t, srv, c)
		synctest.Wait()
		if err := s.Store(ctx, fenced[0].key, []byte("new")); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Store: %v, want ErrLost", err)
		}
		if err := s.Delete(ctx, fenced[0].key); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Delete: %v, want ErrLost", err)
		}
		if got, err := files.Load(ctx, fenced[0].key); string(got) != "old" || err != nil {
			t.Errorf("the file has %q, %v", got, err)
		}
	})
}

func TestRenewLockLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		ctx, c := context.Background(), srv.Client()
		a, b := newStorage(t, c), newStorage(t, srv.Client())
		const name = "issue_cert_example.com"
		renew := func(want error) {
			t.Helper()
			if err := a.RenewLockLease(ctx, name, time.Minute); !errors.Is(err, want) {
				t.Errorf("RenewLockLease: %v, want %v", err, want)
			}
		}
		renew(holdfast.ErrNotHeld)
		if err := a.Lock(ctx, name); err != nil {
			t.Fatal(err)
		}
		renew(nil)
		expire(t, srv, c)
		synctest.Wait()
		if err := b.Lock(ctx, name); err != nil {
			t.Fatal(err)
		}
		renew(holdfast.ErrLost)
		renew(holdfast.ErrLocked)
		if err := b.Unlock(ctx, name); err != nil {
			t.Fatal(err)
		}
		renew(nil) // acquired again
		if ok, err := b.TryLock(ctx, name); ok || err != nil {
			t.Errorf("TryLock beside a lease that was renewed: %v, %v", ok, err)
		}
		if err := a.Store(ctx, fenced[0].key, []byte("x")); err != nil {
			t.Errorf("Store after the lease was renewed: %v", err)
		}
		if err := a.Unlock(ctx, name); err != nil {
			t.Fatal(err)
		}
		if ok, err := b.TryLock(ctx, name); !ok || err != nil {
			t.Errorf("TryLock after Unlock: %v, %v", ok, err)
		}
	})
}

// After a loss, the next Lock in the program waits for the Unlock of the first. Otherwise that Unlock would release the
// lock of the second.
func TestAfterALossTheNextTenureWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		ctx, c := context.Background(), srv.Client()
		s := newStorage(t, c)
		if err := s.Lock(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		expire(t, srv, c)
		second := make(chan error, 1)
		go func() { second <- s.Lock(ctx, "a") }()
		time.Sleep(time.Minute)
		select {
		case err := <-second:
			t.Fatalf("the second Lock returned before the first Unlock: %v", err)
		default:
		}
		if err := s.Unlock(ctx, "a"); err != nil {
			t.Errorf("Unlock: %v", err)
		}
		if err := <-second; err != nil {
			t.Fatal(err)
		}
		if err := s.Unlock(ctx, "a"); err != nil {
			t.Error(err)
		}
		if err := s.Unlock(ctx, "a"); !errors.Is(err, holdfast.ErrNotHeld) {
			t.Errorf("Unlock too often: %v", err)
		}
	})
}

// Every request of the storage survives the loss of the request, of its answer, and a busy server.
func TestRequestsOutlastFaults(t *testing.T) {
	ops := map[string]zkproto.Op{"multi": zkproto.OpMulti, "create": zkproto.OpCreate2, "get": zkproto.OpGetData,
		"children": zkproto.OpGetChildren2, "sync": zkproto.OpSync, "delete": zkproto.OpDelete}
	for opName, op := range ops {
		for _, fault := range []zktest.Action{zktest.DropRequest, zktest.DropReply, zktest.Throttle} {
			for _, locked := range []bool{false, true} {
				t.Run(fmt.Sprint(opName, fault, locked), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						srv := zktest.NewServer()
						defer srv.Close()
						ctx := context.Background()
						s, tc := newStorage(t, srv.Client()), fenced[0]
						if locked {
							if err := s.Lock(ctx, tc.lock); err != nil {
								t.Fatal(err)
							}
						}
						// Not every second one: then a request that always comes second would never be answered.
						n, next, gap := 0, 1, 1
						srv.Intercept(op, func(path string) zktest.Action {
							if n++; n == next && n < 30 {
								next += gap
								gap++
								if !strings.HasPrefix(path, "/certmagic/locks") {
									return fault
								}
							}
							return zktest.Pass
						})
						for _, value := range []string{"1", "2"} {
							if err := s.Store(ctx, tc.key, []byte(value)); err != nil {
								t.Fatal(err)
							}
							if got, err := s.Load(ctx, tc.key); string(got) != value || err != nil {
								t.Fatalf("Load: %q, %v", got, err)
							}
						}
						if keys, err := s.List(ctx, "", true); len(keys) != 4 || err != nil {
							t.Errorf("List: %q, %v", keys, err)
						}
						if err := s.Delete(ctx, "certificates"); err != nil || s.Exists(ctx, "certificates") {
							t.Errorf("Delete: %v", err)
						}
						if locked {
							if err := s.Unlock(ctx, tc.lock); err != nil {
								t.Error(err)
							}
						}
					})
				})
			}
		}
	}
}

// Values survive the end of the session that stored them, and a restart of the server.
func TestValuesOutlastSessionsAndServers(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx, c := context.Background(), srv.Client()
	s := newStorage(t, c)
	for i := range 20 {
		key, value := fmt.Sprintf("certificates/ca/%d.example/%d.crt", i%3, i), bytes.Repeat([]byte{byte(i)}, 1000)
		if err := s.Store(ctx, key, value); err != nil {
			t.Fatal(err)
		}
		switch i % 3 {
		case 0:
			srv.CloseClientConnections()
		case 1:
			expire(t, srv, c)
		case 2:
			srv.Restart()
		}
		if got, err := s.Load(ctx, key); !bytes.Equal(got, value) || err != nil {
			t.Errorf("Load: %d bytes, %v", len(got), err)
		}
	}
}

func TestLargeValues(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx, s := context.Background(), newStorage(t, srv.Client())
	large := bytes.Repeat([]byte("x"), 1_000_000)
	if err := s.Store(ctx, "a/large", large); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Load(ctx, "a/large"); !bytes.Equal(got, large) || err != nil {
		t.Errorf("Load: %d bytes, %v", len(got), err)
	}
	for _, key := range []string{"a/large", "b/new"} {
		err := s.Store(ctx, key, make([]byte, 1<<20))
		if !errors.Is(err, zk.ErrTooLarge) || !strings.Contains(err.Error(), "1048576 bytes") {
			t.Errorf("Store: %v, want ErrTooLarge with the size", err)
		}
	}
	if got, err := s.Load(ctx, "a/large"); !bytes.Equal(got, large) || err != nil {
		t.Errorf("a Store that failed changed the value: %d bytes, %v", len(got), err)
	}
	if s.Exists(ctx, "b/new") {
		t.Error("a Store that failed made the key")
	}
}

func TestHostileKeysAndNames(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx, s := context.Background(), newStorage(t, srv.Client())
	keys := []string{"a%2Fb", "a/%2F", "…/ü", "a b", "\x01\x7f", "x/\xff\xfe", "zookeeper", "certmagic", "%", "..."}
	for _, key := range keys {
		if err := s.Store(ctx, key, []byte(key)); err != nil {
			t.Errorf("Store of %q: %v", key, err)
		}
	}
	all, err := s.List(ctx, "", true)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if got, err := s.Load(ctx, key); string(got) != key || err != nil {
			t.Errorf("Load of %q: %q, %v", key, got, err)
		}
		if !slices.Contains(all, key) {
			t.Errorf("List has no %q: %q", key, all)
		}
	}
	// These are the same key, below the path of the storage.
	for _, key := range []string{"/p/q", "p//q/", "../../p/q", "p/./q", "p/x/../q"} {
		if err := s.Store(ctx, key, []byte(key)); err != nil {
			t.Errorf("Store of %q: %v", key, err)
		}
		if got, err := s.Load(ctx, "p/q"); string(got) != key || err != nil {
			t.Errorf("Load after Store of %q: %q, %v", key, got, err)
		}
	}
	for _, key := range []string{"", "/", "..", "."} {
		if err := s.Store(ctx, key, nil); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("Store of %q: %v", key, err)
		}
	}
	for _, name := range []string{"a/b", "a%2Fb", "..", ".", "", "issue_cert_*.ü", "\x00"} {
		if err := s.Lock(ctx, name); err != nil {
			if name != "" {
				t.Errorf("Lock of %q: %v", name, err)
			}
			continue
		}
		if err := s.Unlock(ctx, name); err != nil {
			t.Errorf("Unlock of %q: %v", name, err)
		}
	}
	top, _, err := srv.Client().Children(ctx, "/")
	if slices.Sort(top); err != nil || strings.Join(top, " ") != "certmagic zookeeper" {
		t.Errorf("the root has %q, %v", top, err)
	}
}

func TestConfigsThatAreWrong(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	for _, tc := range []struct {
		cfg  certmagicholdfast.Config
		want error
	}{
		{certmagicholdfast.Config{Path: "/a"}, zk.ErrBadArguments},
		{certmagicholdfast.Config{Client: srv.Client()}, zk.ErrInvalidPath},
		{certmagicholdfast.Config{Client: srv.Client(), Path: "/"}, zk.ErrInvalidPath},
		{certmagicholdfast.Config{Client: srv.Client(), Path: "/a/"}, zk.ErrInvalidPath},
	} {
		if _, err := certmagicholdfast.New(tc.cfg); !errors.Is(err, tc.want) {
			t.Errorf("New with %q: %v, want %v", tc.cfg.Path, err, tc.want)
		}
	}
}

// A storage of private keys that everybody may read is a warning at the start.
func TestOpenPrivateKeysAreAWarning(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	auth := zk.ACL{Perms: zk.PermAll, Scheme: "auth"}
	for name, tc := range map[string]struct {
		acl   []zk.ACL
		warns bool
	}{
		"none":                {nil, true},
		"a user":              {[]zk.ACL{auth}, false},
		"the world":           {[]zk.ACL{auth, {Perms: zk.PermRead, Scheme: "world", ID: "anyone"}}, true},
		"the world may write": {[]zk.ACL{auth, {Perms: zk.PermCreate, Scheme: "world", ID: "anyone"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			cfg := certmagicholdfast.Config{Client: srv.Client(), Path: "/certmagic", ACL: tc.acl, Logger: slog.New(slog.NewTextHandler(&log, nil))}
			if _, err := certmagicholdfast.New(cfg); err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(log.String(), "level=WARN") && strings.Contains(log.String(), "private keys"); got != tc.warns {
				t.Errorf("warns: %v, want %v:\n%s", got, tc.warns, log.String())
			}
			log.Reset()
			if _, err := certmagicholdfast.WithLocks(&certmagic.FileStorage{Path: t.TempDir()}, cfg); err != nil || log.Len() > 0 {
				t.Errorf("WithLocks, which stores no keys: %v, %s", err, log.String())
			}
		})
	}
}

// A program that closes its client has lost no lock.
func TestCloseOfTheClientIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		var log bytes.Buffer
		c, err := zk.Dial(t.Context(), srv.Config())
		if err != nil {
			t.Fatal(err)
		}
		s, err := certmagicholdfast.New(certmagicholdfast.Config{Client: c, Path: "/certmagic", ACL: []zk.ACL{{Perms: zk.PermAll, Scheme: "world", ID: "anyone"}},
			Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Lock(t.Context(), "issue_cert_example.com"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if log.Len() > 0 {
			t.Errorf("log:\n%s", log.String())
		}
	})
}

// All nodes have the access control list of the Config: those of values, of directories, and of locks.
func TestEveryNodeHasTheACL(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx, cfg := context.Background(), srv.Config()
	cfg.Auth = []zk.Auth{zk.DigestAuth("certs", "secret")}
	c, err := zk.Dial(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	acl := []zk.ACL{zk.DigestACL(zk.PermAll, "certs", "secret")}
	s, err := certmagicholdfast.New(certmagicholdfast.Config{Client: c, Path: "/tls/certmagic", ACL: acl})
	if err != nil {
		t.Fatal(err)
	}
	tc := fenced[0]
	if err := s.Store(ctx, "ocsp/x", nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Lock(ctx, tc.lock); err != nil {
		t.Fatal(err)
	}
	if err := s.Store(ctx, tc.key, []byte("key")); err != nil {
		t.Fatal(err)
	}
	nodes := 0
	var walk func(node string)
	walk = func(node string) {
		nodes++
		got, _, err := c.GetACL(ctx, node)
		if err != nil || !slices.Equal(got, acl) {
			t.Errorf("%s has %v, %v", node, got, err)
		}
		names, _, err := c.Children(ctx, node)
		if err != nil {
			t.Error(err)
		}
		for _, name := range names {
			walk(node + "/" + name)
		}
	}
	walk("/tls")
	if nodes < 10 {
		t.Errorf("only %d nodes", nodes)
	}
}

// A follower may lag behind the server that took a Store of another program. So each read first lets it catch up.
func TestReadsCatchUpFirst(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx, s := context.Background(), newStorage(t, srv.Client())
	if err := s.Store(ctx, "a/b", []byte("x")); err != nil {
		t.Fatal(err)
	}
	synced := false
	srv.Intercept(zkproto.OpMulti, func(string) zktest.Action { synced = true; return zktest.Pass })
	reads := map[string]func() error{
		"Load": func() error { _, err := s.Load(ctx, "a/b"); return err },
		"Stat": func() error { _, err := s.Stat(ctx, "a/b"); return err },
		"List": func() error { _, err := s.List(ctx, "a", true); return err },
	}
	for name, read := range reads {
		synced = false
		for _, op := range []zkproto.Op{zkproto.OpGetData, zkproto.OpGetChildren2} {
			srv.Intercept(op, func(string) zktest.Action {
				if !synced {
					t.Errorf("%s reads before it has caught up", name)
				}
				return zktest.Pass
			})
		}
		if err := read(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A Lock whose context ends while it waits for another program leaves nothing behind.
func TestALockThatGaveUpCanBeCalledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		ctx := context.Background()
		a, b := newStorage(t, srv.Client()), newStorage(t, srv.Client())
		if err := a.Lock(ctx, "x"); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			short, cancel := context.WithTimeout(ctx, time.Second)
			if err := b.Lock(short, "x"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Lock: %v", err)
			}
			cancel()
		}
		// While one call waits for the other program, another call of this program waits for that call.
		short, cancelShort := context.WithTimeout(ctx, time.Second)
		defer cancelShort()
		second := make(chan error, 1)
		go func() {
			time.Sleep(time.Millisecond)
			behind, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			second <- b.Lock(behind, "x")
		}()
		if err := b.Lock(short, "x"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Lock: %v", err)
		}
		if err := a.Unlock(ctx, "x"); err != nil {
			t.Fatal(err)
		}
		if err := <-second; err != nil {
			t.Fatalf("Lock behind a Lock that gave up: %v", err)
		}
		if err := b.Unlock(ctx, "x"); err != nil {
			t.Error(err)
		}
		long, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if err := b.Lock(long, "x"); err != nil {
			t.Fatalf("Lock after a Lock that gave up: %v", err)
		}
		if err := b.Unlock(ctx, "x"); err != nil {
			t.Error(err)
		}
	})
}

// Directories above the root cannot be made. Without the chroot, Store fails and says what to do.
func TestAMissingChrootIsAnError(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	cfg := srv.Config()
	cfg.Chroot = "/missing/chroot"
	c, err := zk.Dial(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	err = newStorage(t, c).Store(ctx, "a/b", []byte("value"))
	if !errors.Is(err, zk.ErrNoNode) || !strings.Contains(err.Error(), "create the chroot") {
		t.Errorf("Store: %v; want an error that says to create the chroot", err)
	}
}
