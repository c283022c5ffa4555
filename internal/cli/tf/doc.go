// Package tf is the program holdfast-tf: it runs Terraform or OpenTofu with its state and its lock, and serves the backend
// for them.
package tf
