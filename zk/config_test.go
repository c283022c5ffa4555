package zk

import (
	"crypto/tls"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestParseURL(t *testing.T) {
	tests := []struct {
		url  string
		want Config
		err  string // part of the error; "" for none
	}{
		{url: "zk://a:2181", want: Config{Servers: []string{"a:2181"}}},
		{url: "zk://a:1,b:2,c", want: Config{Servers: []string{"a:1", "b:2", "c"}}},
		{url: "zk://a:1/app", want: Config{Servers: []string{"a:1"}, Chroot: "/app"}},
		{url: "zk://a:1/app/x/", want: Config{Servers: []string{"a:1"}, Chroot: "/app/x"}},
		{url: "zk://a:1/", want: Config{Servers: []string{"a:1"}}},
		{url: "zk://[::1]:2181/x", want: Config{Servers: []string{"[::1]:2181"}, Chroot: "/x"}},
		{url: "zk://a:1/x?timeout=10s", want: Config{Servers: []string{"a:1"}, Chroot: "/x", SessionTimeout: 10 * time.Second}},
		{url: "zks://a:1,b:2/x", want: Config{Servers: []string{"a:1", "b:2"}, Chroot: "/x", TLS: &tls.Config{MinVersion: tls.VersionTLS12}}},
		{url: "zk://a:1?tick=500ms&timeout=4s", want: Config{Servers: []string{"a:1"}, SessionTimeout: 4 * time.Second, TickTime: 500 * time.Millisecond}},
		{url: "unix:///run/zk.sock", want: Config{Servers: []string{"unix:///run/zk.sock"}}},

		{url: "", err: "no scheme"},
		{url: "localhost:2181", err: "no scheme"},
		{url: "http://a", err: "unknown scheme"},
		{url: "file:///tmp/locks", err: "zklocal"},
		{url: "unix://relative", err: "absolute"},
		{url: "zk://", err: "empty host"},
		{url: "zk://a:1,", err: "empty host"},
		{url: "zk://:2181", err: "want host:port"},
		{url: "zk://a:1:2", err: "too many colons"},
		{url: "zk://user:secret@a:1", err: "credentials"},
		{url: "zks://user:secret@a:1", err: "credentials"},
		{url: "zks://a:1,b", err: "b has no port"},
		{url: "zks://[::1]", err: "no port"},
		{url: "zk://a/x//y", err: "empty component"},
		{url: "zk://a//", err: "empty component"},
		{url: "zk://a/../y", err: ".."},
		{url: "zk://a?timeout=soon", err: "timeout"},
		{url: "zk://a?timeout=-1s", err: "out of range"},
		{url: "zk://a?tick=-1s", err: "out of range"},
		{url: "zk://a?retries=3", err: "unknown parameter"},
	}
	for _, tt := range tests {
		t.Run(tt.url, func(t *testing.T) {
			got, err := ParseURL(tt.url)
			if tt.err == "" {
				if err != nil || !reflect.DeepEqual(got, tt.want) {
					t.Errorf("got %+v, %v; want %+v", got, err, tt.want)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got error %v; want one that says %q", err, tt.err)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
}
