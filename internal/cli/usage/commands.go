package usage

import (
	"strings"

	"github.com/spf13/cobra"
)

// line is cobra's line of a command's usage, without the flags that the Use of the command does not name.
func line(cmd *cobra.Command) string {
	return strings.TrimSuffix(cmd.CommandPath(), cmd.Name()) + cmd.Use
}

// shown returns the commands below cmd that its help lists.
func shown(cmd *cobra.Command) (all []*cobra.Command) {
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			all = append(all, sub)
		}
	}
	return all
}

func topics(cmd *cobra.Command) (all []*cobra.Command) {
	for _, sub := range cmd.Commands() {
		if sub.IsAdditionalHelpTopicCommand() {
			all = append(all, sub)
		}
	}
	return all
}

func names(cmds []*cobra.Command) string {
	var all []string
	for _, cmd := range cmds {
		all = append(all, cmd.Name())
	}
	return strings.Join(all, ", ")
}
