package doctor

import (
	"fmt"
	"io"
	"strings"
	"time"

	"holdfast/internal/cli/term"
	"holdfast/internal/duration"
)

// Diagnosis is the result in JSON.
type Diagnosis struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Server     string    `json:"server"`
	Items      findings  `json:"items"`
	Problems   int       `json:"problems"`
	Warnings   int       `json:"warnings"`
	Reached    bool      `json:"reached"` // a server answered, or there is none to ask yet
	TookMS     int64     `json:"took_ms"`
	AsOf       time.Time `json:"as_of"`
}

// A state is the result of one examination.
type state string

const (
	stateOK      state = "ok"
	stateWarning state = "warning"
	stateProblem state = "problem"
)

// Finding is one line of doctor.
type Finding struct {
	Check string `json:"check"`
	State state  `json:"state"`
	Found string `json:"found"`
	Hint  string `json:"hint,omitempty"`
}

type findings []Finding

func (f *findings) ok(check, format string, args ...any) {
	*f = append(*f, Finding{check, stateOK, fmt.Sprintf(format, duration.InMessage(args)...), ""})
}

func (f *findings) warning(check, hint, format string, args ...any) {
	*f = append(*f, Finding{check, stateWarning, fmt.Sprintf(format, duration.InMessage(args)...), hint})
}

func (f *findings) problem(check, hint, format string, args ...any) {
	*f = append(*f, Finding{check, stateProblem, fmt.Sprintf(format, duration.InMessage(args)...), hint})
}

// print writes one line for each finding, and one for each hint.
func (f findings) print(w io.Writer) error {
	for _, one := range f {
		if _, err := fmt.Fprintf(w, "%-7s  %-11s  %s\n", one.State, one.Check, term.Escape(one.Found)); err != nil {
			return err
		}
		if one.Hint == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "%22shint: %s\n", "", term.Escape(one.Hint)); err != nil {
			return err
		}
	}
	return nil
}

// some returns the first of many names.
func some(all []string) string {
	const most = 3
	text := make([]string, 0, most)
	for _, s := range all[:min(most, len(all))] {
		text = append(text, term.Cut(s, 80))
	}
	if len(all) > most {
		return strings.Join(text, ", ") + fmt.Sprintf(" and %d more", len(all)-most)
	}
	return strings.Join(text, ", ")
}
