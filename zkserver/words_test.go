package zkserver

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
)

// word returns the answer to a four-letter word.
func (c *rawClient) word(w string) string {
	c.t.Helper()
	c.nc.Write([]byte(w))
	b, err := io.ReadAll(c.in)
	if err != nil {
		c.t.Errorf("%s: %v", w, err)
	}
	return string(b)
}

func TestOnlyAllowedWordsAreAnswered(t *testing.T) {
	for _, tt := range []struct {
		list    []string
		allowed string
	}{
		{nil, "envi isro ruok srvr"},
		{[]string{}, "srvr"}, // Apache's server always allows it
		{[]string{"stat"}, "srvr stat"},
		{[]string{"ruok", " wchs "}, "ruok srvr wchs"},
		{[]string{"gtmk"}, "gtmk srvr"},
		{[]string{" *"}, "conf cons crst dirs dump envi gtmk hash isro mntr ruok srst srvr stat stmk wchc wchp wchs"},
	} {
		inBubble(t, Config{FourLetterWords: tt.list}, func(t *testing.T, s *Server, dial func() *rawClient) {
			allowed := strings.Fields(tt.allowed)
			for _, w := range wordNames() {
				got := dial().word(w)
				if refused := got == w+" is not executed because it is not in the whitelist.\n"; refused == slices.Contains(allowed, w) {
					t.Errorf("%q allowed: %s answered %q", tt.list, w, got)
				}
			}
		})
	}
	if _, err := Open(Config{FourLetterWords: []string{"ruok", "kill"}}); err == nil || !strings.Contains(err.Error(), `"kill"; known are conf cons`) {
		t.Errorf("an unknown word: %v", err)
	}
}

func TestWordsTellWhatApachesServerTells(t *testing.T) {
	cfg := Config{FourLetterWords: []string{"*"}}
	inBubble(t, cfg, func(t *testing.T, s *Server, dial func() *rawClient) {
		a, b := from(t, s, "10.0.0.1"), from(t, s, "2001:db8::2")
		sa, sb := a.connect(10*time.Second, nil), b.connect(20*time.Second, nil)
		a.create("/e", zkproto.FlagEphemeral)
		b.exists("/forged\nline", true)
		b.exists("/e", true)
		a.exists("/e", true)
		a.call(zkproto.OpGetChildren, &zkproto.ReadRequest{Path: "/e", Watch: true})
		synctest.Wait()
		x := func(id int64) string { return fmt.Sprintf("0x%x", id) }
		now := fmt.Sprint(time.Now().UnixMilli())
		stats := `Latency min/avg/max: 0/0\.0/0\nReceived: 7\nSent: 7\nConnections: 3\nOutstanding: 0\n` +
			`Zxid: 0x3\nMode: standalone\nNode count: 5\n`
		watches := regexp.QuoteMeta("/forged?line\n\t" + x(sb.SessionID) + "\n")
		for word, want := range map[string]string{
			"ruok": `imok`,
			"isro": `rw`,
			"envi": `Environment:\nzookeeper\.version=3\.8\.4-holdfast, built on 02/12/2024 22:16 GMT\n`,
			"srvr": `Zookeeper version: 3\.8\.4-holdfast, built on 02/12/2024 22:16 GMT\n` + stats,
			"stat": `Zookeeper version: 3\.8\.4-holdfast, built on 02/12/2024 22:16 GMT\nClients:\n` +
				` /10\.0\.0\.3:1\[0\]\(queued=0,recved=1,sent=0\)\n /10\.0\.0\.1:1\[0\]\(queued=0,recved=4,sent=4\)\n /\[2001:db8::2\]:1\[0\]\(queued=0,recved=3,sent=3\)\n\n` + stats,
			"cons": ` /10\.0\.0\.3:1\[0\]\(queued=0,recved=1,sent=0\)\n /10\.0\.0\.1:1\[0\]\(queued=0,recved=4,sent=4,sid=` + x(sa.SessionID) + `,lop=GETC,est=` + now +
				`,to=10000,lcxid=0x3,lzxid=0x3,lresp=` + now + `,llat=0,minlat=0,avglat=0,maxlat=0\)\n .*lop=EXIS.*\n\n`,
			"mntr": `(?s)zk_version\t3\.8\.4-holdfast, .*\nzk_server_state\tstandalone\nzk_min_latency\t0\nzk_avg_latency\t0\.0\nzk_max_latency\t0\n` +
				`zk_packets_received\t7\nzk_packets_sent\t7\nzk_num_alive_connections\t3\nzk_outstanding_requests\t0\nzk_znode_count\t5\n` +
				`zk_watch_count\t4\nzk_ephemerals_count\t1\nzk_approximate_data_size\t47\nzk_global_sessions\t2\nzk_local_sessions\t0\n.*zk_uptime\t0\n.*`,
			"conf": `clientPort=0\nsecureClientPort=-1\ndataDir=\ndataDirSize=0\ndataLogDir=\ndataLogSize=0\ntickTime=2000\nmaxClientCnxns=1000\n` +
				`minSessionTimeout=4000\nmaxSessionTimeout=40000\nclientPortListenBacklog=-1\nserverId=0\n`,
			"dirs": `datadir_size: 0\nlogdir_size: 0\n`,
			"dump": `SessionTracker dump:\nSession Sets \(2\)/\(2\):\n1 expire at Sat Jan 01 00:00:10 UTC 2000:\n\t` + x(sa.SessionID) +
				`\n1 expire at Sat Jan 01 00:00:20 UTC 2000:\n\t` + x(sb.SessionID) + `\nephemeral nodes dump:\nSessions with Ephemerals \(1\):\n` +
				x(sa.SessionID) + `:\n\t/e\nConnections dump:\nConnections Sets \(3\)/\(3\):\n` +
				`1 expire at .*:\n\tip: /10\.0\.0\.3:1 sessionId: 0x0\n1 expire at .*:\n\tip: /10\.0\.0\.1:1 sessionId: ` + x(sa.SessionID) + `\n1 expire at .*:\n\tip: .*\n`,
			"wchs": `2 connections watching 2 paths\nTotal watches:4\n`,
			"wchc": x(sa.SessionID) + `\n\t/e\n` + x(sb.SessionID) + `\n(\t/e\n\t/forged\?line|\t/forged\?line\n\t/e)\n\n`,
			"wchp": `(` + watches + `)?/e\n(\t` + x(sa.SessionID) + `\n\t` + x(sb.SessionID) + `|\t` + x(sb.SessionID) + `\n\t` + x(sa.SessionID) + `)\n(` + watches + `)?\n`,
		} {
			synctest.Wait() // until the connection before has ended
			if got := from(t, s, "10.0.0.3").word(word); !regexp.MustCompile(`\A` + want + `\z`).MatchString(got) {
				t.Errorf("%s: got\n%s\nwant\n%s", word, got, want)
			}
		}
	})
}

