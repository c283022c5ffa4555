//go:build !cgo

#include "textflag.h"

// By C's calling convention: the arguments are in DI, SI, DX, CX, R8 and R9, and BX, BP and R12 to R15 stay as they are.

// int holdfast_sigaction(int sig, const struct sigaction *set, struct sigaction *before) refuses with EINVAL what does not
// only look. Then the runtime asks the kernel itself.
TEXT holdfast_sigaction(SB), NOSPLIT|NOFRAME, $0
	TESTQ	SI, SI
	JNZ	refuse
	TESTQ	DX, DX
	JZ	refuse
	MOVL	$13, AX // rt_sigaction
	MOVQ	$8, R10 // bytes of a set of signals
	SYSCALL
	TESTQ	AX, AX
	JNZ	refuse
	CMPQ	0(DX), $1 // SIG_IGN
	JNE	done
	MOVL	DI, DI
	CMPQ	DI, $64
	JA	done
	LEAQ	·ignored(SB), R8
	MOVB	$1, (R8)(DI*1)
done:
	RET
refuse:
	MOVL	$22, AX // EINVAL
	RET

// void *holdfast_mmap(void *addr, size_t n, int prot, int flags, int fd, uint32 off) returns an error as its number.
TEXT holdfast_mmap(SB), NOSPLIT|NOFRAME, $0
	MOVL	CX, R10
	CMPB	·looked(SB), $0
	JNE	map
	MOVB	$1, ·looked(SB)
	SUBQ	$56, SP
	MOVQ	DI, 0(SP)
	MOVQ	SI, 8(SP)
	MOVQ	DX, 16(SP)
	MOVQ	R10, 24(SP)
	MOVL	$302, AX // prlimit64
	MOVL	$0, DI
	MOVL	$9, SI // RLIMIT_AS
	MOVL	$0, DX
	LEAQ	32(SP), R10
	SYSCALL
	TESTQ	AX, AX
	JNZ	enough
	MOVQ	32(SP), AX
	CMPQ	AX, ·leastSpace(SB)
	JAE	enough
	MOVL	$1, AX // write
	MOVL	$2, DI
	MOVQ	·refusal(SB), SI
	MOVQ	·refusal+8(SB), DX
	SYSCALL
	MOVL	$231, AX // exit_group
	MOVL	$125, DI
	SYSCALL
enough:
	MOVQ	0(SP), DI
	MOVQ	8(SP), SI
	MOVQ	16(SP), DX
	MOVQ	24(SP), R10
	ADDQ	$56, SP
map:
	MOVL	$9, AX // mmap
	SYSCALL
	CMPQ	AX, $0xfffffffffffff001
	JCS	mapped
	NEGQ	AX
mapped:
	RET
