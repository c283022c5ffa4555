package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"holdfast/chaos"
	"holdfast/interop/peers"
	"holdfast/zk"
)

// The ensemble under chaos has a short tick, so that much happens in a minute. Sessions are
// about as short as that tick can prove. A follower without its leader serves for twelve ticks,
// which is longer than a session lasts.
const (
	chaosTick    = 300 * time.Millisecond
	chaosTimeout = 2500 * time.Millisecond
)

// chaosProcesses is how many processes take locks at a time.
const chaosProcesses = 3

// A chaosRun is an ensemble, the processes that use it, and the faults of both.
type chaosRun struct {
	t      *testing.T
	ctx    context.Context // context of the faults
	z      *peers.ZooKeeper
	dir    string
	shared string
	admin  *zk.Client // reaches the servers without a proxy
	seed   uint64
	began  time.Duration

	mu        sync.Mutex // guards the fields below
	processes []*chaosProcess
	ended     []*chaosProcess
	made      int // number of processes so far
	faults    []chaosFault
	breaks    []chaos.Op
	pauses    []chaosPause
	nodes     []deletedNode
	leaders   []time.Duration // when a leader was killed
	excused   int             // claims of processes that did not run
	met       map[string]int  // pauses between reading a store and writing it, by store
}

// A chaosProcess is a chaosClient seen from outside.
type chaosProcess struct {
	number  int
	dir     string
	proc    *peers.Process
	stdin   io.Closer
	proxies []*peers.Proxy // one per server
	killed  time.Duration  // when it was dead for certain; 0 if it was not killed
	frames  int            // frames lost by the cuts so far
}

// A deletedNode is the deletion of a NodeLock's node: the node belonged to whoever held the
// lock in between.
type deletedNode struct {
	path     string
	from, to time.Duration
}

// A chaosPause is a time in which a process did not run.
type chaosPause struct {
	process  int
	from, to time.Duration
}

// startProcess adds one more process.
func (c *chaosRun) startProcess() error {
	c.mu.Lock()
	c.made++
	p := &chaosProcess{number: c.made}
	c.mu.Unlock()
	p.dir = filepath.Join(c.dir, fmt.Sprint(p.number))
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		return err
	}
	client := chaosClient{
		Process: p.number, Timeout: chaosTimeout, Tick: chaosTick,
		Clients: 3, Workers: 12, Dir: p.dir, Shared: c.shared, Seed: c.seed + uint64(p.number),
	}
	for _, addr := range c.z.Addrs() {
		proxy, err := peers.NewProxy(addr)
		if err != nil {
			return err
		}
		p.proxies = append(p.proxies, proxy)
		client.Servers = append(client.Servers, proxy.Addr())
	}
	text, err := json.Marshal(&client)
	if err != nil {
		return err
	}
	config := filepath.Join(p.dir, "config")
	if err := os.WriteFile(config, text, 0o600); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(p.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), commandVar+"=chaos "+config)
	cmd.Stdout, cmd.Stderr = log, log
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	cmd.Stdin, p.stdin = r, w
	if p.proc, err = peers.Start(cmd); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.processes = append(c.processes, p)
	return nil
}

// remove takes a process off the list.
func (c *chaosRun) remove(p *chaosProcess) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.processes {
		if c.processes[i] == p {
			c.processes = append(c.processes[:i], c.processes[i+1:]...)
			break
		}
	}
	c.ended = append(c.ended, p)
}

func (p *chaosProcess) closeProxies() {
	for _, proxy := range p.proxies {
		proxy.Close()
	}
}

// links returns how many connections all processes have to server i.
func (c *chaosRun) links(i int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, p := range c.processes {
		n += len(p.proxies[i].Sessions())
	}
	return n
}

// took records that the claim that o names was broken, at some time since call.
func (c *chaosRun) took(call time.Duration, o chaos.Op) {
	o.Kind, o.Call, o.Return = chaos.Break, call, chaos.Never
	c.mu.Lock()
	defer c.mu.Unlock()
	c.breaks = append(c.breaks, o)
}

// deletedNode records that the holder of a NodeLock since call may have lost it.
func (c *chaosRun) deletedNode(path string, call time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes = append(c.nodes, deletedNode{path, call, monotonic()})
}

// stop ends all processes in an orderly way, which closes their sessions.
func (c *chaosRun) stop() {
	c.mu.Lock()
	all := append([]*chaosProcess{}, c.processes...)
	c.mu.Unlock()
	limit := time.After(stepTime)
	for _, p := range all {
		p.stdin.Close()
	}
	for _, p := range all {
		select {
		case <-p.proc.Done():
			if err := p.proc.Err(); err != nil {
				c.t.Errorf("process %d: %v\n%s", p.number, err, p.tail())
			}
		case <-limit:
			c.t.Errorf("process %d does not end\n%s", p.number, p.tail())
			p.proc.Kill()
		}
		p.closeProxies()
		c.remove(p)
	}
}

