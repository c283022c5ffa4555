package zklocal

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func mustClaim(t *testing.T, dir string, current func() bool) *claim {
	t.Helper()
	c, err := claimPath(t.Context(), dir, current)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

func yes() bool { return true }
func no() bool  { return false }

// laterClaim claims a path in the background and sends the result.
func laterClaim(ctx context.Context, t *testing.T, dir string) <-chan error {
	done := make(chan error, 1)
	go func() {
		c, err := claimPath(ctx, dir, yes)
		if err == nil {
			if len(c.listeners) == 0 {
				t.Error("the newcomer has no claim")
			}
			c.close()
		}
		done <- err
	}()
	return done
}

func TestANewcomerWaitsForTheHostOfARemovedDirectory(t *testing.T) {
	base := t.TempDir()
	real, link := filepath.Join(base, "real"), filepath.Join(base, "link")
	if err := os.Mkdir(real, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, old, newcomer string }{
		{"by one path", real, real},
		{"that was hosted through a link", link, real},
		{"through a link", real, link},
	} {
		t.Run(test.name, func(t *testing.T) {
			old := mustClaim(t, test.old, no)
			claimed := laterClaim(t.Context(), t, test.newcomer)
			select {
			case <-old.asked:
			case err := <-claimed:
				t.Fatalf("the newcomer has not asked for the claim (%v)", err)
			}
			select {
			case err := <-claimed:
				t.Fatalf("the newcomer has not waited (%v)", err)
			default:
			}
			old.close()
			if err := <-claimed; err != nil {
				t.Error(err)
			}
		})
	}
}

// Another mount namespace can have another directory at the same path.
func TestANewcomerDoesNotWaitForAHostWhoseDirectoryIsThere(t *testing.T) {
	dir := t.TempDir()
	mustClaim(t, dir, yes)
	began := time.Now()
	c, err := claimPath(t.Context(), dir, yes)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if took := time.Since(began); took >= claimPatience {
		t.Errorf("the newcomer waited %v for a host whose directory is still there", took)
	}
	if len(c.listeners) != 0 {
		t.Error("two hosts have claimed the same name")
	}
}

func TestAClaimThatIsWaitedForEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	old := mustClaim(t, dir, no)
	ctx, cancel := context.WithCancelCause(t.Context())
	claimed := laterClaim(ctx, t, dir)
	wait(t, old.asked, "the newcomer's question")
	enough := errors.New("enough")
	cancel(enough)
	if err := <-claimed; !errors.Is(err, enough) {
		t.Errorf("got %v; want %v", err, enough)
	}
}

// The host of a removed directory can be stopped. Dial attempts shorter than the wait for that
// host still end.
func TestShortAttemptsOutwaitAStoppedHost(t *testing.T) {
	dir := newDir(t)
	store := newStore(t, Config{Dir: dir})
	mustClaim(t, dir, no)
	last := new(lastDirectory)
	for end := time.Now().Add(patience); ; {
		ctx, cancel := context.WithTimeout(t.Context(), claimPatience/5)
		nc, err := store.dial(ctx, last)
		cancel()
		if err == nil {
			nc.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}
