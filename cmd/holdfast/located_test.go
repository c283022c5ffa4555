package main

import (
	"holdfast"
	"holdfast/internal/locks"
)

// placed returns the places of a lock's queue.
func placed(entries []holdfast.Entry) (all []locks.Place) {
	for _, e := range entries {
		all = append(all, locks.Place{Entry: e})
	}
	return all
}
