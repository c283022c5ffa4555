package zk_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"holdfast/zk"
	"holdfast/zktest"
)

func ExampleDial() {
	srv := zktest.NewServer() // stands for your ensemble
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	name, _, err := c.Create(ctx, "/job-", []byte("resize"), zk.PersistentSequential)
	if err != nil {
		log.Fatal(err)
	}
	data, stat, err := c.Get(ctx, name)
	fmt.Println(name, string(data), stat.Version, err)
	// Output: /job-0000000000 resize 0 <nil>
}

func ExampleClient_GetW() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, _, err := c.Create(ctx, "/config", []byte("v1"), zk.Persistent); err != nil {
		log.Fatal(err)
	}
	_, _, w, err := c.GetW(ctx, "/config")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := c.Set(ctx, "/config", []byte("v2"), zk.AnyVersion); err != nil {
		log.Fatal(err)
	}
	ev := <-w.C
	fmt.Println(ev.Type, ev.Path)
	// Output: NodeDataChanged /config
}

// All of a transaction happens, or nothing.
func ExampleClient_Multi() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, _, err := c.Create(ctx, "/a", nil, zk.Persistent); err != nil {
		log.Fatal(err)
	}
	_, err = c.Multi(ctx, zk.CreateOp("/a/b", nil, zk.Persistent), zk.CheckOp("/a", 7))
	fmt.Println(err, errors.Is(err, zk.ErrBadVersion))
	// Output: zk: check /a: version conflict true
}

// Operations in one flush: one round trip for all of them.
func ExampleClient_Pipeline() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c, err := zk.Dial(ctx, srv.Config())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	r, err := c.Pipeline(ctx, zk.CreateOp("/a", []byte("x"), zk.Ephemeral), zk.GetOp("/a"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r[0].Path, string(r[1].Data))
	// Output: /a x
}
