package gooseholdfast_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	_ "github.com/mattn/go-sqlite3"
	"github.com/pressly/goose/v3"

	"holdfast"
	"holdfast/contrib/gooseholdfast"
	"holdfast/zktest"
)

var migrations = fstest.MapFS{
	"00001_users.sql":  {Data: []byte("-- +goose Up\nCREATE TABLE users (name TEXT);\n-- +goose Down\nDROP TABLE users;\n")},
	"00002_emails.sql": {Data: []byte("-- +goose Up\nALTER TABLE users ADD COLUMN email TEXT;\n")},
}

func Example() {
	srv := zktest.NewServer()
	defer srv.Close()
	dir, err := os.MkdirTemp("", "goose")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite3", filepath.Join(dir, "app.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	ctx, c := context.Background(), srv.Client() // zk.Dial in a program

	lock := gooseholdfast.New(holdfast.NewMutex(c, "/db/migrate"), goose.DialectSQLite3, slog.Default())
	p, err := goose.NewProvider(goose.DialectSQLite3, db, migrations, goose.WithSessionLocker(lock))
	if err != nil {
		log.Fatal(err)
	}
	done, err := p.Up(ctx)
	switch {
	case errors.Is(err, holdfast.ErrLost):
		log.Fatal("check the database: another program may have migrated at the same time: ", err)
	case err != nil:
		log.Fatal(err)
	}
	log.Printf("%d migrations ran", len(done))
	fmt.Println(len(done))
	// Output: 2
}

// Without this locker: the migration's context ends when the lock is lost. A driver of PostgreSQL then cancels the statement,
// and the database rolls the transaction of the current migration back.
func Example_stopOnLoss() {
	srv := zktest.NewServer()
	defer srv.Close()
	db, err := sql.Open("sqlite3", "file:stop?mode=memory&cache=shared")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	ctx, c := context.Background(), srv.Client()

	p, err := goose.NewProvider(goose.DialectSQLite3, db, migrations)
	if err != nil {
		log.Fatal(err)
	}
	err = holdfast.Do(ctx, holdfast.NewMutex(c, "/db/migrate"), func(ctx context.Context) error {
		_, err := p.Up(ctx)
		return err
	})
	fmt.Println(err)
	// Output: <nil>
}

// The README shows lines of the examples.
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
		if code, _, _ := strings.Cut(b, "```"); !strings.Contains(string(source), code) {
			t.Errorf("example_test.go does not have these lines:\n%s", code)
		}
	}
}
