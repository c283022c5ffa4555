package once

// Exports for the tests, which are in another package.

// EscapeKey returns the name of the directory of a key.
var EscapeKey = escapeKey

// ReadMark reads the data of a mark, and writes them again.
func ReadMark(data []byte) (r Result, again []byte, err error) {
	m, err := parseMark("/mark", data)
	if err != nil {
		return Result{}, nil, err
	}
	return m.result(), m.encode(), m.outcome()
}

// Shard returns the directory above that of a key.
func Shard(name string) string { m := marksOf("", name); return m.shard }

// Directory returns the directory of a key.
func Directory(path, key string) string { m := marksOf(path, key); return m.dir }
