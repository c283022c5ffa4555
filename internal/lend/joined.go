package lend

import (
	"errors"
	"strings"
)

// Joined is errors.Join with the texts in one line: logs and messages have one line for an error. A text that is there
// already is left out.
func Joined(errs ...error) error {
	all, _ := errors.Join(errs...).(interface{ Unwrap() []error })
	if all == nil {
		return nil
	}
	if some := all.Unwrap(); len(some) == 1 {
		return some[0]
	}
	return &joined{all.Unwrap()}
}

type joined struct{ errs []error }

func (j *joined) Error() string {
	var text string
	for _, err := range j.errs {
		switch one := err.Error(); {
		case text == "":
			text = one
		case !strings.Contains(text, one):
			text += "; " + one
		}
	}
	return text
}

func (j *joined) Unwrap() []error { return j.errs }
