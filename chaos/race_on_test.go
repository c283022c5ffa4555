//go:build race

package chaos_test

// fewSeeds are simulated unless -seeds says otherwise.
const fewSeeds = 60

// shuffled: under the race detector goroutines run in random order.
const shuffled = true
