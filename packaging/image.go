package main

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// nonroot is the user of the image, as in other images without a base.
const nonroot = 65532

// image writes the image for all Linux systems as an archive of an OCI layout. podman load and skopeo read it, and take the
// part for their system. The image has no base: the program, its licences and
// the directory of its data.
func (r *release) image(made []target) error {
	var index v1.ImageIndex = mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	parts := 0
	for _, t := range made {
		if t.os != "linux" {
			continue
		}
		img, err := r.imageFor(t)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: t.os, Architecture: t.arch}},
		})
		parts++
	}
	if parts == 0 {
		return nil
	}
	dir := filepath.Join(r.work, "image")
	// The list of a layout with two images is not one image, so programs that load it would ask which. An index
	// below the list is one.
	at, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := at.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "holdfast:" + r.number()})); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := writeTree(&b, dir, r.date); err != nil {
		return err
	}
	return write(r.file("holdfast_%s_oci.tar", r.number()), b.Bytes())
}

func (r *release) imageFor(t target) (v1.Image, error) {
	passwd := filepath.Join(r.work, "passwd")
	if err := write(passwd, []byte("holdfast:x:65532:65532:holdfast:/var/lib/holdfast:/usr/sbin/nologin\n")); err != nil {
		return nil, err
	}
	var layer bytes.Buffer
	files := []entry{
		{name: "etc", mode: 0o755},
		{name: "etc/passwd", from: passwd, mode: 0o644},
		{name: "tmp", mode: fs.ModeSticky | 0o777},
		{name: "usr", mode: 0o755},
		{name: "usr/bin", mode: 0o755},
		{name: "usr/share", mode: 0o755},
		{name: "usr/share/doc", mode: 0o755},
		{name: "usr/share/doc/holdfast", mode: 0o755},
		{name: "usr/share/doc/holdfast/LICENSES.txt", from: filepath.Join(r.root, "cmd", "holdfast", "licenses.txt"), mode: 0o644},
		{name: "var", mode: 0o755},
		{name: "var/lib", mode: 0o755},
		{name: "var/lib/holdfast", mode: 0o700, uid: nonroot},
	}
	for _, name := range r.programs {
		files = append(files, entry{name: "usr/bin/" + name, from: r.program(t, name), mode: 0o755})
	}
	if err := writeTarGz(&layer, files, r.date); err != nil {
		return nil, err
	}
	// The layer is compressed already, and stays as it is.
	packed, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(layer.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	img, err := mutate.Append(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), mutate.Addendum{
		Layer:   packed,
		History: v1.History{Created: v1.Time{Time: r.date}, CreatedBy: "holdfast packaging", Comment: r.version},
	})
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = t.os, t.arch, v1.Time{Time: r.date}
	config.Config = v1.Config{
		User:       "65532:65532",
		Env:        []string{"PATH=/usr/bin", "HOME=/var/lib/holdfast"},
		WorkingDir: "/var/lib/holdfast",
		Volumes:    map[string]struct{}{"/var/lib/holdfast": {}},
		Entrypoint: []string{"/usr/bin/holdfast"},
		Cmd:        []string{"serve", "--data-dir", "/var/lib/holdfast/data"},
		StopSignal: "SIGTERM",
		Labels: map[string]string{
			"org.opencontainers.image.title":    "holdfast",
			"org.opencontainers.image.version":  r.number(),
			"org.opencontainers.image.revision": r.commit,
			"org.opencontainers.image.created":  r.date.Format(time.RFC3339),
			"org.opencontainers.image.licenses": r.licenses["holdfast"],
		},
	}
	return mutate.ConfigFile(img, config)
}

// writeTree writes all files below dir as a tar.
func writeTree(w *bytes.Buffer, dir string, at time.Time) error {
	t := tar.NewWriter(w)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		h := tar.Header{Name: filepath.ToSlash(name), Mode: 0o644, Size: int64(len(data)), ModTime: at, Format: tar.FormatUSTAR, Typeflag: tar.TypeReg}
		if err := t.WriteHeader(&h); err != nil {
			return err
		}
		_, err = t.Write(data)
		return err
	})
	if err != nil {
		return err
	}
	return t.Close()
}
