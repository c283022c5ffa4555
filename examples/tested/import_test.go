package tested

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/zktest"
)

// In a bubble of testing/synctest, timeouts take no real time.
func TestImportStopsWhenItsLockIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		c := srv.Client()
		session, err := c.Session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var stored []string
		err = Import(t.Context(), c, []string{"a", "b", "c"}, func(row string) {
			if stored = append(stored, row); row == "b" {
				srv.Expire(session.ID()) // as after a long pause of this process
				time.Sleep(time.Minute)
			}
		})
		if !errors.Is(err, holdfast.ErrLost) || !slices.Equal(stored, []string{"a", "b"}) {
			t.Errorf("stored %q: %v", stored, err)
		}
	})
}

// Two imports at the same time: one waits for the other.
func TestImportsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		var stored []string
		done := make(chan error)
		for _, row := range []string{"a", "b"} {
			c := srv.Client()
			go func() {
				done <- Import(t.Context(), c, []string{row, row}, func(row string) {
					stored = append(stored, row)
					time.Sleep(time.Second)
				})
			}()
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if stored[0] != stored[1] || stored[2] != stored[3] {
			t.Errorf("the rows are mixed: %q", stored)
		}
	})
}
