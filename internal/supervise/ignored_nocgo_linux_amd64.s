//go:build !cgo

#include "textflag.h"

// int holdfast_look(int sig, const struct sigaction *set, struct sigaction *before), by C's calling convention
TEXT holdfast_look(SB), NOSPLIT|NOFRAME, $0
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
