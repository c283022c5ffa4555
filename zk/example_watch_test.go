package zk_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"holdfast/zk"
	"holdfast/zktest"
)

// A watch reports one change. For the next one, read again with a watch.
func ExampleWatch() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c := srv.Client()
	go c.Create(ctx, "/ready", nil, zk.Persistent)
	for {
		_, ok, w, err := c.ExistsW(ctx, "/ready")
		if err != nil {
			log.Fatal(err)
		}
		if ok {
			w.Stop()
			break
		}
		if ev := <-w.C; ev.Err != nil {
			log.Fatal(ev.Err) // the session is over
		}
	}
	fmt.Println("ready")
	// Output: ready
}

func ExampleEvent() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c := srv.Client()
	_, _, w, err := c.ExistsW(ctx, "/a")
	if err != nil {
		log.Fatal(err)
	}
	s, err := c.Session(ctx)
	if err != nil {
		log.Fatal(err)
	}
	srv.Expire(s.ID())
	ev := <-w.C
	fmt.Println(ev.Type, ev.Path, ev.Err)
	// Output: None /a session expired
}

func ExampleEventType() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c := srv.Client()
	_, _, w, err := c.ChildrenW(ctx, "/")
	if err != nil {
		log.Fatal(err)
	}
	if _, _, err := c.Create(ctx, "/a", nil, zk.Persistent); err != nil {
		log.Fatal(err)
	}
	switch ev := <-w.C; ev.Type {
	case zk.EventNodeChildrenChanged:
		fmt.Println("a child came or went")
	case zk.EventNodeDeleted:
		fmt.Println("the node is gone")
	}
	// Output: a child came or went
}

// A persistent watch reports every change, or says that it missed some.
func ExamplePersistentWatch() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c := srv.Client()
	w, err := c.AddWatch(ctx, "/config", zk.WatchPersistent)
	if err != nil {
		log.Fatal(err)
	}
	c.Create(ctx, "/config", []byte("v1"), zk.Persistent)
	c.Set(ctx, "/config", []byte("v2"), zk.AnyVersion)
	c.Delete(ctx, "/config", zk.AnyVersion)
	w.Stop() // closes C after the events in it
	for ev := range w.C {
		if errors.Is(ev.Err, zk.ErrEventsMissed) {
			fmt.Println("read everything again")
			continue
		}
		fmt.Println(ev.Type, ev.Path)
	}
	// Output:
	// NodeCreated /config
	// NodeDataChanged /config
	// NodeDeleted /config
}

// A recursive watch reports changes in a whole tree.
func ExampleWatchMode() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	c := srv.Client()
	w, err := c.AddWatch(ctx, "/services", zk.WatchPersistentRecursive)
	if err != nil {
		log.Fatal(err)
	}
	defer w.Stop()
	c.Create(ctx, "/services", nil, zk.Persistent)
	c.Create(ctx, "/services/api", nil, zk.Persistent)
	c.Create(ctx, "/services/api/10.0.0.5", nil, zk.Ephemeral)
	for range 3 {
		ev := <-w.C
		fmt.Println(ev.Type, ev.Path)
	}
	// Output:
	// NodeCreated /services
	// NodeCreated /services/api
	// NodeCreated /services/api/10.0.0.5
}
