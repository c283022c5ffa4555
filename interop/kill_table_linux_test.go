package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/interop/peers"
)

var (
	killsPerRow = flag.Int("kills", 0, "how many holders TestKillTable kills for each row of its table; 0: two, on some servers")
	killsBeside = flag.Int("kills-beside", 3, "how many holders TestKillTable kills for each row that waits for a timeout, with -kills")
	killsDoc    = flag.String("kills-doc", "", "TestKillTable writes its tables into this file, docs/explanation/comparison.md")
)

// A killRow is a row of the table: a chain of holders of one lock. Each is killed while the next one waits.
type killRow struct {
	server, holder string
	kills          int
	signals        []string
	start          func(i int) *exec.Cmd           // the i-th holder
	queued         func(ctx context.Context) error // returns when the next holder waits; nil: it says so
	settle         time.Duration                   // more time for the next holder to wait
	shape          func(i int) string              // of the i-th holder's job; nil: none
	goal           *killGoal                       // nil: it waits for a timeout
	alone          bool                            // the holder has no job: the killed process itself must be dead
	never          string                          // what the table says if nobody gets the lock
	patience       time.Duration                   // when nobody does

	oom     *oomCage
	log     *os.File
	results []killResult
}

type killResult struct {
	signal, shape string
	took          time.Duration
	overlap       string // "": none
}

// A killGoal bounds the time from a kill to the first instruction of the next holder.
type killGoal struct{ p50, p99, most time.Duration }

var (
	goalHere     = &killGoal{30 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond}
	goalEnsemble = &killGoal{50 * time.Millisecond, 200 * time.Millisecond, time.Second}
)

// A killHolder is a process that holds the lock or waits for it.
type killHolder struct {
	process *peers.Process
	lines   chan string
	shape   string
}

// TestKillTable kills holders of locks and measures the time from the kill until the next holder's first instruction, on
// every kind of server, and beside other locks. Without -kills it only looks for overlaps, in a small part of the table.
func TestKillTable(t *testing.T) {
	table := &killTable{t: t, dir: t.TempDir(), began: time.Now(), load: strings.Fields(fileText("/proc/loadavg") + " unknown")[0]}
	must(t, os.Chmod(table.dir, 0o755)) // for jobs that change their user
	table.build()
	table.rows = table.ourRows()
	if *killsPerRow == 0 {
		t.Log("without -kills: a part of the table")
		table.rows = slices.DeleteFunc(table.rows, func(r *killRow) bool { return r.server != "file://" && r.server != "serve, TCP" })
	} else {
		table.rows = append(table.rows, table.otherRows()...)
	}
	for _, r := range table.rows {
		t.Run(r.server+" "+r.holder, func(t *testing.T) {
			if r.goal == nil {
				t.Parallel() // they wait for timeouts
			}
			table.run(t, r)
			measured(t, "%s", r.figures())
		})
	}
	// The parallel rows end after this function.
	t.Cleanup(func() {
		if *killsDoc != "" && !t.Failed() {
			must(t, table.write(*killsDoc))
		}
	})
}

// run kills the holders of a row.
func (k *killTable) run(t *testing.T, r *killRow) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.kills+1)*stepTime)
	defer cancel()
	var err error
	r.log, err = os.CreateTemp(k.dir, "stderr-")
	must(t, err)
	defer r.log.Close()
	defer func() {
		killWitnesses(r.name())
		if t.Failed() {
			text, _ := os.ReadFile(r.log.Name())
			t.Logf("%s", text[max(0, len(text)-4000):])
		}
	}()
	holder := r.begin(t, 0)
	holder.expect(ctx, t, "began ")
	holder.expect(ctx, t, "ready")
	for i := range r.kills {
		next := r.begin(t, i+1)
		if r.queued != nil {
			must(t, r.queued(ctx))
		} else {
			next.expect(ctx, t, "waits")
		}
		pause(ctx, r.settle)
		signal := r.signals[i%len(r.signals)]
		at := r.kill(ctx, t, holder, signal)
		waiting, stop := context.WithTimeout(ctx, max(r.patience, 55*time.Second))
		line, err := next.line(waiting, "began ")
		stop()
		if err != nil && r.never != "" {
			return
		}
		must(t, err)
		result := killResult{signal: signal, shape: holder.shape}
		var began int64
		var alive, open int
		_, err = fmt.Sscanf(line, "began %d %d %d", &began, &alive, &open)
		must(t, err)
		result.took = time.Duration(began) - at
		if alive+open > 0 {
			result.overlap = line
		}
		if r.alone && state(holder.process.Pid()) != 'Z' {
			result.overlap = "the killed process lives"
		}
		if result.overlap != "" && r.goal != nil {
			t.Errorf("kill %d, %s of %q: overlap: %s", i, signal, holder.shape, result.overlap)
		}
		if r.goal != nil && result.took > handoffMost {
			t.Errorf("kill %d, %s of %q: the next holder began after %v; want at most %v", i, signal, holder.shape, result.took, handoffMost)
		}
		r.results = append(r.results, result)
		next.expect(ctx, t, "ready")
		holder = next
	}
}

// name is the name of the row's lock.
func (r *killRow) name() string {
	return "kills/" + strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			return c
		}
		return '-'
	}, r.server+"-"+r.holder)
}

