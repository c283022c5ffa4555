package admin

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"holdfast/zk"
	"holdfast/zk/internal/raw"
	"holdfast/zkproto"
)

func TestConfigurationOfAnEnsembleIsRead(t *testing.T) {
	for _, tt := range []struct {
		text string
		want Ensemble
	}{
		{"", Ensemble{}},
		{"server.1=a:2888:3888:participant;0.0.0.0:2181\nserver.2=b:2888:3888:observer;10.0.0.2:2182\nversion=10000000a", Ensemble{
			Version: 0x10000000a,
			Members: []Member{
				{ID: 1, Peers: "a:2888:3888", Client: "a:2181"},
				{ID: 2, Peers: "b:2888:3888", Observer: true, Client: "10.0.0.2:2182"},
			}}},
		{"server.1=a:2888:3888\r\nserver.3=a:1:2;2181\r\n", Ensemble{Members: []Member{
			{ID: 1, Peers: "a:2888:3888"}, {ID: 3, Peers: "a:1:2", Client: "a:2181"},
		}}},
		{"server.1=a:1:2|b:1:2:participant;[::]:2181\nserver.2=[::1]:1:2:participant;2181\nserver.3=c:1:2:observer;[fe80::1]:2181", Ensemble{Members: []Member{
			{ID: 1, Peers: "a:1:2|b:1:2", Client: "a:2181"},
			{ID: 2, Peers: "[::1]:1:2", Client: "[::1]:2181"},
			{ID: 3, Peers: "c:1:2", Observer: true, Client: "[fe80::1]:2181"},
		}}},
		{"group.1=1:2:3\nweight.1=1\nserver.1=x;y", Ensemble{Members: []Member{{ID: 1, Peers: "x", Client: ":y"}}}},
	} {
		got, err := parseEnsemble(tt.text)
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%q:\ngot  %+v, %v\nwant %+v", tt.text, got, err, tt.want)
		}
	}
	for _, text := range []string{"version=xyz", "server.a=b:1:2", "server.=", "server.1=a\nversion="} {
		if got, err := parseEnsemble(text); err == nil {
			t.Errorf("%q: got %+v; want an error", text, got)
		}
	}
}

// FuzzParseEnsemble: a parsed ensemble that is written and parsed again is the same.
func FuzzParseEnsemble(f *testing.F) {
	f.Add("server.1=a:2888:3888:participant;0.0.0.0:2181\nversion=1")
	f.Add("server.1=[::1]:1:2|b:1:2;2181")
	f.Add("server.0=0]0::;0")
	f.Add("server.1=a:1:2:observer;[::]:2181\r\nserver.-2=;:1\nweight.1=1\nversion=ffffffffffffffff")
	f.Fuzz(func(t *testing.T, text string) {
		e, err := parseEnsemble(text)
		if err != nil {
			if len(e.Members) != 0 {
				t.Errorf("%q: both members and an error: %+v, %v", text, e, err)
			}
			return
		}
		var b strings.Builder
		for _, m := range e.Members {
			role := "participant"
			if m.Observer {
				role = "observer"
			}
			fmt.Fprintf(&b, "server.%d=%s:%s;%s\n", m.ID, m.Peers, role, m.Client)
		}
		fmt.Fprintf(&b, "version=%x", uint64(e.Version))
		if again, err := parseEnsemble(b.String()); err != nil || !reflect.DeepEqual(again, e) {
			t.Errorf("%q is %+v; written as %q it is %+v, %v", text, e, b.String(), again, err)
		}
	})
}

// A recorder is a Caller that records requests and answers each with reply.
type recorder struct {
	sent  []raw.Request
	reply []byte
}

func (r *recorder) Chroot() string { return "" }

func (r *recorder) Raw(_ context.Context, req raw.Request) (*zk.Watch, error) {
	r.sent = append(r.sent, req)
	req.Reply.Decode(zkproto.NewReader(r.reply))
	return nil, nil
}

func TestReconfigIsSentAsServersWantIt(t *testing.T) {
	reply := &zkproto.GetDataResponse{Data: []byte("server.4=h:1:2:participant;3\nversion=12")}
	c := &recorder{reply: reply.Append(nil)}
	for _, tt := range []struct {
		change  Reconfiguration
		version int64
		want    string // "" if it is refused
	}{
		{Reconfiguration{Join: []string{"server.4=h:1:2;3", "server.5=i:1:2;3"}, Leave: []int64{1, 2}}, 0x11, "{server.4=h:1:2;3,server.5=i:1:2;3 1,2  17}"},
		{Reconfiguration{Members: []string{"server.4=h:1:2;3"}}, zk.AnyVersion, "{  server.4=h:1:2;3 -1}"},
		{Reconfiguration{}, 0, ""},
		{Reconfiguration{Leave: []int64{1}, Members: []string{"server.1=a:1:2"}}, 0, ""},
	} {
		c.sent = nil
		e, _, err := Reconfig(t.Context(), c, tt.change, tt.version)
		if tt.want == "" {
			if !errors.Is(err, zk.ErrBadArguments) || len(c.sent) != 0 {
				t.Errorf("%+v: sent %v, %v", tt.change, c.sent, err)
			}
			continue
		}
		if err != nil || fmt.Sprint(e) != "{[{4 h:1:2 false h:3}] 18}" {
			t.Errorf("got %v, %v", e, err)
		}
		if m := c.sent[0].Body.(*zkproto.ReconfigRequest); fmt.Sprint(*m) != tt.want {
			t.Errorf("sent %v; want %s", *m, tt.want)
		}
	}
}

func TestUnreadableConfigurationIsAnError(t *testing.T) {
	c := &recorder{reply: (&zkproto.GetDataResponse{Data: []byte("version=x")}).Append(nil)}
	var e *zk.Error
	if _, _, w, err := ConfigW(t.Context(), c); !errors.As(err, &e) || e.Path != configNode || w != nil {
		t.Errorf("%v, %v", w, err)
	}
}
