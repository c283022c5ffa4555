package htpasswd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// ann has the password "correct horse".
var ann = sync.OnceValue(func() string {
	line, err := Line("ann", "operator", "correct horse", LeastCost)
	if err != nil {
		panic(err)
	}
	return line
})

// made is a line that crypt(3) of libxcrypt has made of "correct horse".
const made = `vic:$2y$10$V3u5/ZkbdnEKRo.nzcWLEOduyOhZkuUORwXYmeLerr2ZEHLcvxeli`

func TestParse(t *testing.T) {
	t.Parallel()
	hash := strings.Split(ann(), ":")[1]
	for text, want := range map[string]string{
		"# comment\n\n" + ann() + "\r\n":       "",
		"ann:" + hash:                          "",
		"ann:" + hash + ":a note: of any sort": "",
		"ann:$2b" + hash[3:]:                   "",
		"":                                     "no users",
		"# ann:" + hash:                        "no users",
		ann() + "\n" + ann():                   "line 2: the user \"ann\" has another line",
		"correct horse":                        "line 1: want NAME:HASH",
		":" + hash:                             "is no name",
		"a b:" + hash:                          "is no name",
		strings.Repeat("a", 65) + ":" + hash:   "is no name",
		"ann:":                                 "no hash of bcrypt",
		"ann:correct horse":                    "no hash of bcrypt",
		"ann:operator:pbkdf2-sha256$600000$c2FsdA$aGFz": "no hash of bcrypt",
		"ann:$apr1$abcdefgh$" + strings.Repeat("x", 22): "no hash of bcrypt",
		"ann:" + hash[:59]:       "no hash of bcrypt",
		"ann:" + hash[:59] + "!": "no hash of bcrypt",
		"ann:$2y$05$" + hash[7:]: "the cost 5: want 10 to 15",
		"ann:$2y$31$" + hash[7:]: "the cost 31: want 10 to 15",
	} {
		_, err := Parse(text)
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v; want %q", text, err, want)
		case err != nil && (strings.Contains(err.Error(), "horse") || strings.Contains(err.Error(), hash[20:40])):
			t.Errorf("the error shows a secret: %v", err)
		}
	}
	var many strings.Builder
	for i := range mostUsers + 1 {
		fmt.Fprintf(&many, "u%d:%s\n", i, hash)
	}
	if _, err := Parse(many.String()); err == nil || !strings.Contains(err.Error(), "more than 1000 users") {
		t.Errorf("%d users: %v", mostUsers+1, err)
	}
}

// Whatever a file says, Parse returns, and each user has a name that may be shown.
func FuzzParse(f *testing.F) {
	f.Add(ann())
	f.Add(made + "\n# x\n" + "a:$2y$99$")
	f.Add("a:b:c")
	f.Fuzz(func(t *testing.T, text string) {
		u, err := Parse(text)
		if err != nil {
			return
		}
		for user := range u.All() {
			if !u.Has(user) || checkName(user.Name) != nil {
				t.Errorf("%q", user.Name)
			}
		}
	})
}

func TestCheck(t *testing.T) {
	t.Parallel()
	u, err := Parse(ann() + "\n" + made)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time, the right passwords are proven
		for _, tt := range []struct {
			name, password string
			ok             bool
		}{
			{"ann", "correct horse", true}, {"vic", "correct horse", true},
			{"ann", "correct horsf", false}, {"ann", "", false}, {"bob", "correct horse", false}, {"", "", false},
			{"ann", "correct horse" + strings.Repeat("x", 60), false},
		} {
			got, err := NewGate().Check(t.Context(), u, tt.name, tt.password, "a")
			ok := err == nil
			if ok != tt.ok || !ok && !errors.Is(err, ErrWrong) || ok && (got.Name != tt.name || !u.Has(got)) {
				t.Errorf("%s with %q: %v; want %v", tt.name, tt.password, ok, tt.ok)
			}
			if text := fmt.Sprintf("%+v", got); strings.Contains(text, "$2y$") {
				t.Errorf("a user prints the hash: %s", text)
			}
		}
	}
	if got, ok := u.proven("ann", "correct horse"); !ok || got.Note != "operator" {
		t.Errorf("proven: %v, note %q", ok, got.Note)
	}
	if _, ok := u.proven("vic", "correct horsf"); ok {
		t.Error("a wrong password is proven")
	}
}