func (r *killRow) begin(t *testing.T, i int) *killHolder {
	t.Helper()
	cmd := r.start(i)
	out, w, err := os.Pipe()
	must(t, err)
	cmd.Stdout, cmd.Stderr = w, r.log
	h := &killHolder{lines: make(chan string, 16)}
	if r.shape != nil {
		h.shape = r.shape(i)
	}
	h.process, err = peers.Start(cmd)
	w.Close()
	if err != nil {
		out.Close()
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, h.process.Kill()) })
	go func() {
		defer out.Close()
		for s := bufio.NewScanner(out); s.Scan(); {
			line := s.Text()
			if strings.HasPrefix(line, "held ") { // the lock is held, and there is no job
				h.lines <- fmt.Sprintf("began %d 0 0", bootTime())
				line = "ready"
			}
			select {
			case h.lines <- line:
			default: // the job goes on to print
			}
		}
	}()
	return h
}

// line returns the first line that begins with the prefix.
func (h *killHolder) line(ctx context.Context, prefix string) (string, error) {
	for {
		select {
		case line := <-h.lines:
			if strings.HasPrefix(line, prefix) {
				return line, nil
			}
		case <-ctx.Done():
			return "", fmt.Errorf("process %d (%s) does not print %q: %w", h.process.Pid(), h.shape, prefix, context.Cause(ctx))
		}
	}
}

func (h *killHolder) expect(ctx context.Context, t *testing.T, prefix string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	_, err := h.line(ctx, prefix)
	must(t, err)
}

// kill kills the holder, and returns the time since the boot before that.
func (r *killRow) kill(ctx context.Context, t *testing.T, h *killHolder, signal string) time.Duration {
	t.Helper()
	if signal == "OOM" {
		at, err := r.oom.kill(ctx, h.process)
		must(t, err)
		return at
	}
	at := bootTime()
	must(t, unix.Kill(h.process.Pid(), unix.SignalNum("SIG"+signal)))
	return at
}

// killWitnesses kills all jobs of a lock.
func killWitnesses(name string) {
	for found := true; found; {
		found = false
		for _, pid := range processes() {
			for _, e := range environOf(pid) {
				if strings.HasPrefix(e, "INTEROP_WITNESS="+name+":") && state(pid) != 'Z' {
					_ = unix.Kill(pid, unix.SIGKILL)
					found = true
				}
			}
		}
	}
}

// An oomCage is a cgroup with little memory.
type oomCage struct{ dir, witness string }

// newOOMCage makes a cgroup whose memory is limited. The error says why there is none.
func newOOMCage(t *testing.T, witness string) (*oomCage, error) {
	for _, c := range []struct{ root, limit string }{
		{"/sys/fs/cgroup", "memory.max"},
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, // version 1
	} {
		if _, err := os.Stat(filepath.Join(c.root, "cgroup.procs")); err != nil {
			continue
		}
		dir, err := os.MkdirTemp(c.root, "holdfast-kills-")
		if err != nil {
			return nil, err
		}
		cage := &oomCage{dir, witness}
		t.Cleanup(func() {
			for range 500 { // a dead process stays for a moment
				if os.Remove(dir) == nil {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
			t.Errorf("%s cannot be removed", dir)
		})
		_ = os.WriteFile(filepath.Join(dir, "memory.swappiness"), []byte("0"), 0)
		return cage, os.WriteFile(filepath.Join(dir, c.limit), []byte("8388608"), 0)
	}
	return nil, errors.New("no cgroup limits memory here")
}

// kill makes the kernel kill a process for want of memory. A program beside it in the cgroup uses up the memory. The
// time returned is that before the page that was too much.
func (c *oomCage) kill(ctx context.Context, p *peers.Process) (time.Duration, error) {
	procs := filepath.Join(c.dir, "cgroup.procs")
	err := os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", p.Pid()), []byte("1000"), 0)
	if err := errors.Join(err, os.WriteFile(procs, fmt.Append(nil, p.Pid()), 0)); err != nil {
		return 0, err
	}
	file, err := os.CreateTemp(filepath.Dir(c.witness), "eaten-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	eater, err := peers.Start(exec.Command("sh", "-c", `echo $$ > "$0" && exec "$1" eat "$2"`, procs, c.witness, file.Name()))
	if err != nil {
		return 0, err
	}
	defer eater.Kill()
	select {
	case <-p.Done():
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	if exit, ok := errors.AsType[*exec.ExitError](p.Err()); !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		return 0, fmt.Errorf("the process was not killed for want of memory: %v", p.Err())
	}
	b := make([]byte, 8)
	_, err = file.ReadAt(b, 0)
	var at int64
	for i := range b { // the machine's byte order is that of all machines with such a test
		at |= int64(b[i]) << (8 * i)
	}
	return time.Duration(at), err
}

// awaitKillQueue returns when the lock of the name, or the set of shards, is held and has a waiter.
func awaitKillQueue(ctx context.Context, bin, name string, env []string) error {
	for {
		cmd := exec.CommandContext(ctx, bin, "ls", "-o", "json", filepath.Dir(name))
		cmd.Env = env
		out, err := cmd.Output()
		var list struct {
			Items []struct {
				Name    string
				Holder  json.RawMessage
				Waiters []json.RawMessage
			}
		}
		if err == nil {
			err = json.Unmarshal(out, &list)
		}
		for _, l := range list.Items {
			if (l.Name == name || l.Name == name+"/workers") && len(l.Waiters) == 1 && !bytes.Equal(l.Holder, []byte("null")) {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("nobody waits for %s: %w (%v)\n%s", name, context.Cause(ctx), err, out)
		case <-time.After(10 * time.Millisecond): // each is a separate process
		}
	}
}
