//go:build !race

package chaos_test

// fewSeeds are simulated unless -seeds says otherwise.
const fewSeeds = 200

// shuffled: under the race detector goroutines run in random order.
const shuffled = false