// Guessers keep both turns at hashing. A client whose password was right before does not wait for them, also after the
// file was read again.
func TestProvenPasswordsDoNotWaitForGuesses(t *testing.T) {
	t.Parallel()
	read := func() *Users {
		u, err := Parse(ann())
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	old, now, g := read(), read(), NewGate()
	if _, err := g.Check(t.Context(), old, "ann", "correct horse", "a"); err != nil {
		t.Fatal(err)
	}
	now.Inherit(old)
	g.hashing = [2]bool{true, true}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.Check(ctx, now, "ann", "correct horse", "a"); err != nil {
		t.Errorf("ann waits for the turn: %v", err)
	}
	if _, err := g.Check(ctx, now, "ann", "correct horsf", "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("another password: %v", err)
	}
	other, err := Line("ann", "operator", "correct horse", LeastCost)
	if err != nil || other == ann() {
		t.Fatalf("%v: no salt", err)
	}
	changed, err := Parse(other)
	if err != nil {
		t.Fatal(err)
	}
	changed.Inherit(old)
	if _, ok := changed.proven("ann", "correct horse"); ok {
		t.Error("another line has the proof of the old one")
	}
}

func TestLine(t *testing.T) {
	t.Parallel()
	for _, password := range []string{"short", strings.Repeat("x", 73)} {
		if _, err := Line("ann", "", password, LeastCost); err == nil || strings.Contains(err.Error(), password) {
			t.Errorf("%d bytes: %v", len(password), err)
		}
	}
	if _, err := Line("a:b", "", "correct horse", LeastCost); err == nil {
		t.Error("a name with a colon")
	}
	if line, err := Line("ann", "", "correct horse", LeastCost); err != nil || strings.Count(line, ":") != 1 || !strings.HasPrefix(line, "ann:$2y$10$") {
		t.Errorf("%q, %v", line, err)
	}
}

// Guesses at a password that nobody can guess keep nobody out.
func TestOne(t *testing.T) {
	t.Parallel()
	u, g := One("holdfast", "a long secret"), NewGate()
	for range 100 {
		if _, err := g.Check(t.Context(), u, "holdfast", "another", "a"); !errors.Is(err, ErrWrong) {
			t.Fatalf("another password: %v", err)
		}
	}
	if _, err := g.Check(t.Context(), u, "holdfast", "a long secret", "a"); err != nil {
		t.Errorf("the password: %v", err)
	}
}

func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "users")
		write := func(text string) {
			if err := os.WriteFile(path+"~", []byte(text), 0o600); err != nil {
				t.Error(err)
			}
			if err := os.Rename(path+"~", path); err != nil {
				t.Error(err)
			}
		}
		write("one")
		w := NewWatch("", path)
		write("two") // before Follow
		ctx, cancel := context.WithCancel(t.Context())
		var seen atomic.Int32
		over := make(chan struct{})
		go func() { w.Follow(ctx, func() { seen.Add(1) }); close(over) }()
		for want := int32(1); want < 4; want++ {
			time.Sleep(lookEvery * 3 / 2)
			synctest.Wait()
			if seen.Load() != want {
				t.Errorf("%d changes seen; want %d", seen.Load(), want)
			}
			if want == 2 {
				_ = os.Remove(path)
			} else {
				write("three")
			}
		}
		cancel()
		<-over
		NewWatch("").Follow(t.Context(), nil) // nothing to follow
	})
}
