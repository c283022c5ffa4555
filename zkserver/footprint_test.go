package zkserver

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The four-letter words that report file usage open files themselves, beyond the reserve. So one
// at a time reads the usage, and the others reuse its answer.
func TestFootprintIsReadByOneAtATimeAndRemembered(t *testing.T) {
	var u footprint
	var inside, calls atomic.Int64
	var readers sync.WaitGroup
	enter := func() int64 {
		if inside.Add(1) > 1 {
			t.Error("two words read the usage at the same time")
		}
		runtime.Gosched()
		defer inside.Add(-1)
		return calls.Add(1)
	}
	for range 100 {
		readers.Go(func() {
			if open, most := u.ofFiles(func() (int64, int64) { n := enter(); return n, 10 * n }); open != most/10 {
				t.Error(open, most)
			}
			u.ofDisk(enter)
		})
	}
	readers.Wait()
	if n := calls.Load(); n > 4 { // two, unless they take more than a second
		t.Errorf("%d calls for 200 words", n)
	}
}

func TestWordsOfTheUseOfFilesAreAsOfTheLastSecond(t *testing.T) {
	dir := t.TempDir()
	inBubble(t, Config{Dir: dir, FourLetterWords: []string{"*"}}, func(t *testing.T, s *Server, dial func() *rawClient) {
		size := func() string { return regexp.MustCompile(`datadir_size: \d+`).FindString(dial().word("dirs")) }
		before := size()
		if err := os.WriteFile(filepath.Join(dir, "more"), make([]byte, 12345), 0o600); err != nil {
			t.Fatal(err)
		}
		if now := size(); now != before {
			t.Errorf("%s, then %s at once; want the remembered answer", before, now)
		}
		time.Sleep(footprintInterval)
		if now := size(); now == before {
			t.Errorf("%s, unchanged after %v; want a new answer", now, footprintInterval)
		}
		for _, word := range []string{"conf", "mntr"} {
			if dial().word(word) == "" {
				t.Errorf("%s: no answer", word)
			}
		}
	})
}
