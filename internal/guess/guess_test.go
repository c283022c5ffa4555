package guess

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// wrong guesses n times, as soon as it may, and returns how long that took.
func wrong(l *Limiter, name, address string, n int) time.Duration {
	began := time.Now()
	for range n {
		for {
			a, wait := l.Begin(name, address)
			if wait == 0 {
				a.Wrong()
				break
			}
			time.Sleep(wait)
		}
	}
	return time.Since(began)
}

// waits returns how long an attempt would have to wait, and leaves no trace of it.
func waits(l *Limiter, name, address string) time.Duration {
	a, wait := l.Begin(name, address)
	if wait == 0 {
		a.Undo()
	}
	return wait
}

// The delays of an address grow, whatever names it tries, and fade.
func TestDelaysGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter()
		if took := wrong(l, "ann", "a", free); took != 0 {
			t.Errorf("%d guesses took %v; want none", free, took)
		}
		for i := range 6 {
			if took, want := wrong(l, fmt.Sprint("user", i), "a", 1), time.Second<<i; took != want {
				t.Errorf("guess %d waits %v; want %v", free+i+1, took, want)
			}
		}
		if took := wrong(l, "ann", "a", 100); took < 90*longest {
			t.Errorf("100 further guesses took %v", took)
		}
		time.Sleep(20 * fade)
		if wait := waits(l, "ann", "a"); wait != 0 {
			t.Errorf("after a rest: %v", wait)
		}
	})
}

// A crowd of addresses that guesses at one name waits longer and longer. Its owner does not, from a new address or an old
// one, as long as his own guesses are right. A guesser at the owner's address delays both.
func TestACrowdAtANameDelaysItselfAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter()
		a, _ := l.Begin("ann", "home")
		a.Right()
		for i := range 80 {
			wrong(l, "ann", fmt.Sprint("crowd", i), 1)
		}
		if wait := waits(l, "ann", "crowd7"); wait != longest {
			t.Errorf("a guesser of the crowd waits %v after one guess; want %v", wait, longest)
		}
		for _, address := range []string{"home", "new"} {
			if wait := waits(l, "ann", address); wait != 0 {
				t.Errorf("ann waits %v at %s", wait, address)
			}
		}
		wrong(l, "vic", "home", 20)
		if waits(l, "bob", "home") == 0 || waits(l, "ann", "home") != 0 {
			t.Error("guesses at another name from her address delay ann, or do not delay others")
		}
		wrong(l, "ann", "home", free)
		if waits(l, "ann", "home") == 0 {
			t.Error("nobody who guesses at ann's address has to wait")
		}
	})
}

// A login forgives no guess. A right password alone never has to wait.
func TestARightPasswordForgivesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter()
		for range 1000 {
			a, wait := l.Begin("ann", "a")
			if wait != 0 {
				t.Fatal(wait)
			}
			a.Right()
		}
		guesses := 0
		for range 10 {
			for range free - 1 {
				if a, wait := l.Begin("vic", "a"); wait == 0 {
					a.Wrong()
					guesses++
				}
			}
			if a, wait := l.Begin("ann", "a"); wait == 0 {
				a.Right()
			}
		}
		if guesses > free {
			t.Errorf("%d guesses without a delay; want at most %d", guesses, free)
		}
	})
}

// Attempts that have begun at the same time are as good as wrong ones, until they end.
func TestUndecidedAttemptsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter()
		var last Attempt
		for range free {
			last, _ = l.Begin("ann", "a")
		}
		if waits(l, "ann", "a") == 0 {
			t.Error("another attempt begins")
		}
		if n := last.Others(); n != free-1 {
			t.Errorf("%d others; want %d", n, free-1)
		}
		time.Sleep(time.Minute) // the hashes take long
		if waits(l, "ann", "a") == 0 {
			t.Error("another attempt begins while the others are undecided")
		}
		last.Wrong()
		for range free - 1 {
			last.Undo()
		}
		if wait := waits(l, "ann", "a"); wait != 0 {
			t.Errorf("a single wrong one delays by %v", wait)
		}
	})
}

// A client at work, whose passwords are right, keeps the wrong guesses of others at its address from being forgotten by no
// means.
func TestRightPasswordsKeepNoGuesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter()
		wrong(l, "vic", "office", 3*free)
		for range 1000 {
			time.Sleep(10 * time.Second)
			a, wait := l.Begin("ann", "office")
			if wait == 0 {
				a.Right()
			}
		}
		if wait := waits(l, "bob", "office"); wait != 0 {
			t.Errorf("bob waits %v hours after the guesses", wait)
		}
	})
}

// A flood of addresses and names frees no guesser, and keeps no new address out.
func TestAFloodOfAddressesChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter()
		wrong(l, "ann", "guesser", 2*free)
		for i := range slots / 8 {
			wrong(l, fmt.Sprint("name", i), fmt.Sprint("flood", i), 1)
		}
		if waits(l, "ann", "guesser") == 0 {
			t.Error("the flood has freed the guesser")
		}
		kept := 0
		for i := range 1000 {
			if waits(l, "bob", fmt.Sprint("new", i)) > 0 {
				kept++
			}
		}
		if kept > 0 {
			t.Errorf("%d of 1000 new addresses have to wait", kept)
		}
		for i := range 2 * mostProven {
			a, _ := l.Begin("ann", fmt.Sprint("home", i))
			a.Right()
		}
		if len(l.proven) > mostProven {
			t.Errorf("%d pairs are remembered; want at most %d", len(l.proven), mostProven)
		}
	})
}

// When the passwords are others, a client that was wrong does not have to wait.
func TestForgottenGuessesDelayNobody(t *testing.T) {
	l := NewLimiter()
	for range free + 3 {
		if a, wait := l.Begin("ann", "192.0.2.1"); wait == 0 {
			a.Wrong()
		}
	}
	if _, wait := l.Begin("ann", "192.0.2.1"); wait == 0 {
		t.Fatal("nobody has to wait: the test shows nothing")
	}
	l.Forget()
	if _, wait := l.Begin("ann", "192.0.2.1"); wait != 0 {
		t.Errorf("a wait of %v", wait)
	}
}
