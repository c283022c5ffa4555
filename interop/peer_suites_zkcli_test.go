//go:build unix

package interop

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"holdfast/interop/peers"
)

// Commands as users type them into zkCli.sh. The last line of each group fails, or shows that it
// did not.
const zkCliScript = `version
whoami
create /cli one
create /cli two
create -t 100000 /cli/ttl x
stat /cli/ttl
create -c /cli/container
create -s /cli/s- y
create -e -s /cli/es- z
create /cli/es-0000000003/below
getEphemerals
getEphemerals /cli/es
getEphemerals /none
getAllChildrenNumber /cli
getAllChildrenNumber /none
addWatch /cli
create /cli/a a
addWatch -m PERSISTENT /cli/a
set -s /cli/a b
set -v 7 /cli/a c
removewatches /cli/a
removewatches /cli/a
set /cli/a c
create /cli/a/below
ls -s /cli/a
ls -R /cli
getAcl /cli
create /cli/secret s
addauth digest bob:pw
whoami
setAcl /cli/secret auth:bob:cdrwa
getAcl -s /cli/secret
get /cli/secret
setAcl /cli/secret nonsense
setAcl -v 7 /cli/secret world:anyone:r
setAcl /cli/secret world:anyone:cdwa
get /cli/secret
setAcl /cli/secret world:anyone:cdrwa
sync /cli
sync /none
get -s /zookeeper/config
set /zookeeper/config x
config
reconfig -remove 1
setquota -n 10 /cli
listquota /cli
setquota -n 10 /cli/a
get /zookeeper/quota/cli/zookeeper_limits
delquota /cli
listquota /cli
setquota -N 30 /cli
setquota -B 1000 /cli
listquota /cli
create /cli/counted 12345
set /cli/counted 123456789
listquota /cli
delete /cli/counted
listquota /cli
get -s /zookeeper/quota/cli/zookeeper_stats
delquota -N /cli
delquota /cli
delete /zookeeper/quota
delete /cli
deleteall /cli/a
removewatches /cli
deleteall /cli
stat /cli
ls -R /
`

// The whole transcript is compared between Apache's server and ours.
func TestZkCliSaysTheSameOnBothServers(t *testing.T) {
	need(t, peers.NeedZkCli())
	z, err := peers.StartZooKeeper(t.Context(), t.TempDir(), peers.ZooKeeperConfig{})
	closing(t, z, err)
	h, err := peers.StartHoldfast(t.Context(), holdfastBin(t), t.TempDir(), "--quota-writable")
	closing(t, h, err)
	said, events := zkCliTranscript(feedZkCli(t, z.Addrs()[0], strings.NewReader(zkCliScript)))
	ourSaid, ourEvents := zkCliTranscript(feedZkCli(t, h.Addr(), strings.NewReader(zkCliScript)))
	if len(said) < 100 || len(events) < 8 {
		t.Errorf("only %d lines and %d events to compare:\n%s", len(said), len(events), strings.Join(append(said, events...), "\n"))
	}
	for _, both := range [][2][]string{{said, ourSaid}, {events, ourEvents}} {
		apache, ours := both[0], both[1]
		for i := range max(len(apache), len(ours)) {
			if i == len(apache) || i == len(ours) || apache[i] != ours[i] {
				t.Fatalf("line %d differs:\nApache ZooKeeper:\n%s\nholdfast serve:\n%s", i,
					strings.Join(apache[max(0, min(i, len(apache))-3):min(i+3, len(apache))], "\n"),
					strings.Join(ours[max(0, min(i, len(ours))-3):min(i+3, len(ours))], "\n"))
			}
		}
	}
}

var (
	zkCliNoise    = regexp.MustCompile(`^$|^WATCHER::|SLF4J|^[0-9:, -]+\[|^Connecting to |^\tat |^log4j`)
	zkCliIdentity = regexp.MustCompile(`^(ip|digest): `)
	zkCliVaries   = regexp.MustCompile(`((?:[cmp]Zxid) = )0x[1-9a-f][0-9a-f]*|((?:[cm]time) = )\w{3} .*20\d\d|(server )[0-9.:]+`)
)

// zkCliTranscript splits the output into answers and events, which come at any time. It omits
// text that always differs.
func zkCliTranscript(out string) (said, events []string) {
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\n")
		if zkCliNoise.MatchString(line) {
			continue
		}
		line = zkCliVaries.ReplaceAllString(line, "$1$2$3…")
		switch {
		case strings.HasPrefix(line, "WatchedEvent"):
			events = append(events, line)
		case strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]"):
			names := strings.Split(strings.Trim(line, "[]"), ", ")
			slices.Sort(names) // of ephemeral nodes, in any order
			said = append(said, strings.Join(names, ", "))
		case zkCliIdentity.MatchString(line) && zkCliIdentity.MatchString(said[len(said)-1]):
			said = append(said, line)
			slices.Sort(said[len(said)-2:]) // in any order, too
		default:
			said = append(said, line)
		}
	}
	return said, events
}
