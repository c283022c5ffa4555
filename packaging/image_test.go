package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func TestImageIsValid(t *testing.T) {
	m := getRelease(t)
	dir := t.TempDir()
	if _, err := output(exec.Command("tar", "-xf", m.one(t, "*_oci.tar"), "-C", dir)); err != nil {
		t.Fatal(err)
	}
	list, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(list); err != nil {
		t.Error(err)
	}
	top, err := list.IndexManifest()
	if err != nil || len(top.Manifests) != 1 {
		t.Fatalf("%+v, %v; want one index", top, err)
	}
	index, err := list.ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) == 0 {
		t.Fatalf("%+v, %v; want an image for each system", manifest, err)
	}
	for _, d := range manifest.Manifests {
		img, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if want := (v1.Platform{OS: config.OS, Architecture: config.Architecture}); !d.Platform.Equals(want) || config.Config.User != "65532:65532" {
			t.Errorf("%v: %+v", d.Platform, config)
		}
	}
}

func TestImageServes(t *testing.T) {
	m := getRelease(t)
	need(t, "podman")
	dir := t.TempDir()
	if _, err := output(exec.Command("tar", "-xzf", m.one(t, "*_"+host.os+"_"+host.arch+".tar.gz"), "-C", dir, "--strip-components=1")); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("unshare", "--mount", "sh", "testdata/image.sh", m.one(t, "*_oci.tar"), filepath.Join(dir, "holdfast"), t.TempDir()).CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "\nok\n") {
		t.Errorf("image.sh: %v\n%s", err, out)
	}
}
