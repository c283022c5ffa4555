//go:build unix

package peers

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestParseVersion(t *testing.T) {
	for _, tt := range []struct {
		answer string
		want   Version // zero: an error
	}{
		{"Zookeeper version: 3.4.14-4c25d480e66aadd371de8bd2fd8da255ac140bcf, built on 03/06/2019 16:18 GMT\nLatency min/avg/max: 0/0/0\n", Version{3, 4, 14}},
		{"Zookeeper version: 3.5.10-1ea3daa3e7f0d4b0a1f7ccf5bba0fe3ea2b0b3a5, built on 05/31/2022 19:38 GMT\n", Version{3, 5, 10}},
		{"Zookeeper version: 3.6.4--d65253dcf68e9097c6e95a126463fd5fdeb4521c, built on 12/18/2022 18:10 GMT\n", Version{3, 6, 4}},
		{"Zookeeper version: 3.8.0-${mvngit.commit.id}, built on 2023-01-08 14:34 UTC\nClients:\n /127.0.0.1:1[0]\n", Version{3, 8, 0}},
		{"Zookeeper version: 3.8.4-holdfast, built on 02/12/2024 22:16 GMT\n", Version{3, 8, 4}},
		{"Zookeeper version: 3.10.0-SNAPSHOT-1, built on 2026-01-01 00:00 UTC\n", Version{3, 10, 0}},
		{"Zookeeper version: 4.0.12, built on 2030-01-01 00:00 UTC\n", Version{4, 0, 12}},
		{"", Version{}},
		{"This ZooKeeper instance is not currently serving requests\n", Version{}},
		{"srvr is not executed because it is not in the whitelist.\n", Version{}},
		{"Zookeeper version: 3.8\n", Version{}},
		{"Zookeeper version: 3.99999999999999999999.0\n", Version{}},
	} {
		got, err := ParseVersion(tt.answer)
		if (err != nil) != (tt.want == Version{}) || err == nil && got != tt.want {
			t.Errorf("%q: %v, %v; want %v", tt.answer, got, err, tt.want)
		}
	}
}

func TestVersionsCompareByNumber(t *testing.T) {
	ascending := []Version{{}, {3, 5, 0}, {3, 5, 9}, {3, 5, 10}, {3, 6, 0}, {3, 10, 0}, {4, 0, 0}}
	if !slices.IsSortedFunc(ascending, Version.Compare) || (Version{3, 5, 9}).Compare(Version{3, 5, 10}) != -1 || (Version{3, 8, 0}).Compare(Version{3, 8, 0}) != 0 {
		t.Errorf("not in order: %v", ascending)
	}
}

func TestUseZooKeeperTakesADirectoryOrAJar(t *testing.T) {
	defer func() { chosen = nil }()
	dir, empty := t.TempDir(), t.TempDir()
	var want []string
	for _, name := range []string{"netty-handler-4.1.jar", "zookeeper-3.9.5.jar", "zookeeper-jute-3.9.5.jar"} {
		want = append(want, filepath.Join(dir, name))
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		path string
		want []string // nil: an error
	}{
		{dir, want}, {want[1], want[1:2]}, {empty, nil}, {filepath.Join(dir, "none"), nil},
	} {
		chosen = nil
		if err := UseZooKeeper(tt.path); (err != nil) != (tt.want == nil) || !slices.Equal(chosen, tt.want) {
			t.Errorf("%s: %v, %v; want %v", tt.path, chosen, err, tt.want)
		}
	}
}
