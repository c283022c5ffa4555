package terraform

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// A Workspace names one state. Its String is PROJECT/WORKSPACE.
type Workspace struct {
	Project string
	Name    string
}

// DefaultName is the name of a project's workspace if no other is given.
const DefaultName = "default"

// namePattern allows no name that leaves its directory, and none that a shell or a URL reads differently. It is compiled
// at its first use: every command links this package, and few need the pattern.
var namePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$`) })

// ParseWorkspace reads PROJECT/WORKSPACE. PROJECT alone means the workspace default. A name has 1 to 100 letters,
// digits, dots, dashes and underscores, and begins with neither a dot nor a dash.
func ParseWorkspace(text string) (Workspace, error) {
	project, name, given := strings.Cut(text, "/")
	if !given {
		name = DefaultName
	}
	w := Workspace{project, name}
	return w, w.check()
}

func (w Workspace) check() error {
	for _, name := range []string{w.Project, w.Name} {
		if !namePattern().MatchString(name) {
			return fmt.Errorf("%.120q: want PROJECT/WORKSPACE, each of letters, digits, dots, dashes and underscores, such as app/default", w.Project+"/"+w.Name)
		}
	}
	return nil
}

// String returns PROJECT/WORKSPACE.
func (w Workspace) String() string { return w.Project + "/" + w.Name }
