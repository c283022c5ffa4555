// Package act takes locks of others away: the commands break and revoke, and what all commands that do so have in common, which is
// the question, the reason and the audit line.
package act
