package hold

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"

	"holdfast/internal/cli/term"
)

// replaceable refuses the path of a flag if no file can be written and replaced there.
func replaceable(flag, hint, path string) error {
	shown := term.Cut(path, 100)
	info, err := os.Lstat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return term.Usage(hint, "%s %s: it exists and is not a regular file", flag, shown)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return term.Usage(hint, "%s %s: %v", flag, shown, withoutPath(err))
	}
	temporary, err := createBeside(path)
	if err != nil {
		return term.Usage(hint, "%s %s: cannot write there: %v", flag, shown, withoutPath(err))
	}
	_ = temporary.Close()
	if err := os.Remove(temporary.Name()); err != nil {
		return term.Usage(hint, "%s %s: cannot remove a file there: %v", flag, shown, withoutPath(err))
	}
	return nil
}

// replaceFile writes a file of mode beside path, and renames it to path.
func replaceFile(path string, text []byte, mode fs.FileMode) error {
	file, err := createBeside(path)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if mode != 0 {
		err = errors.Join(err, file.Chmod(mode)) // whatever the umask
	}
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}

// createBeside makes a new file beside path. Nobody can guess its name and put a link there.
func createBeside(path string) (*os.File, error) {
	return os.OpenFile(fmt.Sprintf("%s.%016x.tmp", path, rand.Uint64()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
}

func withoutPath(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}
