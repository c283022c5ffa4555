// Package store keeps what a server must not forget: nodes, sessions, and a few
// facts about itself. It knows them as keys and opaque values; what a node's record
// says is the tree's business.
//
// There are two stores: a [Journal] in a directory, and [Memory], which lasts as
// long as its value does. Commit is called by one goroutine at a time, and it may be
// another one each time.
//
// # Files
//
// A directory has numbered journals (00000007.journal) and at most one snapshot that
// counts (00000006.snapshot: the state behind journal 6). The state is the snapshot and
// the journals with higher numbers, in order. Changes are states and not operations: a
// change says what a key's value is from now on. So the last change of a key is all
// that matters, and no reader has to apply anything (merge, in snapshot.go).
//
// A journal is a header and batches, one behind the other (format.go). Each batch has a
// number, which goes on from journal to journal, its length, and a checksum. It begins with a
// random mark of its file, so that the bytes of another file never pass for a batch.
// A new journal is made, under a temporary name, with its header and its room synced;
// then it gets its name, and the directory is synced (makeJournal). A journal that has
// a successor is never written again.
//
// Every start begins a new journal, and so does a commit that finds the journals longer than
// the snapshot. The header of a journal says the number of its first batch, so it says
// what its predecessors have: whatever is behind that in them was never acknowledged.
//
// A goroutine merges the former snapshot and the journals that are complete into the next
// snapshot while commits go on in the new journal. It needs no memory but for the
// keys in these journals. The former files are removed when the new snapshot's name
// is durable. If anything interrupts this, the former files still are the state.
//
// # The end of the last journal
//
// Batches that were never acknowledged may be at the end of the last journal, in part or as a
// whole, or in no order, and are dropped. That must not hide damage of batches that
// were acknowledged (recover.go). Three witnesses contradict:
//
//   - the header of the next journal;
//   - a later batch of the same journal: every batch says up to which number all had
//     been synced when it was written;
//   - the file "committed" (witness.go), which has the number of the last batch that was
//     synced, and of the last one that was written. The latter counts until the machine
//     restarts, which the kernel's boot id tells. The file is written behind every batch
//     and not synced. It is the only one that knows about the very last batch.
//
// # Failures
//
// A change of the disk that fails is the last one: a sync must never be retried, since the
// kernel may have dropped the pages that it could not write. Commit returns that error
// from then on, also if it happened beside it, and the server stops. The next start reads
// what is there, and writes again what no batch says to be synced, because it may
// be in the page cache only.
package store
