package main

import (
	"net"
	"testing"

	"holdfast/zk"
	"holdfast/zkserver"
)

// startMemory returns the URL of a server in memory.
func startMemory(t *testing.T) string {
	t.Helper()
	server, err := zkserver.Open(zkserver.Config{Memory: zkserver.NewMemory()})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		server.Serve(l)
	}()
	t.Cleanup(func() {
		server.Close()
		<-served
	})
	return "zk://" + l.Addr().String()
}

func dialServer(t *testing.T, url string) *zk.Client {
	t.Helper()
	cfg, err := zk.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	c, err := zk.Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
