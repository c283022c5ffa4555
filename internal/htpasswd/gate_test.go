package htpasswd

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A slowHash is a Gate whose hashes take as long as the test wants.
type slowHash struct {
	*Gate
	users  *Users
	began  []string      // the passwords in the order of their hashes
	finish chan struct{} // ends one hash
}

func newSlowHash(t *testing.T) *slowHash {
	u, err := Parse(ann())
	if err != nil {
		t.Fatal(err)
	}
	s := &slowHash{Gate: NewGate(), users: u, finish: make(chan struct{})}
	s.compare = func(u *Users, name, password string) (User, bool) {
		s.began = append(s.began, password)
		<-s.finish
		return User{Name: name}, password == "right"
	}
	return s
}

func (s *slowHash) try(ctx context.Context, name, password, address string) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := s.Check(ctx, s.users, name, password, address)
		done <- err
	}()
	synctest.Wait()
	return done
}

// finishAll ends the hashes one after the other.
func (s *slowHash) finishAll() {
	for {
		synctest.Wait()
		select {
		case s.finish <- struct{}{}:
		default:
			return
		}
	}
}

// Eighty addresses guess without a pause. A user who logs in waits for no hash of theirs, once they have guessed wrong, and
// for a single one of the first guesses.
func TestALoginDoesNotWaitForTheHashesOfGuessers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowHash(t)
		for i := range 80 {
			s.try(t.Context(), fmt.Sprint("user", i), "first", fmt.Sprint("crowd", i))
		}
		login := s.try(t.Context(), "ann", "right", "home")
		s.finish <- struct{}{} // the one that was under way
		synctest.Wait()
		if !slices.Equal(s.began, []string{"first", "right"}) {
			t.Errorf("the hashes were %v; want that of the user second", s.began)
		}
		s.finish <- struct{}{}
		if err := <-login; err != nil {
			t.Error(err)
		}
		s.finishAll()
		s.began = nil
		for n := range 3 {
			for i := range 80 {
				s.try(t.Context(), "ann", fmt.Sprint("again", n, i), fmt.Sprint("crowd", i))
			}
		}
		login = s.try(t.Context(), "ann", "right", "new")
		if len(s.began) != 2 || s.began[1] != "right" {
			t.Errorf("the hashes under way are %v; want that of the user beside one of the guessers", s.began)
		}
		s.finishAll()
		if err := <-login; err != nil {
			t.Error(err)
		}
	})
}

// Many jobs of one machine log in at the same moment: no one of them is a guess.
func TestEqualLoginsAtTheSameMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, err := Parse(ann())
		if err != nil {
			t.Fatal(err)
		}
		g := NewGate()
		done := make(chan error, 50)
		for range cap(done) {
			go func() {
				_, err := g.Check(t.Context(), u, "ann", "correct horse", "home")
				done <- err
			}()
		}
		for range cap(done) {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A client that has gone does not wait for its turn, and its attempt counts as none.
func TestAClientThatHasGoneDoesNotHash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowHash(t)
		first := s.try(t.Context(), "ann", "wrong", "home")
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			gone := s.try(ctx, "ann", "gone", "other")
			cancel()
			if err := <-gone; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		if len(s.waiting) != 0 {
			t.Errorf("%d attempts wait", len(s.waiting))
		}
		s.finish <- struct{}{}
		if err := <-first; !errors.Is(err, ErrWrong) || len(s.began) != 1 {
			t.Errorf("%v, %v", err, s.began)
		}
	})
}

// A client that guesses too often waits, also with the right password, and also if a client at another address has proven it. A
// secret without a name is no different.
func TestTheGateDelaysGuesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, err := Parse(ann())
		if err != nil {
			t.Fatal(err)
		}
		g := NewGate()
		check := func(password, address string) error {
			_, err := g.Check(t.Context(), u, "ann", password, address)
			return err
		}
		if err := check("correct horse", "home"); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			if err := check("guess guess", "a"); !errors.Is(err, ErrWrong) {
				t.Error(err)
			}
		}
		if wait, ok := errors.AsType[Wait](check("correct horse", "a")); !ok || wait != Wait(time.Second) {
			t.Errorf("%v, %v", wait, ok)
		}
		if err := check("correct horse", "home"); err != nil {
			t.Errorf("at home: %v", err)
		}
		time.Sleep(time.Second)
		if err := check("correct horse", "a"); err != nil {
			t.Errorf("after the wait: %v", err)
		}
		for range 5 {
			if err := g.CheckSecret("token", "b", false); !errors.Is(err, ErrWrong) {
				t.Error(err)
			}
		}
		if _, ok := errors.AsType[Wait](g.CheckSecret("token", "b", true)); !ok {
			t.Error("guesses at a token need not wait")
		}
		if err := g.CheckSecret("token", "home", true); err != nil {
			t.Error(err)
		}
	})
}

// One client of IPv6 has a network.
func TestAddresses(t *testing.T) {
	r := httptest.NewRequest("GET", "/", nil)
	seen := make(map[string]bool)
	for _, remote := range []string{"[2001:db8::1]:1", "[2001:db8::ffff:2]:2", "[::ffff:192.0.2.1]:3", "192.0.2.1:4"} {
		r.RemoteAddr = remote
		seen[AddressOf(r)] = true
	}
	if len(seen) != 2 {
		t.Errorf("%v", seen)
	}
}
