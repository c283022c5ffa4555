// Package htpasswd reads files of users for programs that serve HTTP: the page and the backend for Terraform.
//
// The format is the one of Apache and nginx, with hashes of bcrypt. A line is NAME:HASH or NAME:HASH:NOTE, as
//
//	htpasswd -nB -C 12 NAME
//
// prints it. Empty lines and lines that begin with # are skipped. Apache and nginx skip the note; the page reads the role of
// the user there.
package htpasswd
