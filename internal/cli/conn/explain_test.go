package conn

import (
	"errors"
	"strings"
	"testing"

	"holdfast/internal/cli/term"
)

// A server that hangs up at zk:// may want TLS, so the hint has what to write.
func TestHintForAPortThatMayWantTLS(t *testing.T) {
	for causes, want := range map[string]string{
		"zk1: EOF (the server does not serve yet; or its port wants TLS)": "if the port wants TLS, write zks:// instead of zk://; otherwise start a server there",
		"zk1: connection refused": "start a server there",
	} {
		err := Target{URL: "zk://zk1"}.Explain(&unreachable{causes: causes})
		fault, ok := errors.AsType[*term.Fault](err)
		if !ok || !strings.HasPrefix(fault.Hint, want) {
			t.Errorf("%s: %v; want the hint %q", causes, err, want)
		}
	}
}
