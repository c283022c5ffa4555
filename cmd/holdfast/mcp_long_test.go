//go:build unix

package main

import (
	"fmt"
	"strings"
	"testing"

	"holdfast/zk"
	"holdfast/zklocal"
)

// A list is for a model: a very long queue makes it no longer than a model can read.
func TestListOfALongQueueIsCut(t *testing.T) {
	t.Parallel()
	env := agentStore(t)
	a := startAgent(t, env, t.TempDir(), "--who", "ann")
	a.want("HELD: lock db", "acquire", `{"lock":"db"}`)
	a.want("HELD: lock web", "acquire", `{"lock":"web"}`)
	_, dir, _ := strings.Cut(env[len(env)-3], "file://")
	store, err := zklocal.Open(zklocal.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	c, err := zk.Dial(t.Context(), store.Config())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 6 {
		var ops []zk.Op
		for range 500 {
			ops = append(ops, zk.CreateOp("/holdfast/locks/db/_c_6266cbe9-453b-4a50-8718-b39f57879b6e-lock-", []byte("bob"), zk.EphemeralSequential))
		}
		if _, err := c.Multi(t.Context(), ops...); err != nil {
			t.Fatal(err)
		}
	}
	result := string(a.hear(a.ask("list", `{}`)))
	for _, want := range []string{"db: held by ann", ", 3000 more waiting", "web: held by ann", fmt.Sprintf(`"more_places":%d`, 3001-1000), `"name":"web"`} {
		if !strings.Contains(result, want) {
			t.Errorf("no %q in the list", want)
		}
	}
	if most := 300 * 1000; len(result) > most {
		t.Errorf("the list has %d bytes; want at most %d", len(result), most)
	}
}
