package names

import (
	"bytes"
	"testing"
)

func TestProcessIsInTheName(t *testing.T) {
	process := bytes.Repeat([]byte{0xab, 0x07, 0}, 12)
	for _, l := range []Layout{Curator, LeaderLatch, Kazoo, GoZookeeper, {Name: "own", Mutex: "job-{host}-{uuid}-", Exclusive: []string{"job-*-"}}} {
		g := Compile(l)
		for _, n := range []int{0, 7, MaxPreference} {
			for _, p := range [][]byte{nil, process} {
				a, err := g.Attempt(Mutex, 1)
				if err != nil {
					t.Fatal(err)
				}
				a = a.OfProcess(p).Prefer(n)
				name := a.Prefix + "0000000012"
				c, ok := g.Parse(name)
				if got := ProcessIn(name); !ok || c.Form != a.Prefix || c.Seq != 12 || c.Preference() != n || !bytes.Equal(got, p) {
					t.Errorf("%s, preference %d: %q is read as %+v, preference %d, process %x", l.Name, n, a.Prefix, c, c.Preference(), got)
				}
			}
		}
	}
}

func TestNamesOfOthersHaveNoProcess(t *testing.T) {
	const uuid = "0b8e6f0a-8c43-4c57-9a76-1d1f6e1a2b3c"
	for name, want := range map[string]bool{
		"_c_" + uuid + "-lock-0000000001":                      false,
		"_c_" + uuid + "-process00ff-lock-0000000001":          true,
		"_c_" + uuid + "-prefer5-process00ff-lock-0000000001":  true,
		"_c_" + uuid + "-process-lock-0000000001":              false,
		"_c_" + uuid + "-process00f-lock-0000000001":           false,
		"_c_" + uuid + "-x-process00ff-lock-0000000001":        false,
		"_c_" + uuid + "-preferx-process00ff-lock-0000000001":  false,
		"host-process00ff-lock-0000000001":                     false,
		"-process00ff-lock-0000000001":                         false,
		"job-process00ff-" + uuid + "-lock-process-0000000001": false,
	} {
		if got := ProcessIn(name) != nil; got != want {
			t.Errorf("%s: a process: %v; want %v", name, got, want)
		}
	}
}
