package migrateholdfast_test

import (
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database/stub"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"holdfast"
	"holdfast/contrib/migrateholdfast"
	"holdfast/zktest"
)

var migrations = fstest.MapFS{
	"1_users.up.sql":   {Data: []byte("CREATE TABLE users (name TEXT)")},
	"1_users.down.sql": {Data: []byte("DROP TABLE users")},
	"2_emails.up.sql":  {Data: []byte("ALTER TABLE users ADD COLUMN email TEXT")},
}

func Example() {
	srv := zktest.NewServer()
	defer srv.Close()
	c := srv.Client() // zk.Dial in a program
	driver, err := stub.WithInstance(nil, &stub.Config{})
	if err != nil {
		log.Fatal(err)
	}

	source, err := iofs.New(migrations, ".")
	if err != nil {
		log.Fatal(err)
	}
	// driver is from WithInstance of the package of your database.
	locked := migrateholdfast.New(driver, holdfast.NewMutex(c, "/db/migrate"), 0, slog.Default())
	m, err := migrate.NewWithInstance("iofs", source, "app", locked)
	if err != nil {
		log.Fatal(err)
	}
	err = m.Up()
	switch {
	case errors.Is(err, migrate.ErrNoChange):
	case errors.Is(err, holdfast.ErrLost):
		log.Fatal("check the database: another program may have migrated at the same time: ", err)
	case err != nil:
		log.Fatal(err)
	}
	fmt.Println(m.Version())
	// Output: 2 false <nil>
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
		if code, _, _ := strings.Cut(b, "```"); !strings.Contains(string(source), code) {
			t.Errorf("example_test.go does not have these lines:\n%s", code)
		}
	}
}
