//go:build !cgo

#include "textflag.h"

// int holdfast_look(int sig, const struct sigaction *set, struct sigaction *before), by C's calling convention
TEXT holdfast_look(SB), NOSPLIT|NOFRAME, $0
	CBNZ	R1, refuse
	CBZ	R2, refuse
	MOVW	R0, R9
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