func (p *chaosProcess) tail() string {
	text, err := os.ReadFile(filepath.Join(p.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}

// history returns everything that all processes have recorded, and the faults done to them.
func (c *chaosRun) history() (ops []chaos.Op, events []chaosEvent, err error) {
	for _, p := range c.ended {
		mine, err := readHistory(filepath.Join(p.dir, "history"))
		if err != nil {
			return nil, nil, err
		}
		more, err := readEvents(filepath.Join(p.dir, "events"))
		if err != nil {
			return nil, nil, err
		}
		if p.killed == 0 && (len(more) == 0 || more[len(more)-1].What != chaosDone) {
			return nil, nil, fmt.Errorf("process %d ended before its time:\n%s", p.number, p.tail())
		}
		mine = endClaims(mine, p.killed)
		ops = append(ops, mine...)
		excused := c.excuse(p.number, mine, more)
		c.excused += len(excused)
		ops = append(ops, excused...)
		events = append(events, more...)
	}
	for _, d := range c.nodes {
		for _, o := range ops {
			if o.Lock == d.path && o.Token != 0 && o.Call <= d.to && o.Return <= d.to+50*time.Millisecond && (o.Kind == chaos.Acquire || o.Kind == chaos.Try) {
				c.took(max(d.from, o.Call), chaos.Op{Lock: d.path, Token: o.Token})
			}
		}
	}
	return append(ops, c.breaks...), events, nil
}

func readHistory(path string) ([]chaos.Op, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return chaos.Read(f)
}

func readEvents(path string) ([]chaosEvent, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []chaosEvent
	d := json.NewDecoder(f)
	for {
		var e chaosEvent
		err := d.Decode(&e)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // killed in the middle of a line
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
}

// endClaims adds what a killed process could not record: it held a claim until it was dead,
// unless it had begun to release it.
func endClaims(ops []chaos.Op, killed time.Duration) []chaos.Op {
	open, leaving := make(map[int]chaos.Op), make(map[int]time.Duration)
	var all []chaos.Op
	for _, o := range ops {
		switch o.Kind {
		case chaos.Acquire, chaos.Try:
			if o.Outcome == chaos.OK {
				open[o.Claim] = o
			}
		case chaos.Release, chaos.Lose:
			delete(open, o.Claim)
		case releasing:
			leaving[o.Claim] = o.Call
			continue
		}
		all = append(all, o)
	}
	if killed == 0 {
		return all
	}
	for _, o := range open {
		o.Kind, o.Call, o.Return = chaos.Lose, killed, chaos.Never
		if at, ok := leaving[o.Claim]; ok {
			o.Kind, o.Call = chaos.Release, at
		}
		all = append(all, o)
	}
	return all
}

// excuse ends the claims of a process at the moment when it stopped running for longer than the
// guard of its deadlines: nothing can tell the process in time then (assumption A3).
func (c *chaosRun) excuse(process int, ops []chaos.Op, events []chaosEvent) []chaos.Op {
	var pauses []chaosPause
	for _, p := range c.pauses {
		if p.process == process {
			pauses = append(pauses, p)
		}
	}
	guard := chaosTimeout / 10
	for _, e := range events {
		if e.What == chaosStalled && e.For > guard {
			pauses = append(pauses, chaosPause{process, e.At, e.At + e.For})
		}
	}
	ends := make(map[int]time.Duration)
	for _, o := range ops {
		if o.Kind == chaos.Release || o.Kind == chaos.Lose {
			if at, ok := ends[o.Claim]; !ok || o.Call < at {
				ends[o.Claim] = o.Call
			}
		}
	}
	var broken []chaos.Op
	const waking = time.Second // operations begun before the pause are over by then
	for _, o := range ops {
		if o.Kind != chaos.Acquire && o.Kind != chaos.Try || o.Outcome != chaos.OK {
			continue
		}
		end, ended := ends[o.Claim]
		for _, p := range pauses {
			if o.Call > p.to || ended && (end <= p.from || end > p.to+waking) || o.Return > p.to+waking {
				continue
			}
			broken = append(broken, chaos.Op{
				Kind: chaos.Break, Lock: o.Lock, Token: o.Token, Call: max(p.from, o.Call), Return: chaos.Never,
			})
			break
		}
	}
	return broken
}
