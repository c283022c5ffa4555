// Packaging makes a release of holdfast: what is published, as files in a directory. It needs Go, git and the
// modules, and no network once the modules are there.
//
//	cd packaging && go run . -version v0.1.0 -out ../dist
//
// release.go has the order of the steps: programs, manual pages and completions, archives, packages for Debian and
// RPM, an image, bills of materials, a formula, checksums. The same commit and the same Go make the same bytes, in
// any directory and at any time. All times in the files are that of the commit.
//
// It is a module of its own, so the libraries that write packages are no dependencies of holdfast.
package main
