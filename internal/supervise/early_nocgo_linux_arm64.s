//go:build !cgo

#include "textflag.h"

// By C's calling convention: the arguments are in R0 to R5, and R19 to R30 stay as they are.

// int holdfast_sigaction(int sig, const struct sigaction *set, struct sigaction *before) refuses with EINVAL what does not
// only look. Then the runtime asks the kernel itself.
TEXT holdfast_sigaction(SB), NOSPLIT|NOFRAME, $0
	CBNZ	R1, refuse
	CBZ	R2, refuse
	MOVWU	R0, R9
	MOVD	R2, R10
	MOVD	$8, R3 // bytes of a set of signals
	MOVD	$134, R8 // rt_sigaction
	SVC
	CBNZ	R0, refuse
	MOVD	(R10), R11
	CMP	$1, R11 // SIG_IGN
	BNE	done
	CMP	$64, R9
	BHI	done
	MOVD	$·ignored(SB), R11
	MOVD	$1, R12
	MOVB	R12, (R11)(R9)
done:
	RET
refuse:
	MOVW	$22, R0 // EINVAL
	RET

// void *holdfast_mmap(void *addr, size_t n, int prot, int flags, int fd, uint32 off) returns an error as its number.
TEXT holdfast_mmap(SB), NOSPLIT|NOFRAME, $0
	MOVBU	·looked(SB), R9
	CBNZ	R9, map
	MOVD	$1, R9
	MOVB	R9, ·looked(SB)
	MOVD	R0, R9
	MOVD	R1, R10
	MOVD	R2, R11
	MOVD	R3, R12
	SUB	$16, RSP
	MOVD	$0, R0
	MOVD	$9, R1 // RLIMIT_AS
	MOVD	$0, R2
	MOVD	RSP, R3
	MOVD	$261, R8 // prlimit64
	SVC
	MOVD	(RSP), R13
	ADD	$16, RSP
	CBNZ	R0, enough
	MOVD	·leastSpace(SB), R14
	CMP	R14, R13
	BHS	enough
	MOVD	$2, R0
	MOVD	·refusal(SB), R1
	MOVD	·refusal+8(SB), R2
	MOVD	$64, R8 // write
	SVC
	MOVD	$125, R0
	MOVD	$94, R8 // exit_group
	SVC
enough:
	MOVD	R9, R0
	MOVD	R10, R1
	MOVD	R11, R2
	MOVD	R12, R3
map:
	MOVD	$222, R8 // mmap
	SVC
	CMN	$4095, R0
	BCC	mapped
	NEG	R0, R0
mapped:
	RET
