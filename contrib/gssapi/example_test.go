package gssapi_test

import (
	"context"
	"log"

	"holdfast"
	"holdfast/contrib/gssapi"
	"holdfast/zk"
)

func Example() {
	ctx := context.Background()
	auth, err := gssapi.New(gssapi.Config{Principal: "app/web1.example.com", Keytab: "/etc/app.keytab"})
	if err != nil {
		log.Fatal(err)
	}
	client, err := zk.Dial(ctx, zk.Config{Servers: []string{"zk1.example.com:2181", "zk2.example.com:2181"}, Auth: []zk.Auth{auth}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	hold, err := holdfast.NewMutex(client, "/app/locks/nightly").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer hold.Unlock()
}
