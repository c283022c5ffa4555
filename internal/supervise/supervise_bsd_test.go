//go:build unix && !linux

package supervise

func watchdogPID(*Supervisor) int { return 0 }

func spareInTest(int) bool { return false }

func prepareProcess() {}
