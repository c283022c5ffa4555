// Package mcp is a server of the Model Context Protocol (https://modelcontextprotocol.io) over a pair of streams: one
// JSON-RPC 2.0 message a line. It offers tools and nothing else. It knows no locks.
//
// [Server.Serve] reads in the goroutine of its caller. Each call of a tool has a goroutine of its own, which ends when
// the tool returns. Serve waits for all of them before it returns.
package mcp
