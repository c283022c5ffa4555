package conn

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"holdfast/internal/cli/term"
	"holdfast/zklocal"
)

// A Layer is a place of settings. For each setting, the first layer that has it wins.
type Layer string

// The places, the first first.
const (
	LayerFlag        Layer = "flag"
	LayerEnvironment Layer = "environment"
	LayerProfile     Layer = "profile" // a section of either file
	LayerUser        Layer = "user"    // the user's file
	LayerSystem      Layer = "system"  // the system's file
	LayerCredential  Layer = "credential"
	LayerDefault     Layer = "default"
)

const (
	systemConfig   = "/etc/holdfast/config.yaml"
	maxConfig      = 1 << 20
	profilesKey    = "profiles"
	credentialName = "holdfast.password" // in $CREDENTIALS_DIRECTORY
)

// An origin is the place of one setting's value.
type origin struct {
	layer Layer
	at    string // the flag, the variable, or FILE:LINE
}

// A setting is a value in a configuration file.
type setting struct {
	value string
	line  int
}

// A configFile is the user's or the system's configuration file.
type configFile struct {
	path     string
	layer    Layer
	found    bool
	top      map[string]setting
	profiles map[string]map[string]setting
}

// Settle gives each flag of the client commands its value: from the command line, the environment, the
// profile, the user's file, the system's file, or the default.
func (g *Flags) Settle(flags *pflag.FlagSet) error {
	g.from = make(map[string]origin)
	var err error
	g.FlagSet.VisitAll(func(f *pflag.Flag) {
		env := EnvName(f.Name)
		value := os.Getenv(env)
		switch {
		case f.Changed:
			g.from[f.Name] = origin{LayerFlag, "--" + f.Name}
		case value == "" || err != nil:
		default:
			if err = flags.Set(f.Name, value); err != nil {
				err = term.Misconfigured("", "environment variable %s=%q: %w", env, term.Cut(value, 100), term.FlagReason(err))
			}
			g.from[f.Name] = origin{LayerEnvironment, env}
		}
	})
	if err != nil {
		return err
	}
	if g.files, err = readFiles(g.FlagSet, g.SystemFile); err != nil {
		return err
	}
	if err := g.fromFiles(flags); err != nil {
		return err
	}
	fromCredential(g, flags)
	g.Secure.from = g.from
	g.TimeoutGiven = flags.Changed("session-timeout")
	if !g.TimeoutGiven && isFile(g.Server) {
		g.Timeout = zklocal.DefaultSessionTimeout
	}
	if g.Timeout < 100*time.Millisecond || g.Timeout > 24*time.Hour {
		return g.blame("session-timeout", term.Misconfigured("give --session-timeout 15s, for example", "session timeout %v is out of range: want 100ms to 1d", g.Timeout))
	}
	return nil
}

// badValue returns the reason with the value.
func badValue(value string, err error) error {
	err = term.FlagReason(err)
	if strings.HasPrefix(err.Error(), `"`) { // the value
		return err
	}
	return fmt.Errorf("%q: %w", term.Cut(value, 100), err)
}

