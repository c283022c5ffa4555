//go:build unix

package peers

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// Debian's jars name what they depend on in their manifests, so the class path
// is short: the jar that is meant, and something to log with.
const (
	zookeeperJar = "/usr/share/java/zookeeper.jar"
	curatorJar   = "/usr/share/java/curator-recipes.jar"
	slf4jJar     = "/usr/share/java/slf4j-simple.jar"
	recipesJar   = "/usr/share/java/zookeeper-recipes-lock.jar" // ZooKeeper's own

	nettyCodecJar    = "/usr/share/java/netty-codec.jar"
	nettyResolverJar = "/usr/share/java/netty-resolver.jar"

	jdkPackage       = "default-jdk-headless"
	zookeeperPackage = "zookeeper"
	curatorPackage   = "libcurator-recipes-java"
	recipesPackage   = "libzookeeper-java"
	slf4jPackage     = "libslf4j-java"
	nettyPackage     = "libnetty-java"
)

// jvmFlags make a JVM that starts fast and stays small; three servers and a
// client have to fit on a machine with two cores.
var jvmFlags = []string{
	"-Xmx160m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
	"-Dorg.slf4j.simpleLogger.showDateTime=true",
	"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
}

// NeedZooKeeper reports what Apache ZooKeeper lacks on this machine, as a
// [MissingError], or nil.
func NeedZooKeeper() error {
	if _, err := needCommand("java", jdkPackage); err != nil {
		return err
	}
	if _, err := needFile(zookeeperJar, zookeeperPackage); err != nil {
		return err
	}
	_, err := needFile(slf4jJar, slf4jPackage)
	return err
}

// NeedCurator reports what programs that use Curator lack on this machine, as a
// [MissingError], or nil.
func NeedCurator() error {
	if err := NeedZooKeeper(); err != nil {
		return err
	}
	if _, err := needCommand("javac", jdkPackage); err != nil {
		return err
	}
	if _, err := needFile(curatorJar, curatorPackage); err != nil {
		return err
	}
	_, err := needFile(recipesJar, recipesPackage)
	return err
}

// Javac compiles every .java file in src, with Curator on the class path, into
// the directory classes.
func Javac(ctx context.Context, src, classes string) error {
	sources, err := filepath.Glob(filepath.Join(src, "*.java"))
	if err != nil {
		return err
	}
	args := append([]string{"-nowarn", "-d", classes, "-cp", curatorClassPath("")}, sources...)
	out, err := exec.CommandContext(ctx, "javac", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("peers: javac %s: %w\n%s", src, err, out)
	}
	return nil
}

// Curator is the command that runs a class compiled by [Javac] with Curator on
// its class path. Only warnings of the libraries are logged, to standard error.
func Curator(ctx context.Context, classes, class string, args ...string) *exec.Cmd {
	java := append([]string{}, jvmFlags...)
	java = append(java, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", curatorClassPath(classes), class)
	return exec.CommandContext(ctx, "java", append(java, args...)...)
}

func curatorClassPath(classes string) string {
	jars := []string{curatorJar, recipesJar, slf4jJar}
	if classes != "" {
		jars = append([]string{classes}, jars...)
	}
	return strings.Join(jars, string(filepath.ListSeparator))
}
