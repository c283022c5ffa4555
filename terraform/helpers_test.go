package terraform_test

import (
	"context"
	"sync"

	"holdfast/terraform"
)

func auditor(events *[]terraform.Event) func(context.Context, terraform.Event) {
	var mu sync.Mutex
	return func(_ context.Context, e terraform.Event) {
		mu.Lock()
		defer mu.Unlock()
		*events = append(*events, e)
	}
}