// readFiles reads the user's file and the system's file. Their keys are the names of flags.
func readFiles(flags *pflag.FlagSet, systemFile string) (all []*configFile, err error) {
	user, required := os.Getenv("HOLDFAST_CONFIG"), true
	if user == "" {
		required = false
		if user, err = userConfig(); err != nil {
			return nil, err
		}
	}
	for _, c := range []*configFile{{path: user, layer: LayerUser}, {path: systemFile, layer: LayerSystem}} {
		if c.path == "" {
			continue
		}
		if err := c.read(flags, required && c.layer == LayerUser); err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// userConfig returns the path of the user's file, or "" if the user has no home directory.
func userConfig() (string, error) {
	dir := os.Getenv("XDG_CONFIG_HOME")
	switch home, err := os.UserHomeDir(); {
	case dir != "" && !filepath.IsAbs(dir):
		return "", term.Misconfigured("set XDG_CONFIG_HOME to an absolute path, or unset it", "XDG_CONFIG_HOME=%q is not an absolute path", term.Cut(dir, 100))
	case dir == "" && (err != nil || !filepath.IsAbs(home)):
		return "", nil
	case dir == "":
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "holdfast", "config.yaml"), nil
}

// read reads the file. A file that does not exist has no settings, unless it is required.
func (c *configFile) read(flags *pflag.FlagSet, required bool) error {
	text, err := readTrusted(c.path)
	switch {
	case err != nil && !required && absent(c.path):
		return nil
	case err != nil:
		return err
	}
	c.found = true
	top, err := ParseMapping(c.path, text)
	if err != nil || top == nil {
		return err
	}
	var sections *yaml.Node
	if c.top, err = c.section(flags, top, &sections); err != nil || sections == nil {
		return err
	}
	const want = "want the names of profiles, and their settings in indented lines below each name"
	if sections.Kind != yaml.MappingNode {
		return term.Misconfigured("", "%s:%d: %s: %s", c.path, sections.Line, profilesKey, want)
	}
	c.profiles = make(map[string]map[string]setting)
	for i := 0; i < len(sections.Content); i += 2 {
		key, body := sections.Content[i], sections.Content[i+1]
		name := term.Cut(key.Value, 40)
		switch _, twice := c.profiles[key.Value]; {
		case twice:
			return term.Misconfigured("", "%s:%d: the profile %q occurs twice", c.path, key.Line, name)
		case key.Value == "":
			return term.Misconfigured("", "%s:%d: the name of a profile is empty", c.path, key.Line)
		case body.Kind != yaml.MappingNode:
			return term.Misconfigured("", "%s:%d: profile %q: %s", c.path, key.Line, name, want)
		}
		if c.profiles[key.Value], err = c.section(flags, body, nil); err != nil {
			return err
		}
	}
	return nil
}

// absent reports whether nothing has the path, or this user may not look into the directory. Then a file
// there cannot be meant for this user. It is so in a service with a private file system, or if HOME is
// another user's. A link that leads nowhere is not absent: to ignore it would be to use another server.
func absent(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOTDIR)
}

// section reads KEY: VALUE lines, whose keys are names of flags. The node of the key profiles goes to
// sections. If sections is nil, the key is refused.
func (c *configFile) section(flags *pflag.FlagSet, node *yaml.Node, sections **yaml.Node) (map[string]setting, error) {
	all := make(map[string]setting)
	lines := make(map[string]int)
	for i := 0; i < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		at := fmt.Sprintf("%s:%d: %s", c.path, key.Line, term.Cut(key.Value, 40))
		if line, twice := lines[key.Value]; twice {
			return nil, term.Misconfigured("", "%s: duplicate key, see line %d", at, line)
		}
		lines[key.Value] = key.Line
		if key.Value == profilesKey && sections != nil {
			*sections = value
			continue
		}
		if flag := flags.Lookup(key.Value); flag == nil || flag.Name == "profile" {
			return nil, term.Misconfigured(hintForKey(flags, key.Value, sections != nil), "%s: unknown key", at)
		}
		switch {
		case value.Kind != yaml.ScalarNode:
			return nil, term.Misconfigured("", "%s: want one value", at)
		case value.Tag == "!!null":
			return nil, term.Misconfigured(`to override a value by none, write `+term.Cut(key.Value, 40)+`: ""`, "%s: the value is missing", at)
		}
		all[key.Value] = setting{value.Value, key.Line}
	}
	return all, nil
}

func hintForKey(flags *pflag.FlagSet, key string, top bool) string {
	near := term.NearestFlag(flags, term.Cut(key, 40))
	switch {
	case key == profilesKey:
		return "profiles belong to the beginning of a line, not into a profile"
	case key == "profile":
		return "select a profile with --profile NAME or HOLDFAST_PROFILE=NAME"
	case strings.Contains(key, "password") && key != "password-file":
		return "put the password in a file that only you can read, and give its path as password-file"
	case near != "":
		return "did you mean " + near + "?"
	case top:
		return "the keys are profiles and the flags of holdfast without --: see holdfast --help"
	}
	return "the keys are the flags of holdfast without --: see holdfast --help"
}

