//go:build unix

package interop

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/interop/peers"
)

var (
	skewPeriod = flag.Duration("skew-period", 10*time.Second, "period of the job in the test of hosts whose clocks differ; 1m takes ten minutes")
	skewApart  = flag.Duration("skew-apart", 0, "how far the clocks of these hosts are apart, less than the period; 0 is a quarter of it")
)

// skewHost is a host's cron: it starts the job FIRES times, at full periods of its own clock. The clock is
// libfaketime's, in the shell, in date and in sleep. Holdfast itself reads the clock of the kernel, since programs in
// Go do not call the C library for it. It takes all its decisions by the server's clock.
const skewHost = `
echo "clock $(date +%s%N)"
k=0
while [ $k -lt $FIRES ]; do
	left=$((BASE + k * PERIOD - $(date +%s%N)))
	if [ $left -gt 0 ]; then
		sleep $((left / 1000000000)).$(printf %09d $((left % 1000000000)))
		continue
	fi
	k=$((k + 1))
	"$HOLDFAST" run -q --try $WAY ${KEY:+--once-key $(($(date +%s%N) / PERIOD))} job -- sh -c "echo $NAME $k >> $RUNS"
	code=$?
	case $code in
	0 | 75) ;;
	*) echo "fire $k: exit code $code" ;;
	esac
done
`

// Four hosts fire a job six times, and the job takes a moment. Their clocks are apart by a quarter of the period. With
// --min-hold, --once-per and --once-key, there are six runs, and without them up to 24. With a period of a minute,
// eight hosts fire it ten times.
func TestHostsWithDifferentClocksRunAJobOncePerPeriod(t *testing.T) {
	need(t, peers.NeedFaketime())
	// Few enough for a busy machine: a host that starts seconds late runs the job again, which is right.
	hosts, fires := 4, 6
	if *skewPeriod >= time.Minute {
		hosts, fires = 8, 10
	}
	apart := *skewApart
	if apart == 0 {
		apart = *skewPeriod / 4
	}
	// Less than the period, so that the first host runs again, and more than the clocks are apart. The rest is for a
	// host that starts late.
	least := fmt.Sprint((*skewPeriod + apart) / 2)
	ways := map[string]struct {
		way, key string
		runs     int
	}{
		"min-hold": {way: "--min-hold " + least, runs: fires},
		"once-per": {way: "--once-per " + least, runs: fires},
		"once-key": {key: "yes", runs: fires},
		"neither":  {runs: fires * hosts},
	}
	type attempt struct {
		name, file string
		runs       int
	}
	var all []attempt
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(fires+4)**skewPeriod+2*stepTime)
	defer cancel()
	var wg sync.WaitGroup
	for _, backend := range backends[1:3] {
		url := backend.url(t)
		base := time.Now().Add(apart + 2*time.Second).Truncate(*skewPeriod).Add(*skewPeriod)
		for name, w := range ways {
			if name == "neither" && backend.name != "holdfast serve" {
				continue // once is enough to see that the hosts compete
			}
			file := filepath.Join(t.TempDir(), "runs")
			all = append(all, attempt{backend.name + "/" + name, file, w.runs})
			for i := range hosts {
				ahead := apart * time.Duration(i) / time.Duration(hosts-1)
				clock, err := peers.ClockAhead(ahead)
				must(t, err)
				cmd := exec.CommandContext(ctx, "sh", "-c", skewHost)
				cmd.Env = append(append(os.Environ(), clock...), "HOLDFAST="+holdfastBin(t), "HOLDFAST_SERVER="+url,
					"HOLDFAST_NAMESPACE=/holdfast/skew/"+name, "RUNS="+file, "WAY="+w.way, "KEY="+w.key, "NAME=host"+strconv.Itoa(i),
					fmt.Sprint("BASE=", base.UnixNano()), fmt.Sprint("PERIOD=", skewPeriod.Nanoseconds()), fmt.Sprint("FIRES=", fires))
				wg.Go(func() {
					began := time.Now()
					out, err := cmd.CombinedOutput()
					first, rest, _ := strings.Cut(string(out), "\n")
					told, parseErr := strconv.ParseInt(strings.TrimPrefix(first, "clock "), 10, 64)
					if err != nil || rest != "" || parseErr != nil {
						t.Errorf("%s/%s, host %d: %v\n%s", backend.name, name, i, err, out)
						return
					}
					if off := time.Unix(0, told).Sub(began); off < ahead || off > ahead+10*time.Second {
						t.Errorf("host %d: its clock is %v ahead; want %v", i, off, ahead)
					}
				})
			}
		}
	}
	wg.Wait()
	for _, a := range all {
		text, err := os.ReadFile(a.file)
		must(t, err)
		n := strings.Count(string(text), "\n")
		if a.runs == fires && n != fires || a.runs > fires && n < 2*fires {
			t.Errorf("%s: %d runs; want %d:\n%s", a.name, n, a.runs, text)
		}
		measured(t, "%s: %d runs of a job that %d hosts fire %d times, every %v, by clocks up to %v apart", a.name, n, hosts, fires, *skewPeriod, apart)
	}
}
