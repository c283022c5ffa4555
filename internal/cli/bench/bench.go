// Package bench is the command bench: clients acquire and release locks, and guards check that the locks exclude.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"holdfast"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
	"holdfast/internal/duration"
	"holdfast/zk"
)

// flags are the flags of bench.
type flags struct {
	clients, locks int
	hold, duration time.Duration
	mode           string
}

const (
	modeMutex     = "mutex"
	modeRW        = "rw"
	modeSemaphore = "semaphore"

	// readsPerWrite is the share of readers with --mode rw.
	readsPerWrite = 9
	maxClients    = 2000
)

// New returns the command.
func New(g *conn.Flags) *cobra.Command {
	var f flags
	var format term.Format
	cmd := &cobra.Command{
		Use:   "bench [flags]",
		Short: "Measure locks on the server, and check that they exclude each other",
		Long: `bench runs clients that acquire and release locks, and reports how many cycles they complete in a
second, and percentiles of two times. WAIT is from the call of Lock to its return. HANDOFF is from the
beginning of a release to the moment when a client that waited for it holds the lock.

Each lock guards a counter in this process. An exclusive holder reads the counter, keeps the lock for --hold,
and writes the counter plus one, with its fencing token. Readers and holders of a permit write nothing. bench
counts

  violations    two clients held a lock that excludes the other, and neither was told of a loss; or more
                clients than permits held a permit; or a token did not grow; or a client wrote with a stale
                token and was not told of a loss
  lost updates  writes that another holder has overwritten
  refused       writes with a stale token, of clients that were told of the loss
  lost          locks that were lost while they were held, as after a long pause of the machine
  errors        failed calls

With --mode rw, nine of ten cycles are readers. With --mode semaphore, half of the clients hold a
permit at a time.

Each client has a session of its own. The nodes are in the directory of the locks, below
holdfast-bench-NUMBER. bench removes them at the end, also after ctrl-C, which ends the measurement and
prints the result. A second ctrl-C ends bench at once; the server then removes the nodes some time after the
sessions have timed out.

Exit codes:
  0   no violation and no lost update
  1   a violation or a lost update
  2   wrong command line
  69  no server answered, or no cycle was completed, or nodes are left
  77  no permission
  78  wrong configuration
  128+N  signal N came before the first cycle`,
		Example: `  holdfast bench
  holdfast bench --clients 50 --locks 10 --hold 5ms --duration 1m
  holdfast bench --server zk://zk1,zk2,zk3 --mode rw -o json`,
		Args: term.Operands(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return onGround(cmd.Context(), g, func(ctx context.Context, at *ground) error { return f.measure(ctx, at, cmd.OutOrStdout(), format) })
		},
	}
	cmd.Flags().IntVar(&f.clients, "clients", 8, "clients, each with a session of its own")
	cmd.Flags().IntVar(&f.locks, "locks", 1, "locks; each cycle chooses one at random")
	term.DurationVar(cmd.Flags(), &f.hold, "hold", "", 0, "how long a client holds the lock in each cycle")
	term.DurationVar(cmd.Flags(), &f.duration, "duration", "", 10*time.Second, "length of the measurement")
	cmd.Flags().StringVar(&f.mode, "mode", modeMutex, "kind of lock: mutex, rw or semaphore")
	format.Register(cmd)
	return cmd
}

// measure runs the clients on the ground and prints the result.
func (f *flags) measure(ctx context.Context, at *ground, w io.Writer, format term.Format) error {
	b := newBenchmark(*f, at)
	clients, err := at.dial(ctx, f.clients)
	if err != nil {
		return err
	}
	b.run(ctx, clients)
	closeAll(clients)
	err = b.report(w, format)
	if err == nil && b.cycles == 0 { // a signal came first
		return interrupted(ctx, nil)
	}
	return err
}

func (f *flags) check() error {
	switch {
	case f.clients < 1 || f.clients > maxClients:
		return term.Usage("", "--clients %d is out of range: want 1 to %d", f.clients, maxClients)
	case f.locks < 1 || f.locks > 100_000:
		return term.Usage("", "--locks %d is out of range: want 1 to 100000", f.locks)
	case f.duration < 100*time.Millisecond || f.duration > 24*time.Hour:
		return term.Usage("give a time such as 10s", "--duration %v is out of range: want 100ms to 1d", f.duration)
	case f.hold < 0 || f.hold >= f.duration:
		return term.Usage("", "--hold %v: want 0 or more, and less than --duration %v", f.hold, f.duration)
	case !slices.Contains([]string{modeMutex, modeRW, modeSemaphore}, f.mode):
		return term.Usage("", "--mode %q: want mutex, rw or semaphore", term.Cut(f.mode, 40))
	}
	return nil
}