func TestStatisticsAreReset(t *testing.T) {
	inBubble(t, Config{FourLetterWords: []string{"*"}}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.connect(10*time.Second, nil)
		synctest.Wait()
		if got := dial().word("srst"); got != "Server stats reset.\n" {
			t.Errorf("srst: %q", got)
		}
		if got := dial().word("crst"); got != "Connection stats reset.\n" {
			t.Errorf("crst: %q", got)
		}
		c.call(zkproto.OpPing, nil)
		synctest.Wait()
		got := dial().word("stat")
		if !strings.Contains(got, "Received: 1\nSent: 1\n") || !strings.Contains(got, "recved=1,sent=1)") {
			t.Errorf("stat: %s", got)
		}
		if st := s.Stats(); st.RequestsReceived != 2 || st.Latency.Count != 2 {
			t.Errorf("a counter of Stats has decreased: %+v", st)
		}
	})
}

// Apache's server could be made to work on wchp and wchc for ever (CVE-2017-5637).
func TestWordsThatWalkEndSoon(t *testing.T) {
	inBubble(t, Config{FourLetterWords: []string{"*"}}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.connect(10*time.Second, nil)
		long := strings.Repeat("x", 4000)
		var paths []string
		for i := range 200 {
			paths = append(paths, fmt.Sprint("/", i, long))
		}
		for i := range 10 {
			for j := range paths {
				paths[j] = fmt.Sprint("/", i, "-", j, long)
			}
			c.call(zkproto.OpSetWatches, &zkproto.SetWatchesRequest{Exist: paths, RelativeZxid: 1 << 40})
		}
		if n := s.Stats().Watches; n != 2000 {
			t.Fatalf("%d watches; want 2000", n)
		}
		for _, word := range []string{"wchc", "wchp"} {
			got := dial().word(word)
			if !strings.HasSuffix(got, "... and more, which is left out\n") || len(got) > maxWordAnswer+8192 {
				t.Errorf("%s: %d bytes, the last %q", word, len(got), got[max(len(got)-40, 0):])
			}
		}
	})
}
