// Package passwd is the command that makes a line for a file of users.
package passwd
