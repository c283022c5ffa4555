package store

// Sizes returns the bytes of the journals, without reserved space, and of the snapshot.
// Like Commit, it is not safe for concurrent use. A finished snapshot counts from the next Commit.
func (j *Journal) Sizes() (journals, snapshot int64) {
	journals = j.off
	for _, s := range j.segments {
		journals += s.bytes
	}
	return journals, j.snapshotSize
}
