//go:build race

package chaos_test

// fewSeeds are simulated unless -seeds says otherwise.
const fewSeeds = 60
