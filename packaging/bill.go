package main

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"fmt"
	"maps"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// bill writes the bill of materials (SBOM) of the programs in SPDX 2.3: the modules that the programs themselves say they were
// linked from, with their licences.
func (r *release) bill(t target) error {
	linked, goVersion, err := r.linked(t)
	if err != nil {
		return err
	}
	sum, err := sumOf(r.program(t, "holdfast"))
	if err != nil {
		return err
	}
	name := "holdfast_" + r.number() + "_" + t.os + "_" + t.arch
	part := func(id, name, version, license, purl string) *spdx.Package {
		p := &spdx.Package{
			PackageName: name, PackageSPDXIdentifier: common.ElementID(id), PackageVersion: version,
			PackageDownloadLocation: "NOASSERTION", PackageLicenseConcluded: "NOASSERTION",
			PackageLicenseDeclared: license, PackageCopyrightText: "NOASSERTION",
		}
		if purl != "" {
			p.PackageExternalReferences = []*spdx.PackageExternalReference{{
				Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: purl,
			}}
		}
		return p
	}
	program := part("holdfast", "holdfast", r.number(), r.licenses["holdfast"], "")
	program.PackageFileName = name
	program.PrimaryPackagePurpose = "APPLICATION"
	program.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: sum}}
	program.PackageSourceInfo = "commit " + r.commit
	doc := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName: name,
		// A namespace must be unique and need not be the address of anything.
		DocumentNamespace: fmt.Sprintf("https://spdx.org/spdxdocs/%s-%s", name, sum),
		CreationInfo: &spdx.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "holdfast-packaging-" + r.number()}},
			Created:  r.date.Format(time.RFC3339),
		},
		Packages: []*spdx.Package{
			program,
			part("Go", "Go standard library", goVersion, r.licenses["Go"], "pkg:golang/stdlib@"+goVersion),
		},
	}
	for _, m := range linked {
		license := r.licenses[m.Path]
		if license == "" {
			return fmt.Errorf("%s is linked, and licenses.txt does not have its licence", m.Path)
		}
		doc.Packages = append(doc.Packages, part(identifier(m.Path), m.Path, m.Version, license, "pkg:golang/"+m.Path+"@"+m.Version))
	}
	relate := func(a, kind, b string) {
		doc.Relationships = append(doc.Relationships, &spdx.Relationship{
			RefA: common.MakeDocElementID("", a), RefB: common.MakeDocElementID("", b), Relationship: kind,
		})
	}
	relate("DOCUMENT", common.TypeRelationshipDescribe, "holdfast")
	for _, p := range doc.Packages[1:] {
		relate("holdfast", common.TypeRelationshipStaticLink, string(p.PackageSPDXIdentifier))
	}
	var b bytes.Buffer
	if err := json.Write(doc, &b, json.Indent("  ")); err != nil {
		return err
	}
	return write(r.file("%s.spdx.json", name), b.Bytes())
}

// linked returns the modules of all programs, by their paths, and the version of Go.
func (r *release) linked(t target) (modules []*debug.Module, goVersion string, err error) {
	known := make(map[string]*debug.Module)
	for _, name := range r.programs {
		info, err := buildinfo.ReadFile(r.program(t, name))
		if err != nil {
			return nil, "", err
		}
		goVersion = strings.TrimPrefix(info.GoVersion, "go")
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			known[m.Path] = m
		}
	}
	for _, path := range slices.Sorted(maps.Keys(known)) {
		modules = append(modules, known[path])
	}
	return modules, goVersion, nil
}

var notInIdentifiers = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// identifier makes a module's path an SPDX identifier.
func identifier(path string) string {
	return cmp.Or(notInIdentifiers.ReplaceAllString(path, "-"), "module")
}
