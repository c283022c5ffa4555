package conn

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holdfast/internal/cli/term"
)

// NewConfig returns the command config.
func NewConfig(g *Flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Configuration files and profiles",
		Long: `The commands that use locks take the values of their flags from these places. The first place that has
a value wins:

  1. the command line
  2. the environment: HOLDFAST_SERVER for --server, HOLDFAST_TLS_CA for --tls-ca, and so on
  3. the profile that --profile or HOLDFAST_PROFILE names, in the user's file, then in the system's
  4. the user's file: $HOLDFAST_CONFIG, or else $XDG_CONFIG_HOME/holdfast/config.yaml, where
     XDG_CONFIG_HOME is ~/.config if it is not set
  5. the system's file: /etc/holdfast/config.yaml
  6. the default

A file is YAML. Its keys are the flags without --. A relative path of a file begins at the directory of
the configuration file. An empty value ("") overrides a value of a later place.

  server: zk://zk1:2181,zk2:2181,zk3:2181
  session-timeout: 30s
  profiles:
    laptop:
      server: file:///home/me/locks
    production:
      server: zks://zk1:2281,zk2:2281,zk3:2281/team
      auth: sasl-digest:deploy
      password-file: production.password

holdfast refuses a file that other users can change, since they would decide which server grants your
locks. The file must belong to you or to root. On Windows, holdfast does not check this. An unknown key, a value that is wrong, or a profile that
no file has is an error. holdfast never goes on with another server.

A password is in a file of its own, never in a configuration file. If a service of systemd has
LoadCredential=holdfast.password:PATH, that password is used for --auth without --password-file.

holdfast serve has a file of its own: see holdfast serve --help. Set HOLDFAST_CONFIG=/dev/null (NUL on
Windows) to do without the user's file.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return term.Usage("holdfast config --help lists the commands", "unknown command %q for config", term.Cut(args[0], 40))
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(newConfigView(g))
	return cmd
}

// A ConfigDocument is the JSON of config view.
type ConfigDocument struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Files      []FileDocument    `json:"files"`
	Settings   []SettingDocument `json:"settings"`
}

// A FileDocument is a configuration file in a ConfigDocument.
type FileDocument struct {
	Path  string `json:"path"`
	Layer Layer  `json:"layer"`
	Found bool   `json:"found"`
}

// A SettingDocument is the value of a flag in a ConfigDocument.
type SettingDocument struct {
	Name   string `json:"name"` // of the flag, which is the key, too
	Value  string `json:"value"`
	Layer  Layer  `json:"layer"`
	Origin string `json:"origin"`
}

func newConfigView(g *Flags) *cobra.Command {
	var format term.Format
	var showOrigin bool
	cmd := &cobra.Command{
		Use:   "view [flags]",
		Short: "Show the settings in force, and where they come from",
		Long: `config view shows the values that a command with the same flags and environment would use. It connects
to no server and reads no password.

With --show-origin, or -o json, it tells where each value comes from: the flag, the environment
variable, FILE:LINE, or default.

Exit codes:
  0   the settings are printed
  2   wrong command line
  78  wrong configuration; the message has the file and the line`,
		Example: `  holdfast config view --show-origin
  holdfast config view --profile production -o json`,
		Args: term.Operands(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := newConfigDocument(g)
			if err != nil {
				return err
			}
			if format == "json" {
				return term.JSON(cmd.OutOrStdout(), d)
			}
			rows := [][]string{{"KEY", "VALUE"}}
			if showOrigin {
				rows[0] = append(rows[0], "ORIGIN")
			}
			for _, s := range d.Settings {
				row := []string{s.Name, s.Value}
				if showOrigin {
					row = append(row, s.Origin)
				}
				rows = append(rows, row)
			}
			return term.Table(cmd.OutOrStdout(), rows)
		},
	}
	g.Register(cmd)
	format.Register(cmd)
	cmd.Flags().BoolVar(&showOrigin, "show-origin", false, "tell where each value comes from")
	return cmd
}

// newConfigDocument returns the settings in force. It fails where a command that uses locks would fail before
// it reads another file.
func newConfigDocument(g *Flags) (ConfigDocument, error) {
	d := ConfigDocument{APIVersion: term.APIVersion, Kind: "Config", Files: []FileDocument{}, Settings: []SettingDocument{}}
	t, err := parseTarget(g.Server)
	if err != nil {
		return d, g.blame("server", err)
	}
	if err := g.CheckNamespace(); err != nil {
		return d, err
	}
	if g.Secure.auth+g.Secure.passwordFile != "" {
		if err := g.Secure.checkAuth(); err != nil { // or a password in the wrong place would be shown
			return d, err
		}
	}
	for _, c := range g.files {
		d.Files = append(d.Files, FileDocument{c.path, c.layer, c.found})
	}
	g.FlagSet.VisitAll(func(f *pflag.Flag) {
		s := SettingDocument{f.Name, f.Value.String(), LayerDefault, g.whence(f.Name)}
		if f.Name == "server" {
			s.Value = t.URL
		}
		if from, ok := g.from[f.Name]; ok {
			s.Layer = from.layer
		}
		d.Settings = append(d.Settings, s)
	})
	return d, nil
}
