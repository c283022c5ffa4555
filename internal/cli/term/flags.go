package term

import (
	"errors"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Operands checks a subcommand's arguments and names one that is missing or unexpected. A name in
// brackets is optional.
func Operands(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) > len(names):
			return Usage("usage: "+cmd.UseLine(), "%s: unexpected argument %q", cmd.Name(), Cut(args[len(names)], 100))
		case len(args) < len(names) && names[len(args)][0] != '[':
			return Usage("usage: "+cmd.UseLine(), "%s: no %s given", cmd.Name(), names[len(args)])
		}
		return nil
	}
}

// NearestFlag returns the flag whose name is most like name, or "" if none is close.
func NearestFlag(flags *pflag.FlagSet, name string) string {
	var names []string
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return NearestWord(names, name)
}

// NearestWord returns the one of words that is most like word, or "" if none is close.
func NearestWord(words []string, word string) (near string) {
	best := min(3, len(word)) // more than two changes, or as many as letters, make another word
	for _, w := range words {
		if d := distance(word, w); d < best {
			best, near = d, w
		}
	}
	return near
}

// distance returns how many letters must be added, removed or changed to turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// FlagReason returns the reason of an error of [pflag.FlagSet.Set], without the flag and the value.
func FlagReason(err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		err = invalid.Unwrap()
	}
	if number, ok := errors.AsType[*strconv.NumError](err); ok {
		switch {
		case errors.Is(number, strconv.ErrRange):
			return errors.New("the number is too large")
		case number.Func == "ParseFloat":
			return errors.New("want a number")
		case number.Func != "ParseBool":
			return errors.New("want a whole number")
		}
	}
	return err
}
