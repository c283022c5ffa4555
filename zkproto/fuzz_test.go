package zkproto

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzDecode decodes arbitrary bytes as every message. A decoded message must encode to bytes
// that decode to the same message. Decoding must not allocate more than a small multiple
// of its input.
func FuzzDecode(f *testing.F) {
	kinds := make([]codec, 0, len(samples))
	seen := make(map[reflect.Type]bool)
	for _, m := range samples {
		if typ := reflect.TypeOf(m); !seen[typ] {
			seen[typ] = true
			kinds = append(kinds, blank(m))
		}
	}
	for _, m := range samples {
		for i, k := range kinds {
			if reflect.TypeOf(k) == reflect.TypeOf(m) {
				f.Add(uint8(i), m.Append(nil))
			}
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) {
		m := blank(kinds[int(kind)%len(kinds)])
		input := bytes.Clone(b)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := NewReader(b)
		m.Decode(r)
		runtime.ReadMemStats(&after)
		// An empty operation of a multi takes 9 bytes on the wire and well over 100 here, and
		// slices grow by doubling. The bound shows that an announced length, which costs the
		// sender four bytes, causes no allocation.
		if used, limit := after.TotalAlloc-before.TotalAlloc, uint64(64*len(b)+64<<10); used > limit {
			t.Errorf("%T: %d bytes allocated for %d", m, used, len(b))
		}
		if !bytes.Equal(b, input) {
			t.Errorf("%T: Decode changed its input", m)
		}
		if r.Err() != nil {
			return
		}
		again := blank(m)
		r = NewReader(m.Append(nil))
		again.Decode(r)
		if err := r.Complete(); err != nil || !reflect.DeepEqual(again, m) {
			t.Errorf("%T: %+v came back as %+v, %v", m, m, again, err)
		}
	})
}

// TestEveryMessageIsFuzzed checks that FuzzDecode has a sample of every message.
func TestEveryMessageIsFuzzed(t *testing.T) {
	fuzzed := make(map[string]bool)
	for _, m := range samples {
		fuzzed[reflect.TypeOf(m).Elem().Name()] = true
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	method := regexp.MustCompile(`(?m)^func \(\w+ \*(\w+)\) Decode\(`)
	found := 0
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range method.FindAllStringSubmatch(string(source), -1) {
			if found++; !fuzzed[m[1]] {
				t.Errorf("%s: %s has no sample", name, m[1])
			}
		}
	}
	if found < len(fuzzed) {
		t.Errorf("only %d decoders found; there are samples of %d", found, len(fuzzed))
	}
}

// FuzzReadFrame reads a stream of arbitrary frames to its end.
func FuzzReadFrame(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02hi\x00\x00\x00\x00\x00\x00\x00\x01x"))
	f.Add([]byte("\x7f\xff\xff\xff"))
	f.Add([]byte("\x00\x00\x00\x05abc"))
	f.Fuzz(func(t *testing.T, b []byte) {
		const limit = 1 << 10
		in := bytes.NewReader(b)
		var buf, out []byte
		for {
			frame, err := ReadFrame(in, buf, limit)
			if err != nil {
				if err == io.EOF && !bytes.Equal(out, b) {
					t.Errorf("read %x from %x", out, b)
				}
				return
			}
			if len(frame) > limit {
				t.Fatalf("frame of %d bytes; the limit is %d", len(frame), limit)
			}
			start := len(out)
			out = EndFrame(append(BeginFrame(out), frame...), start)
			buf = frame
		}
	})
}

// FuzzParseDirectives checks that names and values are parsed as they were quoted, whatever the values
// contain.
func FuzzParseDirectives(f *testing.F) {
	for _, s := range []string{`a=b,c="d"`, ` ,, NONCE = "a\"b\\,c=d" , x = y ,`, `a="`, `a="\`, "=", "a=b c", `realm="r",realm="s"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		fields, err := ParseDirectives(s)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Errorf("%q: %v; want ErrMalformed", s, err)
			}
			return
		}
		var b strings.Builder
		for name, values := range fields {
			for _, v := range values {
				b.WriteString(name + "=" + QuoteDirective(v) + ",")
			}
		}
		if again, err := ParseDirectives(b.String()); err != nil || !reflect.DeepEqual(again, fields) {
			t.Errorf("%q is %q; written as %q it is %q, %v", s, fields, b.String(), again, err)
		}
	})
}

// FuzzValidatePath compares ValidatePath with the rules of Apache's PathUtils, applied to UTF-16.
func FuzzValidatePath(f *testing.F) {
	for _, s := range []string{"/", "/a/b", "//", "/a/", "/.", "/a/../b", "/\U0001f512", "/\xff", "", "/..a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		if got, want := ValidatePath(path) == nil, javaAccepts(path); got != want {
			t.Errorf("%q: accepted %v; Java says %v", path, got, want)
		}
	})
}

func javaAccepts(path string) bool {
	if !utf8.ValidString(path) {
		return false // arrives as U+FFFD
	}
	chars := []rune(path)
	switch {
	case len(chars) == 0, chars[0] != '/':
		return false
	case len(chars) == 1:
		return true
	case chars[len(chars)-1] == '/':
		return false
	}
	at := func(i int) rune {
		if i < len(chars) {
			return chars[i]
		}
		return '/'
	}
	for i := 1; i < len(chars); i++ {
		c, last := chars[i], chars[i-1]
		switch {
		case c == 0, c == '/' && last == '/':
			return false
		case c == '.' && last == '.' && chars[i-2] == '/' && at(i+1) == '/':
			return false
		case c == '.' && last == '/' && at(i+1) == '/':
			return false
		case c > 0 && c <= 0x1f, c >= 0x7f && c <= 0x9f, c >= 0xd800 && c <= 0xf8ff, c >= 0xfff0:
			return false
		}
	}
	return true
}
