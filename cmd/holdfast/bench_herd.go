package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"holdfast"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
	"holdfast/internal/duration"
	"holdfast/zk"
)

const (
	// herdSkip is the number of handoffs before those that are measured. The waiters of a new queue still
	// look around.
	herdSkip = 3
	// herdSilence is how long there is no traffic before a handoff counts as over.
	herdSilence    = 100 * time.Millisecond
	settlePatience = 10 * time.Second
	maxWaiters     = 1000
)

func newBenchHerd(g *conn.Flags) *cobra.Command {
	var waiters []int
	var handoffs int
	var format term.Format
	cmd := &cobra.Command{
		Use:   "herd [flags]",
		Short: "Compare a lock whose waiters all wake with holdfast's, on your server",
		Long: `herd compares two recipes for a lock. In the first one, called crowd, every waiter watches the directory of
the queue: each release wakes all of them, and each lists the queue. The second one, called holdfast, is
holdfast's Mutex: each release wakes two waiters at most.

For each number of waiters, herd lets that many clients wait behind a holder, and measures handoffs from
one holder to the next, one by one. It counts the requests and events of all clients from the release
until nothing is sent any more, and takes the time from the release to the moment when the next client
holds the lock. The figures are medians. Pings are not counted.

Each client has a session of its own. The first recipe makes a server send N lists of N names for each
handoff, so begin with few waiters on a server that others use. herd removes its nodes at the end, also after
ctrl-C, which ends the comparison and prints the rows that are complete.

Exit codes:
  0   the comparison is complete, or ctrl-C ended it
  2   wrong command line
  69  no server answered, or refused more sessions, or nodes are left
  77  no permission
  78  wrong configuration`,
		Example: `  holdfast bench herd
  holdfast bench herd --server zk://zk1,zk2,zk3 --waiters 10,100,500`,
		Args: term.Operands(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case handoffs < 1 || handoffs > 100:
				return term.Usage("", "--handoffs %d is out of range: want 1 to 100", handoffs)
			case len(waiters) == 0 || slices.Min(waiters) < 1 || slices.Max(waiters) > maxWaiters:
				return term.Usage("give numbers such as 10,30,100", "--waiters %s: want numbers from 1 to %d", term.Cut(cmd.Flag("waiters").Value.String(), 100), maxWaiters)
			}
			return onGround(cmd.Context(), g, func(ctx context.Context, at *ground) error {
				rows, err := at.compare(ctx, waiters, handoffs)
				if err != nil && ctx.Err() == nil {
					return err
				}
				out := herdDocument{term.APIVersion, "HerdComparison", at.server, handoffs, rows, ctx.Err() != nil}
				if format == "json" {
					return term.JSON(cmd.OutOrStdout(), out)
				}
				return out.print(cmd.OutOrStdout())
			})
		},
	}
	cmd.Flags().IntSliceVar(&waiters, "waiters", []int{10, 30, 100}, "numbers of waiters to compare, each from 1 to 1000")
	cmd.Flags().IntVar(&handoffs, "handoffs", 5, "handoffs to measure for each row")
	format.Register(cmd)
	return cmd
}

type herdDocument struct {
	APIVersion  string    `json:"apiVersion"`
	Kind        string    `json:"kind"`
	Server      string    `json:"server"`
	Handoffs    int       `json:"handoffs"` // for each row
	Items       []herdRow `json:"items"`
	Interrupted bool      `json:"interrupted"`
}

// A herdRow has the medians of one recipe with one number of waiters.
type herdRow struct {
	Recipe   string `json:"recipe"` // crowd or holdfast
	Waiters  int    `json:"waiters"`
	Requests int64  `json:"requests"`
	Events   int64  `json:"events"`
	Bytes    int64  `json:"bytes"`
	TookUS   int64  `json:"handoff_us"`
}

const (
	recipeCrowd = "crowd"
	recipeOurs  = "holdfast"
)

