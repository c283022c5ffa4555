//go:build unix

package repotest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// A ciHost runs the shell of the files in contrib/ci, as a runner of their system would.
type ciHost struct {
	dir  string // working directory of the jobs
	env  []string
	busy bool // somebody else holds the lock for the whole time
}

// newCIHost starts a server for the files, and writes the scripts that they call. Each notes whether the lock is held that it
// needs. deploy.sh exits with 3 if a file FAIL exists.
func newCIHost(t *testing.T) *ciHost {
	t.Helper()
	h := &ciHost{dir: t.TempDir()}
	bin := filepath.Join(h.dir, "bin")
	if out, err := exec.Command("go", "build", "-o", bin+"/", "./cmd/holdfast").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	h.env = []string{"HOME=" + h.dir, "PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH")}
	h.env = append(h.env, "HOLDFAST_SERVER=zk://"+serve(t, h.dir, h.env, "holdfast serve --log-level error --data-dir data --listen 127.0.0.1:0")+"/ci")
	for script, text := range map[string]string{
		"migrate.sh": "holdfast status -q db/migrate && echo migrated >>record",
		"deploy.sh":  "holdfast status -q staging && echo deployed >>record; test ! -e FAIL || exit 3",
	} {
		if err := os.WriteFile(filepath.Join(h.dir, script), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// shell runs a script with more variables, and returns whether it succeeded.
func (h *ciHost) shell(t *testing.T, env map[string]string, script string, shell ...string) bool {
	t.Helper()
	cmd := exec.Command(shell[0], append(shell[1:], script)...)
	cmd.Dir, cmd.Env = h.dir, h.env
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	t.Logf("%s\n%s%v", script, out, err)
	return err == nil
}

// Every pipeline runs three times: as it is, with a deployment that fails, and while somebody else holds the lock.
func (h *ciHost) tries(t *testing.T, pipeline func(t *testing.T) (ok bool)) {
	t.Helper()
	for name, tt := range map[string]struct {
		prepare, finish string
		ok              bool
		record          string
	}{
		"works": {"true", "! holdfast status -q staging", true, "migrated\ndeployed\n"},
		"fails": {"touch FAIL", "! holdfast status -q staging", false, "migrated\ndeployed\n"},
		"busy":  {"holdfast lock --detached --try staging", "holdfast unlock --force staging", false, "migrated\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if !h.shell(t, nil, "rm -f FAIL record claim; holdfast unlock --force staging; "+tt.prepare, "sh", "-c") {
				t.Fatal(tt.prepare)
			}
			h.busy = name == "busy"
			if ok := pipeline(t); ok != tt.ok {
				t.Errorf("the pipeline succeeds: %v, want %v", ok, tt.ok)
			}
			if record, _ := os.ReadFile(filepath.Join(h.dir, "record")); string(record) != tt.record {
				t.Errorf("the jobs under their locks were\n%s", record)
			}
			if !h.shell(t, nil, tt.finish, "sh", "-c") {
				t.Error("the lock of somebody else is gone, or ours is left")
			}
		})
	}
}

var detached = regexp.MustCompile(`(lock --detached.*--wait) \S+`)

// wait returns a script whose wait for the lock of somebody else is short, if it is in vain.
func (h *ciHost) wait(script string) string {
	if !h.busy {
		return script
	}
	return detached.ReplaceAllString(script, "$1 100ms")
}

func TestJenkinsfileHoldsItsLocks(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command")
	}
	steps := regexp.MustCompile(`(?m)^\s*sh '(.*)'$`).FindAllStringSubmatch(read(t, "contrib/ci/Jenkinsfile"), -1)
	if len(steps) != 4 {
		t.Fatalf("%d steps", len(steps))
	}
	h := newCIHost(t)
	env := map[string]string{"JOB_NAME": "shop/deploy", "BUILD_URL": "https://jenkins.example/job/shop/7/"}
	run := func(t *testing.T, m []string) bool { return h.shell(t, env, h.wait(m[1]), "sh", "-xec") }
	h.tries(t, func(t *testing.T) bool {
		ok := !slices.ContainsFunc(steps[:3], func(m []string) bool { return !run(t, m) })
		return run(t, steps[3]) && ok // post, always
	})
}

