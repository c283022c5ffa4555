//go:build !race

package chaos_test

// fewSeeds is the number of seeds without -seeds.
const fewSeeds = 200

// shuffled: under the race detector goroutines run in random order.
const shuffled = false
