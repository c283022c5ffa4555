package interop

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdfast"
	"holdfast/interop/peers"
	"holdfast/zk"
)

var uiTabs = flag.Int("ui-tabs", loadTabs, "open tabs of -ui-load; 0 shows what following the locks costs without them")
var uiLoad = flag.Duration("ui-load", 0, "how long each part of the load on the page takes, such as 30s; 0 leaves the test out")

const (
	loadLocks   = 10_000
	loadWaiters = 10 // per lock
	loadTabs    = 50
	loadChanges = 500 // per second
	loadGroups  = 100 // of locks; each has a session per place
	loadRounds  = 6   // even, so that each order of a pair is measured as often
	loadSpace   = "/holdfast/locks/load/"
)

// The page and an ensemble under load: 10,000 locks with 100,000 waiters, 500 changes a second and 50 tabs. It measures
// the memory and the processor time of holdfast ui, how long a page takes, and what the page costs the servers. The servers
// have a processor of their own, so they do not wait for the page and the clients.
func TestUIUnderLoad(t *testing.T) {
	if *uiLoad == 0 {
		t.Skip("takes minutes: -ui-load=30s")
	}
	ctx, cancel := context.WithTimeout(t.Context(), peerStart)
	defer cancel()
	// Without snapshots: one of 110,000 nodes would be a tenth of the work of a part.
	z, err := peers.StartZooKeeper(ctx, t.TempDir(), peers.ZooKeeperConfig{Servers: 3, TickTime: 2 * time.Second, Settings: []string{"maxClientCnxns=0", "snapCount=10000000"}})
	closing(t, z, err)
	var before, servers, others unix.CPUSet
	servers.Set(0)
	others.Set(1)
	for i := range 3 {
		pin(t, z.Pid(i), &servers)
	}
	must(t, unix.SchedGetaffinity(os.Getpid(), &before))
	defer pin(t, os.Getpid(), &before)
	pin(t, os.Getpid(), &others)
	w := &loadWorld{t: t, z: z}
	w.populate()

	withPage := func() (load, own float64) {
		p := w.openPage()
		tabs := p.open(*uiTabs)
		load, own = w.measure(p.pid)
		now, peak := memory(t, p.pid)
		measured(t, "holdfast ui: %.2f processors, %.0f MiB (at most %.0f); pages %s; reading all locks took %v", own, now, peak, percentiles(tabs.close()), p.read.Round(10*time.Millisecond))
		p.close()
		if text, _ := os.ReadFile(p.log); len(text) > 0 {
			t.Logf("the page says:\n%s", text)
		}
		return load, own
	}
	withoutPage := func() float64 {
		w.openPage().close() // so that the servers have answered the same reading of all locks just before
		load, _ := w.measure(0)
		return load
	}
	withoutPage() // not counted: the servers' code is still being compiled
	var without, with, own, percent []float64
	for round := range loadRounds {
		var before, load, used float64
		if round%2 == 0 {
			before = withoutPage()
			load, used = withPage()
		} else {
			load, used = withPage()
			before = withoutPage()
		}
		without, with, own, percent = append(without, before), append(with, load), append(own, used), append(percent, 100*(load/before-1))
	}
	slices.Sort(percent)
	measured(t, "the three servers: %.3f processors without the page, %.3f with it; median of the pairs %+.1f %%, from %+.1f to %+.1f %%; the page used %.2f", without, with,
		(percent[loadRounds/2-1]+percent[loadRounds/2])/2, percent[0], percent[loadRounds-1], own)
}

// pin lets a process, and what it starts later, run on some processors only.
func pin(t *testing.T, pid int, processors *unix.CPUSet) {
	t.Helper()
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	must(t, err)
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		must(t, err)
		if err := unix.SchedSetaffinity(id, processors); err != nil && !errors.Is(err, unix.ESRCH) { // ESRCH: it has ended
			t.Fatal(err)
		}
	}
}

// A loadWorld is the locks, and those who use them.
type loadWorld struct {
	t    *testing.T
	z    *peers.ZooKeeper
	held [loadLocks]chan loadHold // of capacity 1
	done atomic.Int64             // changes
}

// A loadHold is a Hold that change ends.
type loadHold struct {
	*holdfast.Hold
	over chan struct{} // closed after Unlock
}

func loadName(lock int) string { return fmt.Sprintf("%s%05d", loadSpace, lock) }

