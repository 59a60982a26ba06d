package manual

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"mailroom/internal/lazyregexp"
)

// Paths of pages with a meaning.
const (
	contentsPath = "contents.md" // the list of pages
	firstPath    = "index.md"    // the page at the root of the manual
)

// section is a group of pages in the contents.
type section struct {
	Name  string
	Pages []*page
}

// page is a page of the manual.
type page struct {
	Path    string // path of the Markdown file, such as concepts/thread.md
	Title   string // short title in the contents
	About   string // what the page is about, in one sentence
	section string
	source  func() (string, error) // Markdown with its generated parts; read once
	shown   func() (*shown, error) // rendered once
}

// row is a line of the contents: a link to a page with its title, a colon, and what the page is about.
var row = lazyregexp.New(`^- \[([^\]]+)\]\(([^)#:]+\.md)\): (.+)$`)

// parseContents reads the list of pages: a heading of level 2 for each section, then a row for each page.
func parseContents(text string) (sections []section, err error) {
	seen := map[string]bool{contentsPath: true}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "## "); ok {
			sections = append(sections, section{Name: name})
			continue
		}
		if !strings.HasPrefix(line, "- ") {
			continue
		}
		found := row().FindStringSubmatch(line)
		switch {
		case found == nil:
			return nil, fmt.Errorf("%s: %q is no row; write - [Title](path.md): what it is about", contentsPath, line)
		case len(sections) == 0:
			return nil, fmt.Errorf("%s: the row of %s is before the first section", contentsPath, found[2])
		case seen[found[2]]:
			return nil, fmt.Errorf("%s: %s has two rows", contentsPath, found[2])
		}
		seen[found[2]] = true
		last := &sections[len(sections)-1]
		last.Pages = append(last.Pages, &page{Path: found[2], Title: found[1], About: found[3], section: last.Name})
	}
	return slices.DeleteFunc(sections, func(s section) bool { return len(s.Pages) == 0 }), nil
}

// checkFiles compares the rows of the contents with the files.
func checkFiles(files fs.FS, pages map[string]*page) error {
	there := map[string]bool{}
	err := fs.WalkDir(files, ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".md" || name == contentsPath {
			return err
		}
		there[name] = true
		if pages[name] == nil {
			return fmt.Errorf("%s has no row in %s", name, contentsPath)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for name := range pages {
		if name != contentsPath && !there[name] {
			return fmt.Errorf("%s has a row in %s, but there is no such file", name, contentsPath)
		}
	}
	return nil
}
