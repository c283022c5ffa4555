package serve

import (
	"reflect"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"holdfast/zkserver"
)

func TestLimitsFlagsSetTheirFields(t *testing.T) {
	for _, test := range []struct {
		args []string
		want zkserver.Config
	}{
		{[]string{"--max-connections=3"}, zkserver.Config{Limits: zkserver.Limits{Connections: 3}}},
		{[]string{"--max-connections-per-address=3"}, zkserver.Config{Limits: zkserver.Limits{ConnectionsPerAddress: 3}}},
		{[]string{"--max-connects-per-second=3"}, zkserver.Config{Limits: zkserver.Limits{ConnectionsPerSecond: 3}}},
		{[]string{"--max-frame-bytes=3"}, zkserver.Config{Limits: zkserver.Limits{FrameBytes: 3}}},
		{[]string{"--max-outstanding=3"}, zkserver.Config{Limits: zkserver.Limits{Outstanding: 3}}},
		{[]string{"--max-watches=3"}, zkserver.Config{Limits: zkserver.Limits{Watches: 3}}},
		{[]string{"--max-watches-per-connection=-1"}, zkserver.Config{Limits: zkserver.Limits{WatchesPerConnection: -1}}},
		{[]string{"--handshake-timeout=3s"}, zkserver.Config{Limits: zkserver.Limits{HandshakeTime: 3 * time.Second}}},
		{[]string{"--container-check-interval=3s"}, zkserver.Config{ContainerCheckInterval: 3 * time.Second}},
		{[]string{"--ttl-nodes=false"}, zkserver.Config{NoTTLNodes: true}},
		{[]string{"--enforce-quota"}, zkserver.Config{EnforceQuota: true}},
		{[]string{"--quota-writable"}, zkserver.Config{QuotaWritable: true}},
		{[]string{"--four-letter-words=ruok,stat"}, zkserver.Config{FourLetterWords: []string{"ruok", "stat"}}},
	} {
		flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		var l limitsFlags
		l.register(flags)
		if err := flags.Parse(test.args); err != nil {
			t.Fatal(err)
		}
		if test.want.ContainerCheckInterval == 0 {
			test.want.ContainerCheckInterval = time.Minute
		}
		var got zkserver.Config
		if err := l.apply(&got); err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%q: %+v, %v; want %+v", test.args, got, err, test.want)
		}
	}
}
