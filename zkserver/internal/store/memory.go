package store

import (
	"bytes"
	"sync"
)

// Memory is a store that lasts as long as the value itself. Servers that run one after the other on
// the same Memory are restarts of each other.
type Memory struct {
	mu     sync.Mutex
	values map[string][]byte
	inUse  bool
}

// NewMemory returns an empty store.
func NewMemory() *Memory { return &Memory{values: make(map[string][]byte)} }

// Load implements Store.
func (m *Memory) Load(init Meta, visit Visitor) (Meta, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.inUse {
		return Meta{}, ErrInUse
	}
	if len(m.values) == 0 {
		m.apply(fresh(init))
	}
	var meta Meta
	for key, value := range m.values {
		if err := dispatch([]byte(key), value, &meta, visit); err != nil {
			return Meta{}, err
		}
	}
	m.inUse = true
	return meta, nil
}

// Commit implements Store.
func (m *Memory) Commit(b *Batch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.apply(b)
	return nil
}

func (m *Memory) apply(b *Batch) {
	b.each(func(key, value []byte) error {
		if value == nil {
			delete(m.values, string(key))
		} else {
			m.values[string(key)] = bytes.Clone(value)
		}
		return nil
	})
}

// Restored implements Store: a store in memory is no copy.
func (m *Memory) Restored() error { return nil }

// Waits implements Store: there is no disk.
func (m *Memory) Waits() bool { return false }

// Close implements Store. Committed batches stay.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inUse = false
	return nil
}