// compare measures both recipes with each number of waiters.
func (at *ground) compare(ctx context.Context, waiters []int, handoffs int) ([]herdRow, error) {
	rows := []herdRow{}
	for i, n := range waiters {
		for _, recipe := range []string{recipeCrowd, recipeOurs} {
			if isTerminal(os.Stderr) {
				fmt.Fprintf(os.Stderr, "\r\x1b[K%s, %s (%d of %d)", recipe, term.Count(n, "waiter"), i+1, len(waiters))
			}
			h := &herd{at: at, path: fmt.Sprintf("%s/%s-%d-%d", at.path, recipe, n, i)}
			row, err := h.measure(ctx, recipe, n, handoffs)
			if isTerminal(os.Stderr) {
				fmt.Fprint(os.Stderr, "\r\x1b[K")
			}
			if err != nil {
				return rows, err
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// A herd is a queue of clients for one lock.
type herd struct {
	at      *ground
	path    string
	traffic traffic
	held    chan error            // the next client holds the lock, or has failed
	turn    chan chan<- time.Time // asks the holder to release it, and gets the time before that
}

// measure queues n waiters behind a holder and measures handoffs between them.
func (h *herd) measure(ctx context.Context, recipe string, n, handoffs int) (herdRow, error) {
	// In half of the measured handoffs, more than n wait, and in the others fewer.
	sessions := 1 + herdSkip + n + handoffs/2
	h.held, h.turn = make(chan error), make(chan chan<- time.Time)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	clients, err := h.at.dial(ctx, sessions, h.traffic.count)
	if err != nil {
		return herdRow{}, err
	}
	defer closeAll(clients)
	if _, _, err := h.at.connection.Client.Create(ctx, h.path, nil, zk.Container); err != nil {
		return herdRow{}, err
	}
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel() // before Wait
	enter := h.ours
	if recipe == recipeCrowd {
		enter = h.crowd
	}
	mine := make([]string, sessions)
	if recipe == recipeCrowd {
		// All make their nodes before the first of them looks. Otherwise each would wake all before it.
		for i, c := range clients {
			if mine[i], _, err = c.Create(ctx, h.path+"/"+bookName(i), nil, zk.EphemeralSequential); err != nil {
				return herdRow{}, err
			}
		}
	}
	for i, c := range clients {
		group.Go(func() { h.member(ctx, c, mine[i], enter) })
	}
	if err := h.next(ctx); err != nil {
		return herdRow{}, err
	}
	if err := h.queued(ctx, sessions); err != nil {
		return herdRow{}, err
	}
	var requests, events, bytes, took []int64
	for i := range herdSkip + handoffs {
		if err := h.traffic.settle(ctx); err != nil {
			return herdRow{}, err
		}
		before := h.traffic.now()
		began := make(chan time.Time, 1)
		select {
		case h.turn <- began:
		case <-ctx.Done():
			return herdRow{}, context.Cause(ctx)
		}
		if err := h.next(ctx); err != nil {
			return herdRow{}, err
		}
		acquired := time.Now()
		if err := h.traffic.settle(ctx); err != nil {
			return herdRow{}, err
		}
		if i < herdSkip {
			continue
		}
		after := h.traffic.now()
		requests = append(requests, after.requests-before.requests)
		events = append(events, after.events-before.events)
		bytes = append(bytes, after.bytes-before.bytes)
		took = append(took, acquired.Sub(<-began).Microseconds())
	}
	return herdRow{recipe, n, middle(requests), middle(events), middle(bytes), middle(took)}, nil
}

func middle(all []int64) int64 { return slices.Sorted(slices.Values(all))[len(all)/2] }

// bookName returns the name of a node in the first recipe. It is as long as that of a Mutex.
func bookName(i int) string { return fmt.Sprintf("_c_00000000-0000-4000-8000-%012d-lock-", i) }

// next waits until the next client holds the lock.
func (h *herd) next(ctx context.Context) error {
	select {
	case err := <-h.held:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// queued waits until the queue has this many nodes. A watch would send all names again and again.
func (h *herd) queued(ctx context.Context, want int) error {
	for {
		stat, _, err := h.at.connection.Client.Exists(ctx, h.path)
		if err != nil {
			return err
		}
		if int(stat.NumChildren) >= want {
			return nil
		}
		sleep(ctx, 10*time.Millisecond)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// member takes one turn.
func (h *herd) member(ctx context.Context, c *zk.Client, mine string, enter func(context.Context, *zk.Client, string) (func() error, error)) {
	release, err := enter(ctx, c, mine)
	if ctx.Err() != nil {
		return
	}
	select {
	case h.held <- err:
	case <-ctx.Done():
		return
	}
	select {
	case began := <-h.turn:
		began <- time.Now()
		_ = release() // the next one does not come, and its wait reports the server's fault
	case <-ctx.Done():
	}
}

// ours waits for a Mutex.
func (h *herd) ours(ctx context.Context, c *zk.Client, _ string) (func() error, error) {
	hold, err := holdfast.NewMutex(c, h.path).Lock(ctx)
	if err != nil {
		return nil, err
	}
	return hold.Unlock, nil
}

// crowd waits as in the recipe that wakes everybody: watch the directory, list it, compare.
func (h *herd) crowd(ctx context.Context, c *zk.Client, mine string) (func() error, error) {
	for {
		names, _, watch, err := c.ChildrenW(ctx, h.path)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(names, mine[strings.LastIndexByte(mine, '/')+1:]) {
			watch.Stop()
			return nil, fmt.Errorf("bench: somebody has removed the node %s", mine)
		}
		first := slices.MinFunc(names, func(a, b string) int { return numberOf(a) - numberOf(b) })
		if strings.HasSuffix(mine, "/"+first) {
			watch.Stop()
			return func() error { return c.Delete(context.WithoutCancel(ctx), mine, zk.AnyVersion) }, nil
		}
		select {
		case event := <-watch.C:
			err = event.Err
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		watch.Stop()
		if err != nil {
			return nil, err
		}
	}
}

// numberOf returns the sequence number of a name.
func numberOf(name string) int {
	n, _ := strconv.Atoi(name[max(0, len(name)-10):])
	return n
}

// print writes the table, and the plots of the requests with events and of the time.
func (d herdDocument) print(w io.Writer) error {
	rows := [][]string{{"WAITERS", "RECIPE", "REQUESTS", "EVENTS", "BYTES", "HANDOFF"}}
	for _, r := range d.Items {
		rows = append(rows, []string{
			strconv.Itoa(r.Waiters), r.Recipe, strconv.FormatInt(r.Requests, 10), strconv.FormatInt(r.Events, 10),
			strconv.FormatInt(r.Bytes, 10), duration.Measured(time.Duration(r.TookUS) * time.Microsecond),
		})
	}
	if len(d.Items) == 0 {
		_, err := fmt.Fprintln(w, "no row is complete")
		return err
	}
	var plots strings.Builder
	plot(&plots, "requests and events of one handoff", d.Items, func(r herdRow) (float64, string) {
		n := r.Requests + r.Events
		return float64(n), strconv.FormatInt(n, 10)
	})
	plot(&plots, "time of one handoff", d.Items, func(r herdRow) (float64, string) {
		return float64(r.TookUS), duration.Measured(time.Duration(r.TookUS) * time.Microsecond)
	})
	if d.Interrupted {
		plots.WriteString("\ninterrupted: the rows that are missing were not measured\n")
	}
	return errors.Join(term.Table(w, rows), writeString(w, plots.String()))
}

func writeString(w io.Writer, s string) error {
	_, err := io.WriteString(w, s)
	return err
}

// plot draws one bar for each row. A bar ten cells longer stands for ten times as much, so that both ends can
// be seen.
func plot(b *strings.Builder, title string, rows []herdRow, value func(herdRow) (float64, string)) {
	least := math.Inf(1)
	for _, r := range rows {
		if v, _ := value(r); v > 0 {
			least = min(least, v)
		}
	}
	fmt.Fprintf(b, "\n%s (each 10 cells are a factor of ten)\n", title)
	for _, r := range rows {
		v, text := value(r)
		cells := 0
		if v > 0 {
			cells = 1 + int(math.Round(10*math.Log10(v/least)))
		}
		fmt.Fprintf(b, "%5d  %-8s  %s %s\n", r.Waiters, r.Recipe, strings.Repeat("█", min(cells, 60)), text)
	}
}
