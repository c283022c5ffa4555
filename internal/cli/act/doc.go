// Package act is what the commands that act on locks of others have in common: the question, the reason and the audit line.
package act