func TestGitLabPipelineHoldsItsLocks(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command")
	}
	type job struct {
		Stage, When string
		Script      []string
		Artifacts   struct{ Reports struct{ Dotenv string } }
	}
	var file struct {
		Stages []string
		Jobs   map[string]yaml.Node `yaml:",inline"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "contrib/ci/gitlab-ci.yml")), &file); err != nil {
		t.Fatal(err)
	}
	h := newCIHost(t)
	h.tries(t, func(t *testing.T) bool {
		env := map[string]string{"CI_PROJECT_PATH": "acme/shop", "CI_JOB_URL": "https://gitlab.example/-/jobs/7", "CI_PIPELINE_URL": "https://gitlab.example/-/pipelines/3"}
		ok := true
		for _, stage := range file.Stages { // each has the job of its name
			var j job
			if node := file.Jobs[stage]; node.Decode(&j) != nil || j.Stage != stage {
				t.Fatalf("no job %s", stage)
			}
			if !ok && j.When != "always" {
				continue
			}
			ok = h.shell(t, env, h.wait(strings.Join(j.Script, "\n")), "bash", "-eo", "pipefail", "-c") && ok
			if name := j.Artifacts.Reports.Dotenv; ok && name != "" {
				readVariables(t, filepath.Join(h.dir, name), env)
			}
		}
		return ok
	})
}

// readVariables adds the lines NAME=VALUE of a file to env.
func readVariables(t *testing.T, file string, env map[string]string) {
	t.Helper()
	for line := range strings.Lines(read(t, file)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		env[name] = value
	}
}

type (
	ghStep struct {
		ID, If, Uses, Shell, Run string
		With, Env                map[string]string
	}
	ghAction struct {
		Inputs map[string]struct {
			Required bool
			Default  string
		}
		Outputs map[string]struct{ Value string }
		Runs    struct {
			Using string
			Steps []ghStep
		}
	}
	ghJob struct {
		If      string
		Needs   any
		Outputs map[string]string
		Steps   []ghStep
	}
)

func TestGitHubActionsHoldTheirLocks(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command")
	}
	var file struct{ Jobs map[string]ghJob }
	if err := yaml.Unmarshal([]byte(read(t, "contrib/ci/github/workflow.yml")), &file); err != nil {
		t.Fatal(err)
	}
	h := newCIHost(t)
	h.tries(t, func(t *testing.T) bool {
		ok, outputs := true, map[string]string{}
		for _, name := range []string{"migrate", "lock", "deploy", "unlock"} { // as needs orders them
			job := file.Jobs[name]
			if !ok && job.If != "always()" {
				continue
			}
			values := map[string]string{}
			ok = h.steps(t, job.Steps, values, outputs) && ok
			for key, value := range job.Outputs {
				outputs["needs."+name+".outputs."+key] = expand(value, values)
			}
		}
		return ok
	})
}

var expression = regexp.MustCompile(`\$\{\{ (\S+) \}\}`)

// expand replaces the expressions of GitHub. A value that is not there is empty.
func expand(text string, values map[string]string) string {
	return expression.ReplaceAllStringFunc(text, func(s string) string { return values[expression.FindStringSubmatch(s)[1]] })
}

// steps runs the steps of a job, and sets what they return in values.
func (h *ciHost) steps(t *testing.T, steps []ghStep, values, needs map[string]string) bool {
	t.Helper()
	for _, s := range steps {
		switch action, ok := strings.CutPrefix(s.Uses, "./.github/holdfast/"); {
		case ok:
			with := map[string]string{}
			for key, value := range s.With {
				with[key] = expand(value, needs)
			}
			outputs, ok := h.action(t, action, with)
			if !ok {
				return false
			}
			for key, value := range outputs {
				values["steps."+s.ID+".outputs."+key] = value
			}
		case s.Run != "":
			if !h.shell(t, nil, s.Run, "bash", "-e", "-c") {
				return false
			}
		case s.Uses != "actions/checkout@v4":
			t.Fatalf("a step uses %q", s.Uses)
		}
	}
	return true
}

// action runs a composite action, and returns its outputs.
func (h *ciHost) action(t *testing.T, name string, with map[string]string) (outputs map[string]string, ok bool) {
	t.Helper()
	var a ghAction
	if err := yaml.Unmarshal([]byte(read(t, "contrib/ci/github/"+name+"/action.yml")), &a); err != nil {
		t.Fatal(err)
	}
	if a.Runs.Using != "composite" {
		t.Fatalf("%s uses %s", name, a.Runs.Using)
	}
	values := map[string]string{}
	for key, input := range a.Inputs {
		value, given := with[key]
		if !given && input.Required {
			t.Fatalf("%s lacks %s", name, key)
		}
		if !given {
			value = input.Default
		}
		if h.busy && name == "lock" {
			value = strings.Replace(value, "--wait 1h", "--wait 100ms", 1)
		}
		values["inputs."+key] = value
	}
	for key := range with {
		if _, known := a.Inputs[key]; !known {
			t.Errorf("%s has no input %s", name, key)
		}
	}
	for _, s := range a.Runs.Steps {
		if strings.Contains(s.Run, "${{") {
			t.Errorf("%s: an input in a script is run as a part of it: give it in env", name)
		}
		file := filepath.Join(t.TempDir(), "output")
		env := map[string]string{"GITHUB_OUTPUT": file, "GITHUB_REPOSITORY": "acme/shop", "GITHUB_JOB": "deploy", "GITHUB_RUN_ID": "7", "GITHUB_SERVER_URL": "https://github.example"}
		for key, value := range s.Env {
			env[key] = expand(value, values)
		}
		if err := os.WriteFile(file, nil, 0o666); err != nil {
			t.Fatal(err)
		}
		if !h.shell(t, env, s.Run, s.Shell, "--noprofile", "--norc", "-eo", "pipefail", "-c") {
			return nil, false
		}
		returned := map[string]string{}
		readVariables(t, file, returned)
		for key, value := range returned {
			values[fmt.Sprintf("steps.%s.outputs.%s", s.ID, key)] = value
		}
	}
	outputs = map[string]string{}
	for key, o := range a.Outputs {
		if outputs[key] = expand(o.Value, values); outputs[key] == "" {
			t.Errorf("%s: the output %s is empty", name, key)
		}
	}
	return outputs, true
}

// The page about CI shows lines of the files that these tests run.
func TestThePageAboutCIShowsTheFiles(t *testing.T) {
	var files bytes.Buffer
	for _, pattern := range []string{"contrib/ci/*", "contrib/ci/*/*.yml", "contrib/ci/*/*/*.yml"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if text, err := os.ReadFile(name); err == nil {
				files.Write(text)
			}
		}
	}
	blocks := 0
	for _, m := range fence.FindAllStringSubmatch(read(t, "docs/howto/ci.md"), -1) {
		if m[1] != "yaml" && m[1] != "groovy" {
			continue
		}
		blocks++
		for line := range strings.Lines(m[2]) {
			if !strings.Contains(files.String(), strings.TrimSpace(line)) {
				t.Errorf("no file in contrib/ci has the line %s", line)
			}
		}
	}
	if blocks == 0 {
		t.Error("the page has no blocks")
	}
}
