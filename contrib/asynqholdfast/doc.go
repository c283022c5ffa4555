// Package asynqholdfast has no code of its own: asynq needs no adapter. Its example runs one asynq.Scheduler per fleet, on the
// host that leads an election, and its tests run that against a Redis server. docs/howto/schedulers.md explains it. It is a module of its
// own, so programs without it do not get asynq.
package asynqholdfast
