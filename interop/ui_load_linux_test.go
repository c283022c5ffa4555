package interop

import (
	"bufio"
	"context"
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

	"holdfast/internal/queue"
	"holdfast/interop/peers"
	"holdfast/zk"
)

var uiTabs = flag.Int("ui-tabs", loadTabs, "open tabs of -ui-load; 0 shows what following the locks costs the servers, without a page that competes for the processors")
var uiLoad = flag.Duration("ui-load", 0, "how long each part of the load on the page takes, such as 30s; 0 leaves the test out")

const (
	loadLocks   = 10_000
	loadWaiters = 10 // per lock
	loadTabs    = 50
	loadChanges = 500 // per second
	loadGroups  = 100 // of locks; each has a session per place
	loadSpace   = "/holdfast/locks/load/"
)

// The page and an ensemble under load: 10,000 locks with 100,000 waiters, 500 changes a second and 50 tabs. It measures
// the memory and the processor time of holdfast ui, how long a page takes, and what the page costs the servers.
func TestUIUnderLoad(t *testing.T) {
	if *uiLoad == 0 {
		t.Skip("takes minutes: -ui-load=30s")
	}
	ctx, cancel := context.WithTimeout(t.Context(), peerStart)
	defer cancel()
	z, err := peers.StartZooKeeper(ctx, t.TempDir(), peers.ZooKeeperConfig{Servers: 3, TickTime: 2 * time.Second, Settings: []string{"maxClientCnxns=0"}})
	closing(t, z, err)
	w := &loadWorld{t: t, z: z}
	w.populate()

	var without, with, own []float64 // processors used
	var changed []float64
	p := w.openPage()
	for round := range 3 {
		if round > 0 {
			p = w.openPage()
		}
		tabs := p.open(*uiTabs)
		servers, ui, n := w.measure(p.pid)
		with, own, changed = append(with, servers), append(own, ui), append(changed, n)
		now, peak := memory(t, p.pid)
		measured(t, "holdfast ui: %.2f processors, %.0f MiB (at most %.0f); pages %s; reading all locks took %v", ui, now, peak, percentiles(tabs.close()), p.read.Round(10*time.Millisecond))
		p.close()
		if text, _ := os.ReadFile(p.log); len(text) > 0 {
			t.Logf("the page says:\n%s", text)
		}
		w.openPage().close() // so that the servers have answered the same reading of all locks just before
		servers, _, n = w.measure(0)
		without, changed = append(without, servers), append(changed, n)
	}
	slices.Sort(with)
	slices.Sort(without)
	measured(t, "the three servers: %.3f processors with the page, %.3f without (medians of %d): %+.1f %%; changes per second %.0f; the page used %.2f processors", with[1], without[1], len(with), 100*(with[1]/without[1]-1), changed, own)
}

// A loadWorld is the locks and their clients.
type loadWorld struct {
	t    *testing.T
	z    *peers.ZooKeeper
	rows [loadGroups][loadWaiters + 1]*zk.Client
	last [loadLocks]string // the node of the last waiter
	done atomic.Int64      // changes
}

func loadName(lock int) string { return fmt.Sprintf("%s%05d", loadSpace, lock) }

func (w *loadWorld) node(lock, place int) zk.Op {
	note, err := queue.Note{Owner: fmt.Sprintf("worker@node%d:%d", lock%97, place), Reason: "a part of the batch"}.Encode()
	must(w.t, err)
	return zk.CreateOp(loadName(lock)+fmt.Sprintf("/_c_6266cbe9-453b-4a50-8718-%012x-lock-", lock*100+place), note, zk.EphemeralSequential)
}

func (w *loadWorld) populate() {
	began := time.Now()
	var group sync.WaitGroup
	for g := range w.rows {
		for i := range w.rows[g] {
			w.rows[g][i] = dialURL(w.t, w.z.URL(), func(cfg *zk.Config) { cfg.SessionTimeout, cfg.TickTime = 40*time.Second, 2*time.Second })
		}
	}
	c := w.rows[0][0]
	for _, dir := range []string{"/holdfast", "/holdfast/locks", "/holdfast/locks/load"} {
		_, _, err := c.Create(w.t.Context(), dir, nil, zk.Persistent)
		must(w.t, err)
	}
	for g := range w.rows {
		group.Go(func() {
			for i, c := range w.rows[g] {
				var ops []zk.Op
				for lock := g; lock < loadLocks; lock += loadGroups {
					if i == 0 {
						ops = append(ops, zk.CreateOp(loadName(lock), nil, zk.Persistent))
					}
					ops = append(ops, w.node(lock, i))
				}
				results, err := c.Multi(w.t.Context(), ops...)
				if err != nil {
					w.t.Error(err)
					return
				}
				for j := range loadLocks / loadGroups {
					w.last[g+j*loadGroups] = results[len(results)/(loadLocks/loadGroups)*(j+1)-1].Path
				}
			}
		})
	}
	group.Wait()
	if w.t.Failed() {
		w.t.FailNow()
	}
	w.t.Logf("%d locks and %d waiters of %d sessions are there after %v", loadLocks, loadLocks*loadWaiters, loadGroups*(loadWaiters+1), time.Since(began).Round(time.Second))
}

// change lets locks change until ctx ends: the last waiter of a lock leaves, and joins again.
func (w *loadWorld) change(ctx context.Context) {
	var group sync.WaitGroup
	for part := range 20 {
		group.Go(func() {
			tick := time.NewTicker(20 * time.Second / loadChanges)
			defer tick.Stop()
			for ctx.Err() == nil {
				lock := rand.N(loadLocks/20)*20 + part // each has one goroutine
				c := w.rows[lock%loadGroups][loadWaiters]
				// Not with ctx: what is deleted and created has to be known.
				<-tick.C
				if err := c.Delete(w.t.Context(), w.last[lock], zk.AnyVersion); err != nil {
					w.t.Error(err)
					return
				}
				w.done.Add(1)
				<-tick.C
				results, err := c.Multi(w.t.Context(), w.node(lock, loadWaiters))
				if err != nil {
					w.t.Error(err)
					return
				}
				w.last[lock] = results[0].Path
				w.done.Add(1)
			}
		})
	}
	group.Wait()
}

// measure returns the processors that the servers and a process used while locks changed, and the changes per second.
func (w *loadWorld) measure(pid int) (servers, process, changes float64) {
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
	changes = float64(w.done.Load()-n) / took.Seconds()
	cancel()
	<-done
	measured(w.t, "page %t: %.0f changes a second; the servers received %.0f and sent %.0f packets a second, on %.3f processors", pid != 0, changes,
		float64(received2-received)/took.Seconds(), float64(sent2-sent)/took.Seconds(), (sum2-sum).Seconds()/took.Seconds())
	return (sum2 - sum).Seconds() / took.Seconds(), (own2 - own).Seconds() / took.Seconds(), changes
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