// readTrusted reads a configuration file that only its owner can change. The owner must be this user or root.
// Another user could name another server in the file, and two commands would hold one lock.
func readTrusted(path string) ([]byte, error) {
	if path == os.DevNull {
		return nil, nil
	}
	switch info, err := os.Stat(path); {
	case err != nil: // os.Open reports it
	case info.IsDir():
		return nil, term.Misconfigured("", "%s is a directory, not a file", path)
	case !info.Mode().IsRegular(): // opening a FIFO blocks until it has a writer
		return nil, term.Misconfigured("", "%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, term.Misconfigured("correct the path or the rights, or give another file with HOLDFAST_CONFIG (/dev/null for none)", "configuration: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, term.Misconfigured("", "%w", err)
	}
	const why = "a changed file can send your locks to another server"
	switch {
	case writableByOthers(info):
		return nil, term.Misconfigured("chmod go-w "+path, "other users can change %s (mode %#o): %s", path, info.Mode().Perm(), why)
	case !ours(info):
		return nil, term.Misconfigured("chown the file to yourself or root, or copy it", "%s belongs to another user: %s", path, why)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	switch {
	case err != nil:
		return nil, term.Misconfigured("", "%w", err)
	case len(text) > maxConfig:
		return nil, term.Misconfigured("", "%s is longer than %d bytes", path, maxConfig)
	}
	return text, nil
}

// fromFiles sets the flags that neither the command line nor the environment sets.
func (g *Flags) fromFiles(flags *pflag.FlagSet) error {
	if err := checkProfile(g.files, g.profile); err != nil {
		return err
	}
	var err error
	g.FlagSet.VisitAll(func(f *pflag.Flag) {
		if _, set := g.from[f.Name]; set || err != nil {
			return
		}
		for _, inProfile := range []bool{true, false} {
			for _, c := range g.files {
				section, from := c.top, c.layer
				if inProfile {
					section, from = c.profiles[g.profile], LayerProfile
				}
				s, ok := section[f.Name]
				if !ok {
					continue
				}
				at := fmt.Sprintf("%s:%d", c.path, s.line)
				if slices.Contains(fileFlags, f.Name) && s.value != "" && !filepath.IsAbs(s.value) {
					s.value = filepath.Join(filepath.Dir(c.path), s.value)
				}
				if bad := flags.Set(f.Name, s.value); bad != nil {
					err = term.Misconfigured("", "%s: %s: %w", at, f.Name, badValue(s.value, bad))
				}
				g.from[f.Name] = origin{from, at}
				return
			}
		}
	})
	return err
}

// fileFlags are the flags that name files. In a configuration file, a relative path begins at the
// directory of the configuration file.
var fileFlags = []string{"tls-ca", "tls-cert", "tls-key", "password-file"}

// checkProfile fails if there is a profile and no file has it.
func checkProfile(files []*configFile, profile string) error {
	if profile == "" {
		return nil
	}
	known := make(map[string]bool)
	var paths []string
	for _, c := range files {
		if c.profiles[profile] != nil {
			return nil
		}
		for name := range c.profiles {
			known[name] = true
		}
		paths = append(paths, c.path)
	}
	hint := "define it under profiles: in " + strings.Join(paths, " or ")
	if len(known) > 0 {
		hint = term.Cut("the profiles are "+strings.Join(slices.Sorted(maps.Keys(known)), ", "), 200)
	}
	return term.Misconfigured(hint, "there is no profile %q", term.Cut(profile, 40))
}

// fromCredential takes the password that systemd gives to a service (LoadCredential=), if a login has
// no other password file.
func fromCredential(g *Flags, flags *pflag.FlagSet) {
	dir := os.Getenv("CREDENTIALS_DIRECTORY")
	if dir == "" || g.Secure.auth == "" || g.Secure.passwordFile != "" {
		return
	}
	path := filepath.Join(dir, credentialName)
	if _, err := os.Stat(path); err != nil {
		return
	}
	_ = flags.Set("password-file", path) // a string takes any value
	g.from["password-file"] = origin{LayerCredential, "$CREDENTIALS_DIRECTORY/" + credentialName}
}

// inFile reports whether a flag has its value from a configuration file, and where.
func inFile(from map[string]origin, flag string) (at string, ok bool) {
	o := from[flag]
	return o.at, o.layer == LayerProfile || o.layer == LayerUser || o.layer == LayerSystem
}

// blame puts the file and the line of a flag's value in front of an error of the value.
func (g *Flags) blame(flag string, err error) error {
	at, ok := inFile(g.from, flag)
	if err == nil || !ok {
		return err
	}
	f := term.Explain(err)
	return &term.Fault{Code: f.Code, Err: fmt.Errorf("%s: %w", at, f.Err), Hint: f.Hint}
}

// whence returns in words where the value of a flag comes from.
func (g *Flags) whence(flag string) string {
	switch from, ok := g.from[flag]; {
	case !ok:
		return string(LayerDefault)
	case from.layer == LayerProfile:
		return from.at + " (profile " + g.profile + ")"
	default:
		return from.at
	}
}

// Source returns where the value of a flag comes from. at is the flag, the variable, or FILE:LINE; it is "" for the
// default.
func (g *Flags) Source(flag string) (from Layer, at string) {
	o, ok := g.from[flag]
	if !ok {
		return LayerDefault, ""
	}
	return o.layer, o.at
}

// Profiles returns the names of the profiles in the configuration files, or none if a file is wrong.
func (g *Flags) Profiles() []string {
	files, err := readFiles(g.FlagSet, g.SystemFile)
	if err != nil {
		return nil
	}
	names := make(map[string]bool)
	for _, c := range files {
		for name := range c.profiles {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// urlIsCloser reports whether the command line or the environment gives the server, but only a file the
// session timeout. Then a timeout in the server's URL wins.
func urlIsCloser(from map[string]origin) bool {
	_, timeout := inFile(from, "session-timeout")
	_, server := inFile(from, "server")
	return timeout && !server && from["server"].at != ""
}

// ParseMapping parses the text of a configuration file, whose lines are KEY: VALUE. It returns nil if there
// are only comments.
func ParseMapping(path string, text []byte) (*yaml.Node, error) {
	var document yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	switch err := decoder.Decode(&document); {
	case err == io.EOF: // only comments
		return nil, nil
	case err != nil:
		return nil, term.Misconfigured("", "%s: %s", path, term.Cut(err.Error(), 120))
	case decoder.Decode(new(yaml.Node)) != io.EOF:
		return nil, term.Misconfigured("", "%s: there is more than one document: remove --- and all that follows it", path)
	}
	top := document.Content[0]
	if top.Kind != yaml.MappingNode {
		return nil, term.Misconfigured("", "%s:%d: want lines of KEY: VALUE", path, top.Line)
	}
	return top, nil
}
