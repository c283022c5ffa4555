//go:build unix

package interop

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"

	"holdfast/interop/peers"
)

const recipeRoles = 3

// Curator's recipes run in several processes each, with the server killed in between. They run
// on Apache's server, which proves the programs, and on ours.
func TestCuratorsRecipesKeepTheirPromises(t *testing.T) {
	classes := curatorClasses(t)
	t.Run("Apache ZooKeeper", func(t *testing.T) {
		z, err := peers.StartZooKeeper(t.Context(), t.TempDir(), peers.ZooKeeperConfig{})
		closing(t, z, err)
		curatorRecipes(t, classes, z.Addrs()[0], func(ctx context.Context) error { return z.Restart(ctx, 0) })
	})
	t.Run("holdfast serve", func(t *testing.T) {
		h, err := peers.StartHoldfast(t.Context(), holdfastBin(t), t.TempDir())
		closing(t, h, err)
		curatorRecipes(t, classes, h.Addr(), h.Restart)
	})
}

func curatorRecipes(t *testing.T, classes, addr string, restart func(context.Context) error) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*stepTime)
	defer cancel()
	var (
		wg       sync.WaitGroup
		dir      = t.TempDir()
		steps    [recipeRoles]string
		errors   [recipeRoles]bytes.Buffer
		restarts int
	)
	for role := range recipeRoles {
		cmd := peers.Curator(ctx, classes, "Recipes", addr, dir, strconv.Itoa(role), strconv.Itoa(recipeRoles))
		in, err := cmd.StdinPipe()
		must(t, err)
		out, err := cmd.StdoutPipe()
		must(t, err)
		cmd.Stderr = &errors[role]
		wg.Go(func() {
			if err := peers.Run(cmd); err != nil {
				t.Errorf("role %d: %v\n%s", role, err, &errors[role])
				cancel() // otherwise the others would wait for it
			}
		})
		wg.Go(func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				step, ok := strings.CutPrefix(lines.Text(), "ok ")
				if ok {
					steps[role] += step + " "
					continue
				}
				restarts++ // only role 0
				if err := restart(ctx); err != nil {
					t.Errorf("restart the server: %v", err)
					cancel()
				}
				io.WriteString(in, "\n")
			}
		})
	}
	wg.Wait()
	for role, did := range steps {
		want := "mutex semaphore-mutex multi-lock read-write semaphore latch selector count barrier queue caches persistent "
		if did != want {
			t.Errorf("role %d did %q; want %q", role, did, want)
		}
	}
	if restarts != 3 {
		t.Errorf("the server was restarted %d times; want 3", restarts)
	}
}
