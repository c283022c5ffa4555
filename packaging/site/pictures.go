package main

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"image/png"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A picture is a PNG, two PNGs for light and dark colors, or the text of a screen.
type picture struct {
	ID, Title     string
	Light, Dark   string // links; Dark is "" if there is one picture for both
	Width, Height int
	Text          string
}

// addPictures adds the page of the pictures. They are made by tests, and are in no document, so the page has no source.
func (s *site) addPictures() {
	names, err := fs.Glob(s.pictures, "*")
	if err != nil {
		s.problems = append(s.problems, err)
		return
	}
	p := &page{path: "pictures.html", title: "Pictures", anchors: map[string]bool{},
		description: "Pages of holdfast ui, and screens of holdfast top."}
	p.headings = []heading{{1, p.anchor("Pictures"), "Pictures"}}
	fault := func(name string, err error) {
		s.problems = append(s.problems, fmt.Errorf("pictures: %s: %w", name, err))
	}
	var all []picture
	for _, name := range names {
		ext := path.Ext(name)
		if ext != ".png" && ext != ".txt" {
			continue
		}
		content, err := fs.ReadFile(s.pictures, name)
		if err != nil {
			fault(name, err)
			continue
		}
		title := strings.TrimSuffix(name, ext)
		if ext == ".txt" {
			all = append(all, p.picture(picture{Title: title, Text: string(content)}))
			continue
		}
		size, err := png.DecodeConfig(bytes.NewReader(content))
		if err != nil {
			fault(name, err)
			continue
		}
		file := "pictures/" + name
		s.add(file, "pictures: "+name, content)
		light, isDark := strings.CutSuffix(title, "-dark")
		if isDark && slices.Contains(names, light+"-light.png") {
			continue // the light one has it
		}
		one := picture{Title: title, Light: relative(p.path, file), Width: size.Width, Height: size.Height}
		if base, ok := strings.CutSuffix(title, "-light"); ok && slices.Contains(names, base+"-dark.png") {
			one.Title, one.Dark = base, relative(p.path, "pictures/"+base+"-dark.png")
		}
		all = append(all, p.picture(one))
	}
	if len(all) == 0 {
		s.problems = append(s.problems, errors.New("pictures: the directory has no file NAME.png or NAME.txt"))
		return
	}
	var b bytes.Buffer
	if err := layout.ExecuteTemplate(&b, "pictures.html", all); err != nil {
		s.problems = append(s.problems, err)
		return
	}
	p.head, p.body = `<h1 id="pictures">Pictures</h1>`, template.HTML(b.String())
	p.words = tocWords // pictures are long
	s.add(p.path, "the page of the pictures", nil)
	s.pages = append(s.pages, p)
	s.groups[0].items = append(s.groups[0].items, item{p.title, p})
}

// picture completes a picture: its title is the name of its file in words, with a heading.
func (p *page) picture(one picture) picture {
	one.Title = strings.Join(strings.FieldsFunc(one.Title, func(r rune) bool { return r == '-' || r == '_' }), " ")
	if first, size := utf8.DecodeRuneInString(one.Title); size > 0 {
		one.Title = string(unicode.ToUpper(first)) + one.Title[size:]
	}
	one.ID = p.anchor(one.Title)
	h := heading{2, one.ID, one.Title}
	p.headings = append(p.headings, h)
	p.sections = append(p.sections, section{h, "Picture: " + one.Title})
	return one
}
