package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"holdfast"
	"holdfast/fence"
	"holdfast/zk"
	"holdfast/zktest"
)

// A holder is paused and cannot learn that its session is over. When it wakes up, its successor has
// already written. Without a fence its late write undoes the successor's. With a token, or in a
// transaction with its lock's node, it is refused.
func Example_pausedHolder() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()
	holder, successor := srv.Client(), srv.Client()
	const path = "/holdfast/locks/stock"

	first, err := holdfast.NewMutex(holder, path).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	stock := map[string]string{} // the protected data, in three places
	var gate fence.Gate
	if _, _, err := successor.Create(ctx, "/stock", []byte("10"), zk.Persistent); err != nil {
		log.Fatal(err)
	}

	// The holder has read 10, and is paused before it writes 9.
	srv.Expire(first.SessionID())
	second, err := holdfast.NewMutex(successor, path).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	write := func(h *holdfast.Hold, value string) {
		stock["unfenced"] = value
		if leave, err := gate.Enter(ctx, "stock", h.Token()); errors.Is(err, fence.ErrStale) {
			fmt.Println(value, "refused by its token")
		} else {
			stock["fenced"] = value
			leave()
		}
		set := zk.SetOp("/stock", []byte(value), zk.AnyVersion)
		_, err := h.Commit(ctx, set)
		for zk.MayHaveHappened(err) { // the answer was lost; writing the same again is harmless
			_, err = h.Commit(ctx, set)
		}
		if errors.Is(err, holdfast.ErrLost) {
			fmt.Println(value, "refused by Commit")
		}
	}
	write(second, "8 (successor)")
	write(first, "9 (woke up)")

	data, _, err := successor.Get(ctx, "/stock")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("unfenced: ", stock["unfenced"])
	fmt.Println("fenced:   ", stock["fenced"])
	fmt.Println("ZooKeeper:", string(data))
	// Output:
	// 9 (woke up) refused by its token
	// 9 (woke up) refused by Commit
	// unfenced:  9 (woke up)
	// fenced:    8 (successor)
	// ZooKeeper: 8 (successor)
}

// A service behind a Gate, and a client that holds the lock.
func ExampleGate() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx := context.Background()

	var gate fence.Gate
	files := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Println("stored", r.URL.Path) })
	service := httptest.NewServer(gate.Handler(func(r *http.Request) string { return r.URL.Path }, files))
	defer service.Close()

	put := func(h *holdfast.Hold) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPut, service.URL+"/report", strings.NewReader("..."))
		if err != nil {
			log.Fatal(err)
		}
		fence.Stamp(r, h)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			log.Fatal(err)
		}
		resp.Body.Close()
		fmt.Println(resp.Status)
	}
	m := holdfast.NewMutex(srv.Client(), "/holdfast/locks/report")
	for range 2 {
		h, err := m.Lock(ctx)
		if err != nil {
			log.Fatal(err)
		}
		put(h)
		h.Unlock()
		defer put(h) // too late, once another holder has been there
	}
	// Output:
	// stored /report
	// 200 OK
	// stored /report
	// 200 OK
	// stored /report
	// 200 OK
	// 412 Precondition Failed
}

// A transaction that only the current holder of the lock can commit.
func ExampleInTx() {
	var db *sql.DB // opened with your driver, after fence.CreateTable
	book := func(ctx context.Context, account *holdfast.Mutex, amount int) error {
		return holdfast.Do(ctx, account, func(ctx context.Context) error {
			h, _ := holdfast.FromContext(ctx)
			return fence.InTx(ctx, db, fence.PostgreSQL, h, func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, `UPDATE account SET balance = balance + $1`, amount)
				return err
			})
		})
	}
	_ = book
}