// populate starts the holder and the waiters of each lock. Each of them joins the queue again after its turn.
func (w *loadWorld) populate() {
	began := time.Now()
	ctx, cancel := context.WithCancel(w.t.Context())
	var group sync.WaitGroup
	w.t.Cleanup(group.Wait)
	var clients [loadGroups][loadWaiters + 1]*zk.Client
	for g := range clients {
		for place := range clients[g] {
			clients[g][place] = dialURL(w.t, w.z.URL(), func(cfg *zk.Config) { cfg.SessionTimeout, cfg.TickTime = 40*time.Second, 2*time.Second })
		}
	}
	w.t.Cleanup(cancel)
	for lock := range w.held {
		w.held[lock] = make(chan loadHold, 1)
		for place, c := range clients[lock%loadGroups] {
			m := holdfast.NewMutex(c, loadName(lock), holdfast.WithReason("a part of the batch"), holdfast.WithOwner(fmt.Sprintf("worker@node%d:%d", lock%97, place)))
			group.Go(func() {
				for ctx.Err() == nil {
					h, err := m.Lock(ctx)
					if err != nil {
						if ctx.Err() == nil {
							w.t.Error(err)
						}
						return
					}
					held := loadHold{h, make(chan struct{})}
					select {
					case w.held[lock] <- held:
					case <-ctx.Done():
						return
					}
					select {
					case <-held.over:
					case <-h.Lost():
						w.t.Error(h.Err())
						return
					case <-ctx.Done():
						return
					}
				}
			})
		}
		// A hundred locks at a time. With all requests at once, answers to heartbeats would come too late.
		for complete := lock%100 != 99; !complete && !w.t.Failed(); {
			stat, exists, err := clients[0][0].Exists(w.t.Context(), loadName(lock))
			must(w.t, err)
			complete = exists && stat.NumChildren == loadWaiters+1
		}
	}
	if w.t.Failed() {
		w.t.FailNow()
	}
	w.t.Logf("%d locks and %d waiters of %d sessions are there after %v", loadLocks, loadLocks*loadWaiters, loadGroups*(loadWaiters+1), time.Since(began).Round(time.Second))
}

// change lets locks change until ctx ends: a holder leaves, the next in the queue has the lock, and the former holder
// joins again. The changes are evenly spread. Servers need less time for changes that come together, and how many come
// together would depend on what else the clients' processor does.
func (w *loadWorld) change(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	tick := time.NewTicker(2 * time.Second / loadChanges)
	defer tick.Stop()
	for ctx.Err() == nil {
		<-tick.C
		group.Go(func() {
			var h loadHold
			select {
			case h = <-w.held[rand.N(loadLocks)]:
			case <-ctx.Done():
				return
			}
			if err := h.Unlock(); err != nil {
				w.t.Error(err)
				return
			}
			close(h.over)
			w.done.Add(2)
		})
	}
}

// measure returns the processors that the servers and a process used while locks changed. Those of the servers are for
// loadChanges: on the processor of the clients, the page can delay some of the changes.
func (w *loadWorld) measure(pid int) (servers, process float64) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.change(ctx)
	}()
	time.Sleep(5 * time.Second) // to get going
	used := func() (sum, own time.Duration) {
		for i := range 3 {
			sum += processorTime(w.t, w.z.Pid(i))
		}
		if pid != 0 {
			own = processorTime(w.t, pid)
		}
		return sum, own
	}
	packets := func() (received, sent int64) {
		for i := range 3 {
			r, s, err := w.z.Packets(w.t.Context(), i)
			must(w.t, err)
			received, sent = received+r, sent+s
		}
		return received, sent
	}
	began, n := time.Now(), w.done.Load()
	sum, own := used()
	received, sent := packets()
	time.Sleep(*uiLoad)
	sum2, own2 := used()
	received2, sent2 := packets()
	took := time.Since(began)
	changes := float64(w.done.Load()-n) / took.Seconds()
	cancel()
	<-done
	measured(w.t, "page %t: %.0f changes a second; the servers received %.0f and sent %.0f packets a second, on %.3f processors", pid != 0, changes,
		float64(received2-received)/took.Seconds(), float64(sent2-sent)/took.Seconds(), (sum2-sum).Seconds()/took.Seconds())
	return (sum2 - sum).Seconds() / took.Seconds() * loadChanges / changes, (own2 - own).Seconds() / took.Seconds()
}

// processorTime returns the processor time that a process has used.
func processorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must(t, err)
	rest := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	var ticks int64
	for _, field := range rest[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		must(t, err)
		ticks += n
	}
	return time.Duration(ticks) * (time.Second / 100)
}

