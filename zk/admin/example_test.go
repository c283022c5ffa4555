package admin_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"holdfast/zk"
	"holdfast/zk/admin"
	"holdfast/zktest"
)

// Which identities does the server know us by?
func ExampleClientInfo() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	cfg := srv.Config()
	cfg.Auth = []zk.Auth{zk.DigestAuth("app", "secret")}
	c, err := zk.Dial(ctx, cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	infos, err := admin.WhoAmI(ctx, c)
	fmt.Println(infos, err)
	// Output: [{digest app}] <nil>
}

func ExampleEnsemble() {
	srv := zktest.NewServer()
	defer srv.Close()
	e, _, err := admin.Config(context.Background(), srv.Client())
	fmt.Println(len(e.Members), err) // a single server has no members
	// Output: 0 <nil>
}

// Where clients reach the members of an ensemble.
func ExampleMember() {
	members := []admin.Member{{ID: 1, Peers: "zk1:2888:3888", Client: "zk1:2181"}, {ID: 2, Peers: "zk2:2888:3888", Observer: true, Client: "zk2:2181"}}
	var cfg zk.Config
	for _, m := range members { // use the members of an Ensemble here
		if m.Client != "" {
			cfg.Servers = append(cfg.Servers, m.Client)
		}
	}
	fmt.Println(cfg.Servers)
	// Output: [zk1:2181 zk2:2181]
}

// Ensembles allow reconfiguration only if configured to; a test server never does.
func ExampleReconfiguration() {
	srv := zktest.NewServer()
	defer srv.Close()
	_, _, err := admin.Reconfig(context.Background(), srv.Client(), admin.Reconfiguration{
		Join:  []string{"server.4=zk4:2888:3888;2181"},
		Leave: []int64{1},
	}, zk.AnyVersion)
	fmt.Println(err, errors.Is(err, admin.ErrReconfigDisabled))
	// Output: zk: reconfig: reconfiguration is disabled true
}

// How many nodes are below a node, at any depth?
func ExampleCaller() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx, c := context.Background(), srv.Client()
	for _, path := range []string{"/app", "/app/jobs", "/app/jobs/1"} {
		if _, _, err := c.Create(ctx, path, nil, zk.Persistent); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(admin.AllChildrenNumber(ctx, c, "/app"))
	// Output: 2 <nil>
}
