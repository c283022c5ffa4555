//go:build unix

package peers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// A Version is a release of ZooKeeper: major, minor and patch.
type Version [3]int

// Compare is negative if v is older than w, and positive if it is newer.
func (v Version) Compare(w Version) int {
	return cmp.Or(cmp.Compare(v[0], w[0]), cmp.Compare(v[1], w[1]), cmp.Compare(v[2], w[2]))
}

// String is like "3.8.0".
func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

var versionLine = regexp.MustCompile(`(?m)^Zookeeper version: (\d+)\.(\d+)\.(\d+)\b`)

// ParseVersion reads a server's version from its answer to srvr or stat.
func ParseVersion(answer string) (v Version, err error) {
	m := versionLine.FindStringSubmatch(answer)
	if m == nil {
		return v, fmt.Errorf("peers: no version in the answer %q", answer)
	}
	for i := range v {
		if v[i], err = strconv.Atoi(m[i+1]); err != nil {
			return v, err
		}
	}
	return v, nil
}

// AskVersion asks the server at addr, a port without TLS, for its version.
func AskVersion(ctx context.Context, addr string) (Version, error) {
	answer, err := ask(ctx, addr, "srvr")
	if err != nil {
		return Version{}, err
	}
	return ParseVersion(answer)
}

// chosen is the class path of the server that UseZooKeeper chose. Nil is Debian's.
var chosen []string

// UseZooKeeper makes StartZooKeeper run another release than Debian's: path is a directory
// of jars, such as lib of a release, or one jar whose manifest names the others. Clients
// keep Debian's. Call it before anything is started.
func UseZooKeeper(path string) error {
	path, err := filepath.Abs(path) // servers run in directories of their own
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		chosen = []string{path}
		return nil
	}
	jars, err := filepath.Glob(filepath.Join(path, "*.jar"))
	if err != nil {
		return err
	}
	if !strings.Contains(strings.Join(jars, "\n"), "/zookeeper") {
		return fmt.Errorf("peers: no zookeeper*.jar in %s; give lib of a release", path)
	}
	chosen = jars
	return nil
}

// serverClassPath is what a server needs. Without something of it, the error is a
// [MissingError].
func serverClassPath(tls bool) ([]string, error) {
	jars := chosen
	if jars == nil {
		jars = []string{zookeeperJar}
	}
	if tls && len(jars) == 1 {
		// Debian's manifest names four of netty's jars, and ZooKeeper needs six.
		jars = append(jars, nettyCodecJar, nettyResolverJar)
	}
	_, err := needCommand("java", jdkPackage)
	errs := []error{err}
	for _, jar := range jars {
		pkg := zookeeperPackage
		if strings.Contains(jar, "netty") {
			pkg = nettyPackage
		}
		_, err := needFile(jar, pkg)
		errs = append(errs, err)
	}
	_, err = needFile(slf4jJar, slf4jPackage)
	// The first binding of slf4j on the class path is the one that is used, up to slf4j 1.7.
	return append([]string{slf4jJar}, jars...), errors.Join(append(errs, err)...)
}

// logback is the logging of releases with slf4j 2, like slf4jJar for the others.
const logback = `<configuration>
  <appender name="err" class="ch.qos.logback.core.ConsoleAppender">
    <target>System.err</target>
    <encoder><pattern>%d{HH:mm:ss.SSS} [%t] %level %logger - %m%n</pattern></encoder>
  </appender>
  <logger name="org.apache.zookeeper.server.NIOServerCnxn" level="ERROR"/>
  <root level="WARN"><appender-ref ref="err"/></root>
</configuration>
`
