//go:build cgo

package supervise

/*
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static unsigned char ignored[65];

// A constructor runs before Go's runtime starts: see early_nocgo_linux.go.
__attribute__((constructor)) static void look(void) {
	static const char refusal[] = "holdfast: the address space is too small: Go programs need ulimit -v 1750000 or more\n";
	struct rlimit space;
	if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur < (rlim_t)1750000 << 10) {
		if (write(2, refusal, strlen(refusal)) < 0) {} // nobody hears it
		_exit(125);
	}
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
