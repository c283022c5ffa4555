//go:build linux

package interop

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// firstLine is the first line that a command prints, or why there is none.
func firstLine(ctx context.Context, name string, args ...string) string {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if err != nil {
		return fmt.Sprintf("unknown (%v)", err)
	}
	return line
}

// commit is the one that is checked out, and whether the files are those of the commit.
func commit(ctx context.Context) string {
	c := firstLine(ctx, "git", "rev-parse", "--short", "HEAD")
	if firstLine(ctx, "git", "status", "--porcelain", "--untracked-files=no", "..") != "" {
		c += " with changes"
	}
	return c
}

// machine is the processors, the memory and the kernel.
func machine() string {
	var cpu, memory, kernel string
	for line := range strings.Lines(fileText("/proc/cpuinfo")) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			cpu = strings.TrimSpace(value)
		}
	}
	var kib int
	fmt.Sscanf(fileText("/proc/meminfo"), "MemTotal: %d kB", &kib)
	memory = fmt.Sprintf("%.0f GiB", float64(kib)/(1<<20))
	kernel = strings.TrimSpace(fileText("/proc/sys/kernel/osrelease"))
	return fmt.Sprintf("%d × %s, %s of memory, Linux %s", runtime.NumCPU(), cpu, memory, kernel)
}

// filesystem is the kind that dir is on; its path is nobody's business.
func filesystem(dir string) string {
	best, kind := "", "unknown"
	for line := range strings.Lines(fileText("/proc/self/mounts")) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		rel, err := filepath.Rel(f[1], dir)
		if err == nil && rel != ".." && !strings.HasPrefix(rel, "../") && len(f[1]) >= len(best) {
			best, kind = f[1], f[2]
		}
	}
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err == nil {
		kind += fmt.Sprintf(", %d GiB", uint64(s.Blocks)*uint64(s.Bsize)>>30)
	}
	return kind
}

func fileText(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(text)
}

// versions are those of everything that was compared.
func versions(ctx context.Context) []string {
	v := []string{runtime.Version()}
	add := func(what, version string) { v = append(v, strings.TrimSpace(what+" "+version)) }
	debian := func(pkg string) string { return firstLine(ctx, "dpkg-query", "-W", "-f", "${Version}", pkg) }
	add("Apache ZooKeeper", debian("zookeeper"))
	add("Curator", debian("libcurator-recipes-java"))
	add("", firstLine(ctx, "java", "-version"))
	add("kazoo", firstLine(ctx, "/usr/bin/python3", "-c", "import kazoo; print(kazoo.__version__)"))
	add("", firstLine(ctx, "etcd", "--version"))
	if f := strings.Fields(firstLine(ctx, "redis-server", "--version")); len(f) > 2 {
		add("redis-server", strings.TrimPrefix(f[2], "v="))
	}
	for _, m := range []string{"github.com/go-zookeeper/zk", "go.etcd.io/etcd/client/v3", "github.com/redis/go-redis/v9", "github.com/go-redsync/redsync/v4"} {
		add("", firstLine(ctx, "go", "list", "-m", m))
	}
	return v
}
