package zkserver

import (
	"sync"
	"time"
)

// footprintInterval is how long a footprint is remembered.
const footprintInterval = time.Second

// A footprint is what the server uses of files and of the disk, as four-letter words tell it.
// Finding it out takes open files, which the reserve has few of. So one caller at a time finds
// it out, and others take what that one has found. The zero value is ready for use.
type footprint struct {
	mu               sync.Mutex // held by the one that finds it out
	filesAt, diskAt  time.Time  // when the fields below were found out
	open, most, disk int64
}

// ofFiles returns how many files are open and may be. The find function is openFiles.
func (f *footprint) ofFiles(find func() (open, most int64)) (open, most int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.filesAt.IsZero() || time.Since(f.filesAt) >= footprintInterval {
		f.open, f.most = find()
		f.filesAt = time.Now()
	}
	return f.open, f.most
}

// ofDisk returns the bytes of the store's files, which find adds up.
func (f *footprint) ofDisk(find func() int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.diskAt.IsZero() || time.Since(f.diskAt) >= footprintInterval {
		f.disk = find()
		f.diskAt = time.Now()
	}
	return f.disk
}
