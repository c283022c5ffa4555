package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

const description = `distributed locks on ZooKeeper, for programs and for the shell
 holdfast runs a command under a lock: a job that must run once, a resource
 that must have one writer. On one machine it needs no set-up. For several
 machines it uses a ZooKeeper ensemble, or its own server.
 .
 This package has the command, and units for systemd that serve the locks of a
 machine to the members of the group holdfast, and a page that shows them. No
 unit is started by the installation.`

// deb writes the package for Debian and its derivatives.
func (r *release) deb(t target) error {
	info, err := r.packageInfo(t)
	if err != nil || info == nil {
		return err
	}
	add := func(to, from string) error { return r.addGzip(info, to, filepath.Join(r.root, from)) }
	if err := add("/usr/share/doc/holdfast/NEWS.md.gz", "CHANGELOG.md"); err != nil {
		return err
	}
	if err := r.debTexts(info); err != nil {
		return err
	}
	addFile(info, "/usr/share/zsh/vendor-completions/_holdfast", filepath.Join(r.work, "completions", "_holdfast"), 0o644, "")
	info.Section, info.Priority = "admin", "optional"
	info.Depends = []string{"passwd"}
	info.Scripts = r.scripts("deb")
	info.Deb.Compression = "xz"
	return r.pack(info, deb.Default)
}

// rpm writes the package for Fedora, SUSE and others.
func (r *release) rpm(t target) error {
	info, err := r.packageInfo(t)
	if err != nil || info == nil {
		return err
	}
	for _, c := range info.Contents {
		if strings.HasPrefix(c.Destination, "/usr/share/man/") || strings.HasPrefix(c.Destination, "/usr/share/doc/") {
			c.Type = files.TypeRPMDoc
		}
	}
	addFile(info, "/usr/share/zsh/site-functions/_holdfast", filepath.Join(r.work, "completions", "_holdfast"), 0o644, "")
	addFile(info, "/usr/share/doc/holdfast/CHANGELOG.md", filepath.Join(r.root, "CHANGELOG.md"), 0o644, files.TypeRPMDoc)
	addFile(info, "/usr/share/licenses/holdfast/LICENSE", filepath.Join(r.root, "LICENSE"), 0o644, files.TypeRPMLicense)
	addFile(info, "/usr/share/licenses/holdfast/LICENSES.txt", filepath.Join(r.root, "cmd", "holdfast", "licenses.txt"), 0o644, files.TypeRPMLicense)
	info.Release = "1"
	info.Depends = []string{"/usr/sbin/useradd"}
	info.Scripts = r.scripts("rpm")
	info.RPM.Group = "System/Base"
	info.RPM.Summary = "Distributed locks on ZooKeeper, for programs and for the shell"
	info.RPM.BuildHost = "localhost" // or the package would differ from machine to machine
	info.RPM.Compression = "xz"
	return r.pack(info, rpm.DefaultRPM)
}

// packageInfo returns what both packages have in common, or nil if there is no package for the system.
func (r *release) packageInfo(t target) (*nfpm.Info, error) {
	if t.os != "linux" {
		return nil, nil
	}
	info := &nfpm.Info{
		Name: "holdfast", Arch: t.arch, Platform: "linux", Version: r.version, License: r.licenses["holdfast"],
		Maintainer: r.maintainer, Description: description, MTime: r.date, DisableGlobbing: true,
	}
	for _, name := range r.programs {
		addFile(info, "/usr/bin/"+name, r.program(t, name), 0o755, "")
	}
	pages, err := os.ReadDir(filepath.Join(r.work, "man"))
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		section := page.Name()[len(page.Name())-1:]
		if err := r.addGzip(info, "/usr/share/man/man"+section+"/"+page.Name()+".gz", filepath.Join(r.work, "man", page.Name())); err != nil {
			return nil, err
		}
	}
	addFile(info, "/usr/share/bash-completion/completions/holdfast", filepath.Join(r.work, "completions", "holdfast.bash"), 0o644, "")
	addFile(info, "/usr/share/fish/vendor_completions.d/holdfast.fish", filepath.Join(r.work, "completions", "holdfast.fish"), 0o644, "")
	for to, from := range map[string]string{
		"/usr/lib/systemd/system/holdfast.service":    "holdfast.service",
		"/usr/lib/systemd/system/holdfast-ui.service": "holdfast-ui.service",
		"/usr/lib/systemd/system/holdfast-tf.service": "holdfast-tf.service",
		"/usr/lib/sysusers.d/holdfast.conf":           "sysusers.conf",
		"/usr/lib/tmpfiles.d/holdfast.conf":           "tmpfiles.conf",
	} {
		addFile(info, to, filepath.Join(r.root, "contrib", "systemd", from), 0o644, "")
	}
	for _, name := range []string{"config.yaml", "serve.yaml"} {
		addFile(info, "/etc/holdfast/"+name, filepath.Join(r.root, "contrib", "systemd", name), 0o644, files.TypeConfigNoReplace)
	}
	documents, err := documentsIn(r.root)
	if err != nil {
		return nil, err
	}
	for _, name := range documents {
		addFile(info, "/usr/share/doc/holdfast/"+name, filepath.Join(r.root, filepath.FromSlash(name)), 0o644, "")
	}
	return info, nil
}

