package names

import "testing"

func TestPreferenceIsInTheName(t *testing.T) {
	for _, l := range []Layout{Curator, LeaderLatch, Kazoo, GoZookeeper, {Name: "own", Mutex: "job-{host}-{uuid}-", Exclusive: []string{"job-*-"}}} {
		g := Compile(l)
		for _, n := range []int{0, 1, 7, 10, MaxPreference} {
			a, err := g.Attempt(Mutex, 1)
			if err != nil {
				t.Fatal(err)
			}
			a = a.Prefer(n)
			c, ok := g.Parse(a.Prefix + "0000000012")
			if !ok || c.Form != a.Prefix || c.Seq != 12 || c.Preference() != n {
				t.Errorf("%s, preference %d: %q is read as %+v, preference %d", l.Name, n, a.Prefix, c, c.Preference())
			}
			if got, ok := PreferenceIn(c.Name); got != n || !ok {
				t.Errorf("%s, preference %d: %q has the preference %d, %t", l.Name, n, c.Name, got, ok)
			}
		}
	}
}

// The names of an attempt that has no id stay as they are.
func TestNamesWithoutAnIDHaveNoPreference(t *testing.T) {
	a, err := Compile(SessionID).Attempt(Mutex, 1)
	if err != nil {
		t.Fatal(err)
	}
	if b := a.Prefer(0); b != a {
		t.Errorf("%+v; want %+v", b, a)
	}
}

func TestNamesOfOthersHaveNoPreference(t *testing.T) {
	const uuid = "0b8e6f0a-8c43-4c57-9a76-1d1f6e1a2b3c"
	for name, want := range map[string]int{
		"_c_" + uuid + "-lock-0000000001":                            0,
		"_c_" + uuid + "-prefer5-lock-0000000001":                    5,
		"_c_" + uuid + "-prefer-lock-0000000001":                     0,
		"_c_" + uuid + "-prefer-5-lock-0000000001":                   0,
		"_c_" + uuid + "-prefer1000001-lock-0000000001":              0,
		"_c_" + uuid + "-prefer99999999999999999999-lock-0000000001": 0,
		"host-prefer5-lock-0000000001":                               0,
		"-prefer5-lock-0000000001":                                   0,
	} {
		c, ok := Default.Parse(name)
		if got := c.Preference(); !ok || got != want {
			t.Errorf("%s: preference %d, %v: want %d", name, got, ok, want)
		}
	}
}

func TestLatches(t *testing.T) {
	const uuid = "0b8e6f0a-8c43-4c57-9a76-1d1f6e1a2b3c"
	for form, want := range map[string]bool{
		"_c_" + uuid + "-latch-": true, "_c_" + uuid + "-prefer0-latch-": false, "_c_" + uuid + "-prefer2-latch-": false,
		"_c_" + uuid + "-lock-": false, uuid + "__lock__": false,
	} {
		if got := (Contender{Form: form}).IsLatch(); got != want {
			t.Errorf("%s: %t; want %t", form, got, want)
		}
	}
}
