package zk_test

import (
	"context"
	"fmt"

	"holdfast/zk"
)

func ExampleSASLStart() {
	// SASL PLAIN (RFC 4616) has one token.
	plain := func(_ context.Context, server string) (zk.SASLStep, error) {
		return func([]byte) (response []byte, last bool, err error) {
			return []byte("\x00ann\x00secret"), true, nil
		}, nil
	}
	cfg := zk.Config{Servers: []string{"zk1.example.com:2181"}, Auth: []zk.Auth{zk.SASLAuth("PLAIN", "ann", plain)}}
	fmt.Println(cfg.Auth)
	// Output: [PLAIN user "ann"]
}

func ExampleSASLStep() {
	// A mechanism with two tokens: the first names the user, the second answers the server's challenge.
	tokens := 0
	step := zk.SASLStep(func(challenge []byte) (response []byte, last bool, err error) {
		if tokens++; tokens == 1 {
			return []byte("ann"), false, nil
		}
		return []byte("answer to " + string(challenge)), true, nil
	})
	first, last, _ := step(nil)
	fmt.Println(string(first), last)
	second, last, _ := step([]byte("7"))
	fmt.Println(string(second), last)
	// Output:
	// ann false
	// answer to 7 true
}
