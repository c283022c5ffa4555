// Package store keeps the state of a server: nodes, sessions, and a few facts about
// the server itself. The package treats them as keys and opaque values; only the tree
// can decode a node's record.
//
// There are two stores: a [Journal] in a directory, and [Memory], which lasts as long as its value
// does. One goroutine at a time calls Commit. It may be another goroutine each time.
//
// # Files
//
// A directory has numbered journals (00000007.journal) and a snapshot (00000006.snapshot: the state
// after journal 6). The snapshot and the journals with higher numbers, in order, are the state. A
// change is the new value of a key; it is not an operation. So only the last change of a key
// matters, and reading the state is a merge of files (snapshot.go).
//
// The directory is opened once (osDir), and all files are opened in it. So the store stays in this
// directory if another one gets its path.
//
// A journal is a header and batches, one after the other (format.go). Each batch has a
// number, its length and a checksum. The numbers continue from journal to journal. Each
// batch begins with the mark of its file, a random number, so that the bytes of another
// file never pass for a batch. A file says its format; a store may have files of the present format and of the
// one before (format3.go).
//
// A new journal is written under a temporary name, with its header and its reserved space, and
// synced (makeFile). The batches before it are synced, it is renamed, and the directory is synced (nameFile).
// After that the previous journal is never written again.
//
// Every start begins a new journal. So does a commit that finds the journals longer
// than the snapshot, or too many of them (compact). The header of a journal has the
// number of its first batch. This number also says where the previous journal ends: any
// bytes after that end were never acknowledged.
//
// A goroutine merges the snapshot and the complete journals into the next snapshot
// while commits continue in the new journal. It reads files only, so the server has no
// part in it. It holds the keys of these journals in memory. It removes the old files
// when the name of the new snapshot is durable. If it is interrupted, the old files
// still are the state.
//
// # The end of the last journal
//
// After a crash the last journal may end with batches that were never acknowledged:
// torn, or with gaps between them. They are dropped. Damage of an acknowledged batch
// looks the same, and must not be dropped (recover.go). Three witnesses tell the two
// apart:
//
//   - The header of the next journal has the number of its first batch.
//   - Every batch says up to which number all batches had been synced when it was
//     written. So a later batch of the journal testifies for the earlier ones.
//   - The file "committed" (witness.go) has the number of the last synced batch
//     and of the last written batch. The second number counts until the machine
//     restarts, which the kernel's boot id shows. The file is written after
//     every batch and never synced. It is the only witness of the very last batch.
//
// # Failures
//
// The first failed change of the current journal, of its name or of the witness is the last change. A failed
// sync must never be retried, because the kernel may have dropped the pages that it could not write. Commit
// returns the error from then on, and the server stops. The next start reads the files. Some batches at the end
// are not known to be synced, and may be in the page cache only. The start writes these batches again.
//
// Anything else is tried again, and Commit works meanwhile (Trouble): the file of the next journal, before it
// has its name, and the snapshot. Each attempt writes a new file. Damage is no such failure, and neither is a
// file that somebody has removed.
package store
