package zk

import (
	"os/exec"
	"sync"
	"testing"

	"holdfast/internal/proc"
	"holdfast/zkproto"
)

// Several goroutines share a process each, as the jobs of holdfast shard do. The server believes the last request, so that
// names all of the processes: one that is left out could still work under its lock when the session has ended.
func TestTheLastOfConcurrentSharesNamesAll(t *testing.T) {
	const n = 8
	var pids []int
	for range n {
		cmd := exec.Command("sleep", "60")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
		})
		pids = append(pids, cmd.Process.Pid)
	}
	for range 200 {
		c := &Client{}
		c.belong()
		s := &Session{client: c, bound: true, conn: &conn{wake: make(chan struct{}, 1)}}
		var all sync.WaitGroup
		for _, pid := range pids {
			all.Go(func() {
				c.mu.Lock()
				g, err := c.group.With(pid)
				if err == nil {
					c.group = &g
				}
				c.mu.Unlock()
				if err != nil {
					t.Error(err)
				}
				if _, err := s.queueProcesses(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		var last zkproto.AuthRequest
		last.Decode(zkproto.NewReader(s.queue[len(s.queue)-1].frame[4+8:])) // behind its length and its header
		g, err := proc.Decode(last.Auth)
		if err != nil || len(g.IDs) != n+1 {
			t.Fatalf("the last request names %d processes, %v; want %d", len(g.IDs), err, n+1)
		}
	}
}
