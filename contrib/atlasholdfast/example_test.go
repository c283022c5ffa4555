package atlasholdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"
	"time"

	"ariga.io/atlas/sql/schema"

	"holdfast"
	"holdfast/contrib/atlasholdfast"
	"holdfast/zktest"
)

func Example() {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx, c := context.Background(), srv.Client() // zk.Dial in a program

	locker := atlasholdfast.New(c, "/db/atlas", holdfast.WithReason("schema of the shop"))
	unlock, err := locker.Lock(ctx, "shop", 10*time.Second)
	switch {
	case errors.Is(err, schema.ErrLocked):
		log.Fatal("another program migrates")
	case err != nil:
		log.Fatal(err)
	}
	migrateShop(ctx) // migrate.Executor of Atlas in a program
	if err := unlock(); errors.Is(err, holdfast.ErrLost) {
		log.Print("check the database: another program may have migrated at the same time")
	}
	fmt.Println(err)
	// Output: <nil>
}

func migrateShop(context.Context) {}

// With the lock of the database as well, in the session that migrates. It needs a database, so it is not run here.
func Example_lockOfTheDatabase() {
	migrate := func(ctx context.Context, drv schema.Locker, locker *atlasholdfast.Locker) error {
		// drv is from postgres.Open or mysql.Open of Atlas, called with one *sql.Conn.
		unlock, err := locker.Lock(ctx, "shop", 10*time.Second)
		if err != nil {
			return err
		}
		unlockDB, err := drv.Lock(ctx, "shop", time.Minute)
		if err != nil {
			return errors.Join(err, unlock())
		}
		migrateShop(ctx)
		return errors.Join(unlockDB(), unlock())
	}
	_ = migrate
}

// The README shows lines of the example.
func TestTheReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(readme), "```go\n")[1:]
	if len(blocks) == 0 {
		t.Error("the README shows no Go")
	}
	for _, b := range blocks {
		if code, _, _ := strings.Cut(b, "```"); !strings.Contains(squeeze(string(source)), squeeze(code)) {
			t.Errorf("example_test.go does not have these lines:\n%s", code)
		}
	}
}

// squeeze takes indentation for no difference.
func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }
