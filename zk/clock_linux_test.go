package zk

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

// A test cannot suspend a machine, but it can use a time namespace whose CLOCK_BOOTTIME is an hour
// ahead. A process in it must see that hour.
func TestSuspendIsReadFromTheClockThatCountsIt(t *testing.T) {
	const variable = "ZK_TEST_BOOT_MINUS_MONOTONIC"
	d, ok := bootMinusMonotonic(0)
	if !ok {
		t.Fatal("this kernel does not report CLOCK_BOOTTIME")
	}
	if before := os.Getenv(variable); before != "" {
		fmt.Printf("ahead by another %v\n", (d - must(time.ParseDuration(before))).Round(time.Second))
		return
	}
	if out, err := exec.Command("unshare", "-T", "--boottime", "3600", "true").CombinedOutput(); err != nil {
		t.Skipf("no time namespaces on this machine: %v %s", err, out)
	}
	cmd := exec.Command("unshare", "-T", "--boottime", "3600", os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), variable+"="+d.String())
	if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("ahead by another 1h0m0s\n")) {
		t.Errorf("%v\n%s", err, out)
	}
}

func must(d time.Duration, err error) time.Duration {
	if err != nil {
		panic(err)
	}
	return d
}
