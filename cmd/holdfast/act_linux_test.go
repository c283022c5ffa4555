package main

import "testing"

// On a terminal, break asks for the lock's name, and sessions end for the session. Any other answer does nothing.
func TestBreakAsksOnATerminal(t *testing.T) {
	t.Parallel()
	c := startConsole(t)
	c.enter("holdfast lock db >out & until [ -s out ]; do sleep 0.1; done; T=$(sed 's/.*token=\\([0-9]*\\).*/\\1/' out); echo rea''dy")
	c.expect(`ready`)
	for _, answer := range []string{"yes", "", "d b"} {
		c.enter("holdfast break --token $T db; echo code=$?")
		c.expect(`holds the lock`)
		c.expect(`To break it, type db: `)
		c.enter(answer)
		c.expect(`break: not confirmed; nothing was done`)
		c.expect(`code=1`)
	}
	c.enter("holdfast revoke --token $T db; echo code=$?")
	c.expect(`To revoke it, type db: `)
	c.enter("db")
	c.expect(`asked for db`)
	c.expect(`code=0`)
	c.enter("S=$(holdfast sessions | sed -n 's/^\\(0x[0-9a-f]*\\).*/\\1/p'); holdfast sessions end $S; echo code=$?")
	c.expect(`To take them away, type 0x[0-9a-f]+: `)
	c.enter("db")
	c.expect(`not confirmed`)
	c.expect(`code=1`)
	c.enter("holdfast break --token $T db; echo code=$?")
	c.expect(`To break it, type db: `)
	c.enter("db")
	c.expect(`broke db`)
	c.expect(`code=0`)
	c.enter("holdfast status db")
	c.expect(`db is free`)
}
