package zk

import (
	"reflect"
	"testing"
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
