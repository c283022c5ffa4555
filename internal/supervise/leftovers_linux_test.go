package supervise

import (
	"fmt"
	"regexp"
	"syscall"
	"testing"
	"time"
)

// A command leaves processes behind, which are killed. The user is told which.
func TestKilledLeftoversAreNamed(t *testing.T) {
	const many = maxNamed + 3
	const runs = `until test "$(cat /proc/$!/comm)" = sleep; do :; done; `
	for _, tt := range []struct {
		name   string
		ending Ending
		script string
		signal syscall.Signal
		code   int
		want   string // of what is said of leftovers
	}{
		{name: "one", script: `sleep 1000 & ` + runs + `exit 3`, code: 3, want: `killing 1 process that the command left behind: \d+ \(sleep\)`},
		{name: "in another session", script: `setsid sh -c 'sleep 1000 & echo > "$0/up"; wait' "$0" & until test -e "$0/up"; do sleep 0.01; done; exit 3`, code: 3, want: `killing 2 processes that the command left behind: \d+ \(s[a-z]+\), \d+ \(s[a-z]+\)`},
		{name: "stopped", script: `sleep 1000 & ` + runs + `kill -STOP $!; exit 3`, code: 3, want: `killing 1 process that the command left behind: \d+ \(sleep\)`},
		{
			name: "many", script: fmt.Sprintf(`for i in $(seq %d); do sleep 1000 & %sdone; exit 3`, many, runs), code: 3,
			want: fmt.Sprintf(`killing %d processes that the command left behind: (\d+ \(sleep\), ){%d}\d+ \(sleep\) and 3 more`, many, maxNamed-1),
		},
		{name: "a strange name", script: `cp "$(command -v sleep)" "$0/) x"; "$0/) x" 1000 & until read name < /proc/$!/comm && test "$name" = ") x"; do :; done; exit 3`, code: 3, want: `killing 1 process that the command left behind: \d+ \(\) x\)`},
		{name: "the command is killed", script: `sleep 1000 & ` + runs + `kill -SEGV $$`, code: 128 + 11, want: `killing 1 process that the command left behind: \d+ \(sleep\)`},
		{name: "after a TERM that the command handles", script: `trap 'exit 3' TERM; (trap '' TERM; exec sleep 1000) & ` + runs + `echo ready; wait`, signal: syscall.SIGTERM, code: 3, want: `killing 1 process that the command left behind: \d+ \(sleep\)`},
		{name: "none", script: `sleep 0.01; (exit 3); exit 3`, code: 3},
		{name: "ended before", script: `(exit 1) & (exit 2) & sleep 0.05; exit 3`, code: 3},
		{name: "spared", ending: Ending{Leftovers: LeftoversIgnored}, script: `sleep 0.5 & exit 3`, code: 3},
		{name: "awaited", ending: Ending{Leftovers: LeftoversAwaited}, script: `sleep 0.2 & exit 3`, code: 3},
		// The user has stopped all of the job.
		{name: "after a TERM", script: `(trap '' TERM; exec sleep 1000) & ` + runs + `echo ready; wait`, signal: syscall.SIGTERM, code: 128 + 15},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.ending.Grace = time.Second
			s := startEnding(t, tt.ending, "sh", "-c", tt.script, t.TempDir())
			if tt.signal != 0 {
				s.waitFor("ready")
				s.signal(tt.signal)
			}
			s.want(outcome{Code: tt.code})
			_ = s.cmd.Wait() // it has said all
			said := regexp.MustCompile(`(?m)^supervise: killing .*left behind.*$`).FindString(s.stderr.String())
			if tt.want == "" && said != "" || tt.want != "" && !regexp.MustCompile(`^supervise: `+tt.want+`$`).MatchString(said) {
				t.Errorf("said %q; want %q", said, tt.want)
			}
		})
	}
}