// memory returns the resident memory of a process in MiB, now and at its most.
func memory(t *testing.T, pid int) (now, peak float64) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	for _, f := range []struct {
		name string
		to   *float64
	}{{"VmRSS:", &now}, {"VmHWM:", &peak}} {
		_, after, _ := strings.Cut(string(text), f.name)
		kib, err := strconv.Atoi(strings.Fields(after)[0])
		must(t, err)
		*f.to = float64(kib) / 1024
	}
	return now, peak
}

// A loadPage is a process of holdfast ui.
type loadPage struct {
	t       *testing.T
	cmd     *exec.Cmd
	pid     int
	base    string
	browser *http.Client
	read    time.Duration // from the start until all locks were shown
	log     string        // file of stderr
}

func (w *loadWorld) openPage() *loadPage {
	t := w.t
	p := &loadPage{t: t, cmd: exec.Command(holdfastBin(t), "ui", "--server", w.z.URL(), "--listen", "127.0.0.1:0")}
	p.cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	log, err := os.Create(filepath.Join(t.TempDir(), "ui.log"))
	must(t, err)
	p.cmd.Stderr, p.log = log, log.Name()
	out, err := p.cmd.StdoutPipe()
	must(t, err)
	began := time.Now()
	must(t, p.cmd.Start())
	t.Cleanup(p.close)
	p.pid = p.cmd.Process.Pid
	lines := bufio.NewReader(out)
	line := ""
	for !strings.Contains(line, "?t=") {
		if line, err = lines.ReadString('\n'); err != nil {
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("no address: %v\n%s", err, text)
		}
	}
	go io.Copy(io.Discard, lines)
	url := regexp.MustCompile(`http://\S+`).FindString(line)
	p.base = url[:strings.LastIndexByte(url, '/')]
	jar, err := cookiejar.New(nil)
	must(t, err)
	p.browser = &http.Client{Jar: jar, Transport: &http.Transport{MaxIdleConnsPerHost: 2 * loadTabs}, Timeout: time.Minute}
	p.get(url)
	for !strings.Contains(p.get(p.base+"/"), fmt.Sprintf("of %d locks", loadLocks)) {
		if time.Since(began) > 5*time.Minute {
			t.Fatal(p.get(p.base + "/"))
		}
		time.Sleep(50 * time.Millisecond)
	}
	p.read = time.Since(began)
	return p
}

func (p *loadPage) close() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Signal(unix.SIGTERM)
		_ = p.cmd.Wait()
	}
}

func (p *loadPage) get(url string) string {
	resp, err := p.browser.Get(url)
	must(p.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(p.t, err)
	if resp.StatusCode != http.StatusOK {
		p.t.Fatalf("%s: %s\n%s", url, resp.Status, text)
	}
	return string(text)
}

// loadedTabs are open tabs. Each reads its page again after each mark.
type loadedTabs struct {
	cancel context.CancelFunc
	group  sync.WaitGroup
	mu     sync.Mutex // guards took
	took   []time.Duration
}

func (p *loadPage) open(n int) *loadedTabs {
	ctx, cancel := context.WithCancel(p.t.Context())
	tabs := &loadedTabs{cancel: cancel}
	stream := &http.Client{Jar: p.browser.Jar, Transport: p.browser.Transport} // without a timeout
	for i := range n {
		page := []string{"/", "/locks", "/lock?path=" + loadName(i), "/graph", "/locks?q=load/00", "/sessions"}[i%6]
		tabs.group.Go(func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+"/events", nil)
			must(p.t, err)
			resp, err := stream.Do(req)
			if err != nil {
				p.t.Error(err)
				return
			}
			defer resp.Body.Close()
			for lines := bufio.NewScanner(resp.Body); lines.Scan() && ctx.Err() == nil; {
				if lines.Text() != "event: change" {
					continue
				}
				began := time.Now()
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+page, nil)
				must(p.t, err)
				resp, err := p.browser.Do(req)
				if err != nil {
					if ctx.Err() == nil {
						p.t.Error(err)
					}
					return
				}
				_, err = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if err == nil {
					tabs.mu.Lock()
					tabs.took = append(tabs.took, time.Since(began))
					tabs.mu.Unlock()
				}
			}
		})
	}
	return tabs
}

// close returns how long the pages took.
func (tabs *loadedTabs) close() []time.Duration {
	tabs.cancel()
	tabs.group.Wait()
	return tabs.took
}
