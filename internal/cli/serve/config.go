package serve

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"holdfast/internal/cli/certs"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
)

// ReadConfig sets the flags that the command line does not set from a YAML file. Its keys are the
// names of flags. The flags parse the values, so both places have the same syntax.
func ReadConfig(flags *pflag.FlagSet, path string) (certs.Origins, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, term.Misconfigured("", "serve: --config: %w", err)
	}
	top, err := conn.ParseMapping(path, text)
	if err != nil || top == nil {
		return nil, err
	}
	from := make(certs.Origins)
	given := make(map[string]bool)
	flags.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	for i := 0; i < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		at := fmt.Sprintf("%s:%d: %s", path, key.Line, key.Value)
		flag := flags.Lookup(key.Value)
		if flag == nil || flag.Hidden || flag.Name == "config" || flag.Name == "help" {
			hint := "the keys are the flags of serve without --: see holdfast serve --help"
			if near := term.NearestFlag(flags, key.Value); near != "" {
				hint = "did you mean " + near + "?"
			}
			return nil, term.Misconfigured(hint, "%s: unknown key", at)
		}
		if earlier, twice := from[flag.Name]; twice {
			return nil, term.Misconfigured("", "%s: duplicate key, see %s", at, strings.TrimSuffix(earlier, ": "+key.Value))
		}
		from[flag.Name] = at
		if given[flag.Name] {
			continue
		}
		if err := setFromNode(flags, flag, value); err != nil {
			if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
				if err = invalid.Unwrap(); !strings.HasPrefix(err.Error(), `"`) { // the value
					err = fmt.Errorf("%q: %w", invalid.GetValue(), err)
				}
			}
			return nil, term.Misconfigured("", "%s:%d: %s: %w", path, value.Line, key.Value, err)
		}
	}
	for name := range given {
		delete(from, name) // the command line wins
	}
	return from, nil
}

// setFromNode sets a flag to a value. A repeatable flag also takes a list.
func setFromNode(flags *pflag.FlagSet, flag *pflag.Flag, value *yaml.Node) error {
	values := []*yaml.Node{value}
	_, many := flag.Value.(pflag.SliceValue)
	if many && value.Kind == yaml.SequenceNode {
		values = value.Content
	}
	for _, v := range values {
		switch {
		case v.Kind != yaml.ScalarNode && many:
			return errors.New("want a value or a list of values")
		case v.Kind != yaml.ScalarNode:
			return errors.New("want one value")
		case v.Tag == "!!null":
			return errors.New("the value is missing")
		}
		if err := flags.Set(flag.Name, v.Value); err != nil {
			return err
		}
	}
	return nil
}