// limit returns the permits of the semaphore.
func (f *flags) limit() int { return (f.clients + 1) / 2 }

// A benchmark is one run of bench. It is safe for concurrent use.
type benchmark struct {
	flags
	at     *ground
	guards []*guard

	mu            sync.Mutex // guards the fields below
	began         time.Time
	took          time.Duration
	interrupted   bool // a signal came before the duration had passed
	wait, handoff histogram
	cycles, lost  int64
	errors        int64
	first         error // of the errors
}

func newBenchmark(f flags, at *ground) *benchmark {
	b := &benchmark{flags: f, at: at, wait: newHistogram(), handoff: newHistogram()}
	for range f.locks {
		gd := &guard{limit: 1, ordered: true}
		if f.mode == modeSemaphore {
			gd.limit, gd.ordered = f.limit(), false
		}
		b.guards = append(b.guards, gd)
	}
	return b
}

// run lets all clients work until signalled or the duration ends.
func (b *benchmark) run(signalled context.Context, clients []*zk.Client) {
	ctx, cancel := context.WithTimeout(signalled, b.duration)
	defer cancel()
	b.began = time.Now()
	stop := b.progress(ctx)
	var group sync.WaitGroup
	for _, c := range clients {
		group.Go(func() { b.work(ctx, c) })
	}
	<-ctx.Done()
	b.mu.Lock()
	b.took, b.interrupted = time.Since(b.began), signalled.Err() != nil
	b.mu.Unlock()
	group.Wait()
	stop()
}

// work is the loop of one client.
func (b *benchmark) work(ctx context.Context, c *zk.Client) {
	for ctx.Err() == nil {
		n := rand.IntN(b.locks)
		path := fmt.Sprintf("%s/lock-%d", b.at.path, n)
		var l holdfast.Locker
		exclusive := true
		switch b.mode {
		case modeMutex:
			l = holdfast.NewMutex(c, path)
		case modeSemaphore:
			l = holdfast.NewSemaphore(c, path, b.limit()).Locker(1)
		default:
			l = holdfast.NewRWMutex(c, path)
			if exclusive = rand.IntN(readsPerWrite+1) == 0; !exclusive {
				l = holdfast.NewRWMutex(c, path).RLocker()
			}
		}
		began := time.Now()
		hold, err := l.Lock(ctx)
		if err != nil {
			if ctx.Err() == nil {
				b.failed(err)
				sleep(ctx, 50*time.Millisecond)
			}
			continue
		}
		b.held(ctx, b.guards[n], hold, exclusive, began)
	}
}