// documentsIn returns the documents for users, by their paths in the repository: units and settings name some of them.
func documentsIn(root string) (names []string, err error) {
	names = []string{"README.md"}
	for _, pattern := range []string{"docs/*.md", "docs/howto/*.md", "docs/reference/*.md", "docs/explanation/*.md", "docs/explanation/*.svg", "docs/explanation/*/*.svg"} {
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			return nil, err
		}
		for _, file := range found {
			name, err := filepath.Rel(root, file)
			if err != nil {
				return nil, err
			}
			names = append(names, filepath.ToSlash(name))
		}
	}
	return names, nil
}

func addFile(info *nfpm.Info, to, from string, mode os.FileMode, kind string) {
	info.Contents = append(info.Contents, &files.Content{
		Source: from, Destination: to, Type: kind,
		FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: info.MTime},
	})
}

// addGzip adds a compressed file.
func (r *release) addGzip(info *nfpm.Info, to, from string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return r.addGzipText(info, to, text)
}

func (r *release) addGzipText(info *nfpm.Info, to string, text []byte) error {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = z.Write(text)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		return err
	}
	packed := filepath.Join(r.work, "gzip", to)
	addFile(info, to, packed, 0o644, "")
	return write(packed, b.Bytes())
}

// debTexts adds the copyright and the changelog that Debian's policy wants.
func (r *release) debTexts(info *nfpm.Info) error {
	all, err := os.ReadFile(filepath.Join(r.root, "cmd", "holdfast", "licenses.txt"))
	if err != nil {
		return err
	}
	copyright := filepath.Join(r.work, "copyright")
	// Debian has the Apache License, and its policy wants no copy of it.
	all = []byte(withoutApache(string(all)))
	head := "holdfast is under the Apache License 2.0 (/usr/share/common-licenses/Apache-2.0). The program contains libraries under\nthe licences below; those under Apache-2.0 are under the same license.\n\n"
	if err := write(copyright, append([]byte(head), all...)); err != nil {
		return err
	}
	addFile(info, "/usr/share/doc/holdfast/copyright", copyright, 0o644, "")
	changelog := fmt.Sprintf("holdfast (%s) unstable; urgency=medium\n\n  * Release %s: see NEWS.md.gz.\n\n -- %s  %s\n",
		debVersion(r.version), r.version, r.maintainer, r.date.Format(time.RFC1123Z))
	return r.addGzipText(info, "/usr/share/doc/holdfast/changelog.gz", []byte(changelog))
}

// withoutApache returns licenses.txt without the text of the Apache License.
func withoutApache(text string) string {
	line := "\n" + strings.Repeat("=", 80) + "\n"
	parts := strings.Split(text, line) // the list, and then users and licences in turns
	kept := parts[:1:1]
	for i := 1; i+1 < len(parts); i += 2 {
		if !strings.Contains(parts[i+1], "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION") {
			kept = append(kept, parts[i], parts[i+1])
		}
	}
	return strings.Join(kept, line)
}

// scripts are the maintainer scripts of a kind of package.
func (r *release) scripts(kind string) nfpm.Scripts {
	in := func(name string) string { return filepath.Join(r.root, "packaging", "files", kind, name) }
	s := nfpm.Scripts{PostInstall: in("postinst"), PreRemove: in("prerm"), PostRemove: in("postrm")}
	if kind == "rpm" {
		s.PreInstall = in("preinst")
	}
	return s
}

// pack writes a package.
func (r *release) pack(info *nfpm.Info, format nfpm.Packager) error {
	info = nfpm.WithDefaults(info)
	var b bytes.Buffer
	if err := format.Package(info, &b); err != nil {
		return err
	}
	return write(r.file("%s", format.ConventionalFileName(info)), b.Bytes())
}

// debVersion is the version as Debian sorts it: ~ is before everything.
func debVersion(version string) string { return strings.Replace(version[1:], "-", "~", 1) }
