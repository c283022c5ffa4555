package zk

import "sync"

// A Shared gives each client, or each session, a value of its own. Packages that build on the client keep in it what the
// callers of one client share. The value begins as the zero value of T, and goes with the client. A Shared is a variable of a
// package; it must not be copied. Its methods are safe for concurrent use.
type Shared[T any] struct {
	_ byte // so that two of them have two addresses
}

// Of returns the value of a client.
func (s *Shared[T]) Of(c *Client) *T { return sharedIn[T](&c.shared, s) }

// In returns the value of a session.
func (s *Shared[T]) In(session *Session) *T { return sharedIn[T](&session.shared, s) }

func sharedIn[T any](values *sync.Map, key any) *T {
	v, ok := values.Load(key)
	if !ok {
		v, _ = values.LoadOrStore(key, new(T))
	}
	return v.(*T)
}
