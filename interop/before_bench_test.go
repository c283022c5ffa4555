//go:build linux

package interop

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"holdfast/interop/peers"
)

var beforeTree = flag.String("before-tree", "", "BenchmarkBefore: the work tree of an earlier commit, whose library is measured beside this one")

// BenchmarkBefore measures the library of an earlier commit beside today's. testdata/cycles, built with each of them, loads
// the same server, in turns of a second. before/s and now/s are the medians of the cycles a second. ratio is the median
// of now's figure over before's of the same round, between ratio-low and ratio-high with 95 % confidence, for which it
// needs six rounds. Each round begins with the other one. The rounds begin when the rates of both stand still.
//
//	git worktree add ../../before 3a97b7e
//	go test -run '^$' -bench '^BenchmarkBefore$' -benchtime 15x -timeout 0 -before-tree ../../before
func BenchmarkBefore(b *testing.B) {
	if *beforeTree == "" {
		b.Skip("needs the work tree of an earlier commit: -before-tree DIR")
	}
	sides := []string{"before", "now"}
	binaries := make(map[string]string)
	for name, tree := range map[string]string{"before": *beforeTree, "now": ".."} {
		binaries[name] = buildCycles(b, tree)
	}
	apache, err := peers.StartZooKeeper(b.Context(), b.TempDir(), peers.ZooKeeperConfig{Settings: []string{"preAllocSize=65536"}, Flags: productionJVM})
	closing(b, apache, err)
	for _, server := range []struct{ name, addr string }{{"Apache", apache.Addrs()[0]}, {"holdfast-serve", oneHoldfast.get(b).Addr()}} {
		b.Run(server.name, func(b *testing.B) {
			programs := make(map[string]*program)
			for _, side := range sides {
				p, err := startProgram(b.Context(), exec.Command(binaries[side], server.addr), "")
				programs[side] = closing(b, p, err)
			}
			sample := func(side, row string) float64 {
				line, err := programs[side].ask(b.Context(), "%s 1s", row)
				must(b, err)
				rate, err := strconv.ParseFloat(line, 64)
				must(b, err)
				return rate
			}
			for _, row := range []string{"Mutex", "64-Mutexes", "Mutex-of-16-sessions", "WithLocalHandoff-64", "RWMutex-8-readers", "Semaphore", "Semaphore-3-permits-8", "NodeLock"} {
				b.Run(row, func(b *testing.B) {
					warm := make(map[string][]float64)
					for n := 0; n < 20 && !(standsStill("cycles/s", warm["before"]) && standsStill("cycles/s", warm["now"])); n++ {
						for _, side := range sides {
							warm[side] = append(warm[side], sample(side, row))
						}
					}
					rates := make(map[string][]float64)
					var ratios []float64
					for n := 0; b.Loop(); n++ {
						for i := range sides {
							side := sides[(n+i)%2]
							rates[side] = append(rates[side], sample(side, row))
						}
						ratios = append(ratios, rates["now"][n]/rates["before"][n])
					}
					for _, side := range sides {
						b.ReportMetric(estimateOf(rates[side]).median, side+"/s")
					}
					ratio := estimateOf(ratios)
					b.ReportMetric(ratio.median, "ratio")
					b.ReportMetric(ratio.lo, "ratio-low")
					b.ReportMetric(ratio.hi, "ratio-high")
					b.ReportMetric(0, "ns/op")
				})
			}
		})
	}
}

// buildCycles builds testdata/cycles with the library in tree.
func buildCycles(b *testing.B, tree string) string {
	tree, err := filepath.Abs(tree)
	must(b, err)
	dir := b.TempDir()
	source, err := os.ReadFile("testdata/cycles/main.go")
	must(b, err)
	sums, err := os.ReadFile(filepath.Join(tree, "go.sum"))
	must(b, err)
	must(b, os.WriteFile(filepath.Join(dir, "main.go"), source, 0o666))
	must(b, os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o666))
	must(b, os.WriteFile(filepath.Join(dir, "go.mod"), fmt.Appendf(nil, "module cycles\n\ngo 1.26\n\nrequire holdfast v0.0.0\n\nreplace holdfast => %s\n", tree), 0o666))
	build := exec.CommandContext(b.Context(), "go", "build", "-mod=mod", "-o", "cycles", ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("building %s with %s: %v\n%s", "testdata/cycles", tree, err, out)
	}
	return filepath.Join(dir, "cycles")
}
