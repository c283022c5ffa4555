package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"time"
)

// An entry is a file of an archive, or of a package.
type entry struct {
	name string // with slashes
	from string // file; "" of a directory
	mode fs.FileMode
	uid  int
}

// archive writes the archive of one system: a zip for Windows, a tar for others.
func (r *release) archive(t target) error {
	top := "holdfast_" + r.number() + "_" + t.os + "_" + t.arch
	entries, err := r.contents(t)
	if err != nil {
		return err
	}
	suffix, pack := ".tar.gz", writeTarGz
	if t.os == "windows" {
		suffix, pack = ".zip", writeZip
	}
	f, err := os.Create(r.file("%s%s", top, suffix))
	if err != nil {
		return err
	}
	defer f.Close()
	for i := range entries {
		entries[i].name = path.Join(top, entries[i].name)
	}
	if err := pack(f, entries, r.date); err != nil {
		return err
	}
	return f.Close()
}

// contents returns the files of an archive.
func (r *release) contents(t target) ([]entry, error) {
	in := func(parts ...string) string { return filepath.Join(append([]string{r.root}, parts...)...) }
	var all []entry
	for _, name := range r.programs {
		program := r.program(t, name)
		all = append(all, entry{name: filepath.Base(program), from: program, mode: 0o755})
	}
	all = append(all, []entry{
		{name: "CHANGELOG.md", from: in("CHANGELOG.md"), mode: 0o644},
		{name: "LICENSE", from: in("LICENSE"), mode: 0o644},
		{name: "LICENSES.txt", from: in("cmd", "holdfast", "licenses.txt"), mode: 0o644},
	}...)
	documents, err := documentsIn(r.root)
	if err != nil {
		return nil, err
	}
	for _, name := range documents {
		all = append(all, entry{name: name, from: in(filepath.FromSlash(name)), mode: 0o644})
	}
	dirs := map[string]string{"completions": filepath.Join(r.work, "completions")}
	if t.os != "windows" {
		dirs["man"] = filepath.Join(r.work, "man")
	}
	if t.os == "linux" {
		dirs["systemd"] = in("contrib", "systemd")
	}
	for _, name := range []string{"completions", "man", "systemd"} {
		if dirs[name] == "" {
			continue
		}
		files, err := os.ReadDir(dirs[name])
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			all = append(all, entry{name: path.Join(name, f.Name()), from: filepath.Join(dirs[name], f.Name()), mode: 0o644})
		}
	}
	return all, nil
}

func writeTarGz(w io.Writer, entries []entry, at time.Time) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := writeTar(z, entries, at); err != nil {
		return err
	}
	return z.Close()
}

func writeTar(w io.Writer, entries []entry, at time.Time) error {
	t := tar.NewWriter(w)
	for _, e := range entries {
		h := tar.Header{Name: e.name, Mode: int64(e.mode.Perm()), ModTime: at, Uid: e.uid, Gid: e.uid, Format: tar.FormatUSTAR}
		if e.mode&fs.ModeSticky != 0 {
			h.Mode |= 0o1000
		}
		var data []byte
		if h.Typeflag = tar.TypeDir; e.from != "" {
			var err error
			if data, err = os.ReadFile(e.from); err != nil {
				return err
			}
			h.Typeflag, h.Size = tar.TypeReg, int64(len(data))
		} else {
			h.Name += "/"
		}
		if err := t.WriteHeader(&h); err != nil {
			return err
		}
		if _, err := t.Write(data); err != nil {
			return err
		}
	}
	return t.Close()
}

func writeZip(w io.Writer, entries []entry, at time.Time) error {
	z := zip.NewWriter(w)
	for _, e := range entries {
		data, err := os.ReadFile(e.from)
		if err != nil {
			return err
		}
		h := zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: at}
		h.SetMode(e.mode)
		f, err := z.CreateHeader(&h)
		if err != nil {
			return err
		}
		if _, err := f.Write(data); err != nil {
			return err
		}
	}
	return z.Close()
}

// source writes the archive of the repository at the commit.
func (r *release) source(ctx context.Context) error {
	top := "holdfast_" + r.number()
	tree, err := output(exec.CommandContext(ctx, "git", "-C", r.root, "archive", "--format=tar", "--prefix="+top+"/", r.commit))
	if err != nil {
		return err
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = io.WriteString(z, tree)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		return err
	}
	return write(r.file("%s_source.tar.gz", top), b.Bytes())
}
