package zkserver

import (
	"sync"
	"time"
)

// footprintInterval is how long a footprint is remembered.
const footprintInterval = time.Second

// A footprint has the numbers of open files and of bytes on disk, for the four-letter words.
// Measuring them opens files, and few are reserved. So one caller at a time measures, and
// the others use its result. The zero value is ready for use. A footprint is safe for concurrent
// use.
type footprint struct {
	mu               sync.Mutex // held while one caller measures
	filesAt, diskAt  time.Time  // when the fields below were measured
	open, most, disk int64
}

// ofFiles returns how many files are open and how many may be. find is openFiles.
func (f *footprint) ofFiles(find func() (open, most int64)) (open, most int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.filesAt.IsZero() || time.Since(f.filesAt) >= footprintInterval {
		f.open, f.most = find()
		f.filesAt = time.Now()
	}
	return f.open, f.most
}

// ofDisk returns the bytes of the store's files. find adds them up.
func (f *footprint) ofDisk(find func() int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.diskAt.IsZero() || time.Since(f.diskAt) >= footprintInterval {
		f.disk = find()
		f.diskAt = time.Now()
	}
	return f.disk
}
