// Package manual renders the pages of folder docs, with parts that are generated from the code. A server serves them,
// and a command writes them as a site of plain files. Both have the same bytes.
package manual

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/yuin/goldmark"
)

// Options say of what a manual consists.
type Options struct {
	Files fs.FS // Markdown and pictures, see [mailroom/docs.Files]
	// Generated returns parts of pages as Markdown, by name. A page has the marker <!-- generated: NAME --> where its
	// part belongs; it replaces the text up to <!-- end -->, which readers of the source tree see instead.
	Generated map[string]func() (string, error)
	// Shots has the pictures that the tests of the pages make, which pages name shots/NAME.png. A picture that it lacks
	// is left out; if it is nil, all are.
	Shots fs.FS
	// API returns the files of the reference of the HTTP API in a site, by path. A server has its own.
	API map[string]func() ([]byte, error)
	// Served says that a server shows the pages beside its console.
	Served bool
	Base   string // address of the site for links in llms.txt, without a slash at its end; "": they are relative
	// Version of the program, for the foot of the pages.
	Version string
}

// Manual has the pages. Each is rendered when it is first needed.
type Manual struct {
	options  Options
	markdown goldmark.Markdown
	sections []section
	order    []*page // pages in reading order, without the contents
	pages    map[string]*page
	pictures []string               // paths of the drawings
	index    func() ([]byte, error) // index of the search; made once
}

// New reads the contents. It returns an error if a page is missing in the contents or in the files.
func New(o Options) (*Manual, error) {
	text, err := fs.ReadFile(o.Files, contentsPath)
	if err != nil {
		return nil, fmt.Errorf("read the contents of the manual: %w", err)
	}
	m := &Manual{options: o, pages: map[string]*page{}}
	m.markdown = newMarkdown(m)
	if m.sections, err = parseContents(string(text)); err != nil {
		return nil, err
	}
	m.pages[contentsPath] = &page{Path: contentsPath, Title: "All pages"}
	for _, s := range m.sections {
		for _, p := range s.Pages {
			m.pages[p.Path] = p
			m.order = append(m.order, p)
		}
	}
	for _, p := range m.pages {
		p.source = sync.OnceValues(func() (string, error) { return m.readSource(p.Path) })
		p.shown = sync.OnceValues(func() (*shown, error) { return m.render(p) })
	}
	m.index = sync.OnceValues(m.makeIndex)
	if m.pictures, err = listPictures(o.Files); err != nil {
		return nil, err
	}
	return m, checkFiles(o.Files, m.pages)
}

const (
	markerStart = "<!-- generated: "
	markerEnd   = "<!-- end -->"
)

// readSource returns the Markdown of a page, in which generated parts replace their markers.
func (m *Manual) readSource(name string) (string, error) {
	raw, err := fs.ReadFile(m.options.Files, name)
	if err != nil {
		return "", fmt.Errorf("read a page of the manual: %w", err)
	}
	var out strings.Builder
	for rest := string(raw); ; {
		before, after, found := strings.Cut(rest, markerStart)
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		part, after, closed := strings.Cut(after, " -->")
		_, after, ended := strings.Cut(after, markerEnd)
		if !closed || !ended {
			return "", fmt.Errorf("%s: the generated part %q has no %s", name, part, markerEnd)
		}
		generate := m.options.Generated[part]
		if generate == nil {
			return "", fmt.Errorf("%s: no part %q is generated", name, part)
		}
		text, err := generate()
		if err != nil {
			return "", fmt.Errorf("%s: generate %s: %w", name, part, err)
		}
		out.WriteString(text)
		rest = after
	}
}

// listPictures returns the paths of the drawings in files.
func listPictures(files fs.FS) (names []string, err error) {
	err = fs.WalkDir(files, ".", func(name string, _ fs.DirEntry, err error) error {
		if err == nil && path.Ext(name) == ".svg" {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the pictures of the manual: %w", err)
	}
	return names, nil
}

// paths returns the paths of all pages, sorted.
func (m *Manual) paths() []string { return slices.Sorted(maps.Keys(m.pages)) }

// htmlPath returns the path of the HTML of a page.
func htmlPath(markdown string) string { return strings.TrimSuffix(markdown, ".md") + ".html" }

// relative returns the path of file to for a link in page from; both are paths from the root of the manual.
func relative(from, to string) string { return strings.Repeat("../", strings.Count(from, "/")) + to }
