// Package conn brings a command to its server: the flags that every client command has, the configuration files, the
// server's address, the connection, and the names of locks.
package conn
