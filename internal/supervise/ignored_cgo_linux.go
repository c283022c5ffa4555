//go:build cgo

package supervise

/*
#include <signal.h>

static unsigned char ignored[65];

// A constructor runs before Go's runtime starts.
__attribute__((constructor)) static void look(void) {
	struct sigaction a;
	for (int sig = 1; sig < 65; sig++)
		ignored[sig] = sigaction(sig, 0, &a) == 0 && a.sa_handler == SIG_IGN;
}

static int was_ignored(int sig) { return ignored[sig]; }
*/
import "C"

import "syscall"

// wasIgnored reports whether this process was started to ignore sig.
func wasIgnored(sig syscall.Signal) bool { return C.was_ignored(C.int(sig)) != 0 }
