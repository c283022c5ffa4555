package terraform_test

import (
	"context"
	"sync"
	"testing"

	"holdfast/internal/htpasswd"
	"holdfast/terraform"
)

// userLine returns a line for a file of users. Its hash is as cheap as a file may have it.
func userLine(t *testing.T, name, password string) string {
	t.Helper()
	line, err := htpasswd.Line(name, "", password, htpasswd.LeastCost)
	if err != nil {
		t.Fatal(err)
	}
	return line
}

func auditor(events *[]terraform.Event) func(context.Context, terraform.Event) {
	var mu sync.Mutex
	return func(_ context.Context, e terraform.Event) {
		mu.Lock()
		defer mu.Unlock()
		*events = append(*events, e)
	}
}
