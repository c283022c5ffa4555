// Package host starts the detached server of a file:// store, and has what that server does to be independent of the job
// that started it.
package host
