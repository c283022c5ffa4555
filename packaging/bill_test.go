package main

import (
	"os"
	"slices"
	"testing"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
	"github.com/spdx/tools-golang/spdxlib"
)

func TestBillHasWhatIsLinked(t *testing.T) {
	m := getRelease(t)
	f, err := os.Open(m.one(t, "*_"+host.os+"_"+host.arch+".spdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var doc v2_3.Document
	if err := json.ReadInto(f, &doc); err != nil {
		t.Fatal(err)
	}
	if err := spdxlib.ValidateDocument(&doc); err != nil {
		t.Error(err)
	}
	var names []string
	for _, p := range doc.Packages {
		names = append(names, p.PackageName)
		if p.PackageLicenseDeclared == "" || p.PackageVersion == "" {
			t.Errorf("%s: version %q, licence %q", p.PackageName, p.PackageVersion, p.PackageLicenseDeclared)
		}
	}
	for _, want := range []string{"holdfast", "Go standard library", "github.com/spf13/cobra", "golang.org/x/sys"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is missing in %v", want, names)
		}
	}
	if len(doc.Relationships) != len(doc.Packages) {
		t.Errorf("%d relationships of %d packages", len(doc.Relationships), len(doc.Packages))
	}
}
