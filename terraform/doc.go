// Package terraform is an HTTP backend for Terraform and OpenTofu: it locks a state and stores it, in ZooKeeper.
//
//	backend, err := terraform.New(terraform.Config{Client: client})
//	http.ListenAndServe("127.0.0.1:8080", backend)
//
// Each workspace of each project has an address of its own. The clients need nothing else in their files than
// backend "http" {}:
//
//	TF_HTTP_ADDRESS=http://127.0.0.1:8080/tf/app/default
//	TF_HTTP_LOCK_ADDRESS=http://127.0.0.1:8080/tf/app/default/lock
//	TF_HTTP_UNLOCK_ADDRESS=http://127.0.0.1:8080/tf/app/default/lock
//
// # What it promises
//
//   - A lock is a persistent node. It outlives this process, its session and the client, until the client or a
//     person unlocks it. With Config.Ephemeral, a lock dies with this process instead.
//   - A state is stored only while its lock is held: both are checked in one transaction. A POST without an id
//     (-lock=false) is stored if nobody holds the lock: the Backend takes the lock for that moment.
//   - Requests can be repeated. The clients send LOCK, POST and UNLOCK again if the answer is lost, and get the same
//     answer.
//   - A run whose state was refused or not stored leaves the workspace dirty: nobody else can lock it until the
//     state is pushed, or a person forgives it. Otherwise the next run would plan on an old state. With
//     Config.Ephemeral, so does a run that has not unlocked when the Backend is closed, unless it is a plan.
//   - The queue is fair among open requests. The first LOCK of an id is answered at once. Later ones are held open for
//     Config.Poll, and the lock is granted only while such a request lives. A waiter that has died blocks nobody.
//   - States are never logged.
//
// # Nodes
//
//	/tf/PROJECT                      data: why the project is frozen
//	/tf/PROJECT/WORKSPACE            data: why the workspace is frozen
//	…/lock                           the lock, in holdfast's own layout: holdfast status shows it
//	…/state                          which version is the present one, and the list of the kept ones
//	…/versions/NAME/0000             the pieces of a version, gzip (with Config.StateDir: files)
//	…/dirty/HASH                     a run whose state is not stored
//
// # Goroutines
//
// The package starts none for requests. With Config.Ephemeral, each held lock has a goroutine that waits for its end
// or its loss. Backend.Close ends them.
package terraform