// held is one tenure of a client that began to wait at the given time.
func (b *benchmark) held(ctx context.Context, gd *guard, hold *holdfast.Hold, exclusive bool, began time.Time) {
	v, released := gd.enter(hold, hold.Token(), exclusive)
	entered := time.Now()
	if b.hold > 0 {
		timer := time.NewTimer(b.hold)
		select {
		case <-timer.C:
		case <-hold.Lost():
		case <-ctx.Done():
		}
		timer.Stop()
	}
	gd.leave(v, time.Now())
	err := hold.Unlock()
	if err != nil && !errors.Is(err, holdfast.ErrLost) {
		b.failed(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if errors.Is(err, holdfast.ErrLost) {
		b.lost++
	}
	if ctx.Err() != nil {
		return // the end of the measurement has cut it off
	}
	b.cycles++
	b.wait.add(entered.Sub(began))
	if released.After(began) {
		b.handoff.add(entered.Sub(released))
	}
}

func (b *benchmark) failed(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.errors++
	if b.first == nil {
		b.first = err
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// progress prints the state of the measurement on a terminal, each second. stop clears the line.
func (b *benchmark) progress(ctx context.Context) (stop func()) {
	if !term.IsTerminal(os.Stderr) {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				fmt.Fprint(os.Stderr, "\r\x1b[K")
				return
			case <-tick.C:
			}
			b.mu.Lock()
			elapsed := time.Since(b.began)
			line := fmt.Sprintf("%s of %s: %d cycles, %.0f/s, wait p99 %s, %s", duration.Text(elapsed.Round(time.Second)), duration.Text(b.duration),
				b.cycles, float64(b.cycles)/elapsed.Seconds(), duration.Measured(b.wait.percentile(99)), term.Count(int(b.errors), "error"))
			b.mu.Unlock()
			fmt.Fprint(os.Stderr, "\r\x1b[K"+line)
		}
	}()
	return func() { <-done }
}

// Document is the result in JSON.
type Document struct {
	APIVersion   string      `json:"apiVersion"`
	Kind         string      `json:"kind"`
	Server       string      `json:"server"`
	Mode         string      `json:"mode"`
	Clients      int         `json:"clients"`
	Locks        int         `json:"locks"`
	HoldMS       int64       `json:"hold_ms"`
	TookMS       int64       `json:"took_ms"`
	Cycles       int64       `json:"cycles"`
	PerSecond    float64     `json:"cycles_per_second"`
	Wait         Percentiles `json:"wait"`
	Handoff      Percentiles `json:"handoff"`
	Violations   int         `json:"violations"`
	LostUpdates  int         `json:"lost_updates"`
	Refused      int         `json:"refused"`
	Lost         int64       `json:"lost"`
	Errors       int64       `json:"errors"`
	FirstError   string      `json:"first_error,omitempty"`
	Interrupted  bool        `json:"interrupted"` // before --duration had passed
	MeasuredFrom time.Time   `json:"measured_from"`
}

func (b *benchmark) document() Document {
	b.mu.Lock()
	defer b.mu.Unlock()
	d := Document{
		APIVersion: term.APIVersion, Kind: "Benchmark", Server: b.at.server, Mode: b.mode, Clients: b.clients, Locks: b.locks,
		HoldMS: b.hold.Milliseconds(), TookMS: b.took.Milliseconds(), Cycles: b.cycles,
		PerSecond: float64(int(10*float64(b.cycles)/b.took.Seconds())) / 10,
		Wait:      b.wait.document(), Handoff: b.handoff.document(), Lost: b.lost, Errors: b.errors,
		Interrupted: b.interrupted, MeasuredFrom: b.began.UTC().Truncate(time.Millisecond),
	}
	if b.first != nil {
		d.FirstError = term.Cut(b.first.Error(), 250)
	}
	for _, gd := range b.guards {
		violations, lost, refused := gd.result()
		d.Violations += violations
		d.LostUpdates += lost
		d.Refused += refused
	}
	return d
}

// report prints the result and returns the exit code.
func (b *benchmark) report(w io.Writer, format term.Format) error {
	d := b.document()
	var err error
	if format == "json" {
		err = term.JSON(w, d)
	} else {
		err = d.print(w)
	}
	switch {
	case err != nil:
		return err
	case d.Violations+d.LostUpdates > 0:
		return term.ExitCode(term.ExitNo)
	case d.Cycles == 0 && b.first != nil:
		return fmt.Errorf("bench: no cycle was completed: %w", b.first)
	case d.Cycles == 0 && !d.Interrupted:
		return &term.Fault{Code: term.ExitUnavailable, Err: errors.New("bench: no cycle was completed"), Hint: "give a longer --duration"}
	}
	return nil
}

func (d Document) print(w io.Writer) error {
	ended := ""
	if d.Interrupted {
		ended = ", interrupted"
	}
	if _, err := fmt.Fprintf(w, "%s: %s, %s, %s, hold %s, for %s%s\n\n", d.Mode, term.Escape(d.Server), term.Count(d.Clients, "client"), term.Count(d.Locks, "lock"),
		duration.Text(time.Duration(d.HoldMS)*time.Millisecond), duration.Text(time.Duration(d.TookMS)*time.Millisecond), ended); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "%d cycles, %.1f per second\n\n", d.Cycles, d.PerSecond); err != nil {
		return err
	}
	rows := [][]string{{"", "P50", "P90", "P99", "P99.9", "MAX", "SAMPLES"}, d.Wait.row("WAIT"), d.Handoff.row("HANDOFF")}
	rows[0][0] = "TIME"
	if err := term.Table(w, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%d violations, %d lost updates, %d refused, %d lost, %d errors\n", d.Violations, d.LostUpdates, d.Refused, d.Lost, d.Errors)
	if err == nil && d.FirstError != "" {
		_, err = fmt.Fprintf(w, "first error: %s\n", term.Escape(d.FirstError))
	}
	return err
}
