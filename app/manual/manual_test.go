package manual_test

import (
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/spf13/cobra"

	"mailroom/app/manual"
	"mailroom/docs"
)

// root returns a command with others, as the program has more of.
func root() *cobra.Command {
	cmd := &cobra.Command{Use: "mailroom", Long: "Keep mail."}
	cmd.AddGroup(&cobra.Group{ID: "talk", Title: "Talk:"})
	cmd.AddCommand(&cobra.Command{Use: "send TEXT", Short: "Send a message", GroupID: "talk"})
	return cmd
}

// site is the folder of a written manual.
type site struct {
	dir     string
	written manual.Written
}

func write(t *testing.T, o manual.Options) site {
	t.Helper()
	m, err := manual.New(o)
	if err != nil {
		t.Fatal(err)
	}
	s := site{dir: t.TempDir()}
	if s.written, err = m.Write(s.dir); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s site) read(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// pages returns the content of the HTML files by path.
func (s site) pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(s.dir, func(name string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(name) == ".html" {
			to, _ := filepath.Rel(s.dir, name)
			all[filepath.ToSlash(to)] = s.read(t, to)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var (
	address = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	anchor  = regexp.MustCompile(` id="([^"]*)"`)
)

// TestEveryLinkOfTheSiteLeadsToAFileAndAnAnchor follows all links of all pages, also in their frames.
func TestEveryLinkOfTheSiteLeadsToAFileAndAnAnchor(t *testing.T) {
	s := write(t, manual.FromCode(root()))
	pages, anchors := s.pages(t), map[string]bool{}
	for name, page := range pages {
		for _, found := range anchor.FindAllStringSubmatch(page, -1) {
			if anchors[name+"#"+found[1]] {
				t.Errorf("%s has two anchors %s", name, found[1])
			}
			anchors[name+"#"+found[1]] = true
		}
	}
	links := 0
	for name, page := range pages {
		for _, found := range address.FindAllStringSubmatch(page, -1) {
			to, fragment, _ := strings.Cut(found[1], "#")
			if strings.HasPrefix(to, "https://") || strings.HasPrefix(to, "http://") {
				continue
			}
			links++
			if to = path.Join(path.Dir(name), to); strings.HasPrefix(found[1], "#") {
				to = name
			}
			if _, err := os.Stat(filepath.Join(s.dir, to)); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", name, found[1])
			}
			if fragment != "" && !anchors[to+"#"+fragment] {
				t.Errorf("%s: %s has no heading for %s", name, to, found[1])
			}
		}
	}
	if len(pages) != s.written.Pages || len(pages) < 20 || links < 1000 {
		t.Errorf("%d pages, %d links: fewer than there were", len(pages), links)
	}
	t.Logf("%d pages, %d links, %d anchors, %d files with %d bytes", len(pages), links, len(anchors),
		s.written.Files, s.written.Bytes)
}

// TestTheManualIsSmall bounds what the manual adds to the program, and to a site.
func TestTheManualIsSmall(t *testing.T) {
	var embedded int64
	err := fs.WalkDir(docs.Files, ".", func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		embedded += info.Size()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if embedded > 1<<20 {
		t.Errorf("the files have %d bytes", embedded)
	}
	if s := write(t, manual.FromCode(root())); s.written.Bytes > 4<<20 {
		t.Errorf("the site has %d bytes", s.written.Bytes)
	}
}

func TestTheSearchFindsPromisesWithoutTheNamesOfTheirTests(t *testing.T) {
	s := write(t, manual.Options{Files: files("# First\n\n| | promise | tests |\n| --- | --- | --- |\n"+
		"| 1 | Nothing is lost. | `ledger.TestKept` |\n| 2 | Nothing is doubled. | |\n\nAfter the table.\n", "# Other\n")})
	index := s.read(t, "search.json")
	if want := "promise 1 Nothing is lost. 2 Nothing is doubled. After the table."; !strings.Contains(index, want) {
		t.Errorf("the index %s lacks %q", index, want)
	}
	if strings.Contains(index, "TestKept") {
		t.Errorf("the index %s has the name of a test", index)
	}
}

// files returns the files of a manual of two pages and its contents.
func files(index, other string) fstest.MapFS {
	return fstest.MapFS{
		"contents.md": {Data: []byte("# Contents\n\n## One\n\n- [First](index.md): what is first.\n\n" +
			"## Two\n\n- [Other](more/other.md): what is next.\n")},
		"index.md":      {Data: []byte(index)},
		"more/other.md": {Data: []byte(other)},
		"way.svg":       {Data: []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`)},
	}
}

func TestEachPageHasARowInTheContents(t *testing.T) {
	add := func(f fstest.MapFS, row string) { f["contents.md"].Data = append(f["contents.md"].Data, row...) }
	for name, change := range map[string]func(fstest.MapFS){
		"new.md has no row":     func(f fstest.MapFS) { f["new.md"] = &fstest.MapFile{Data: []byte("# New\n")} },
		"there is no such file": func(f fstest.MapFS) { delete(f, "more/other.md") },
		"index.md has two rows": func(f fstest.MapFS) {
			f["contents.md"].Data = append(f["contents.md"].Data, "- [A](index.md): b.\n"...)
		},
		"is no row":              func(f fstest.MapFS) { add(f, "- [A](b.md)\n") },
		"before the first secti": func(f fstest.MapFS) { f["contents.md"].Data = []byte("- [A](index.md): b.\n") },
	} {
		f := files("# First\n", "# Other\n")
		change(f)
		if _, err := manual.New(manual.Options{Files: f}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want an error with %q", err, name)
		}
	}
}

func TestLinksBetweenPagesLeadToTheirHTML(t *testing.T) {
	index := "# First\n\n[a](more/other.md#a-b), [b](#own), [c](../README.md), " +
		"[`deploy/x.service`](../deploy/x.service), [e](https://example.org/x.md)\n\n" +
		"![way](way.svg)\n\n![gone](shots/gone.png)\n\n## Own\n"
	s := write(t, manual.Options{Files: files(index, "# Other\n\n## A, `b`\n\n## A b\n\n[up](../index.md)\n")})
	page := s.read(t, "index.html")
	for _, want := range []string{
		`<a href="more/other.html#a-b">a</a>`, `<a href="#own">b</a>`, `c (in the source: <code>README.md</code>)`,
		`, <code>deploy/x.service</code>,`, `<a href="https://example.org/x.md">e</a>`, `<img src="way.svg" alt="way">`,
		`<a rel="next" href="more/other.html">`, `<a href="index.html" aria-current="page">First</a>`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if strings.Contains(page, "gone") {
		t.Error("a picture that no test made is shown")
	}
	other := s.read(t, "more/other.html")
	for _, want := range []string{
		`href="../index.html">up</a>`, `<h2 id="a-b">`, `<h2 id="a-b-1">`, `href="../site.css"`,
	} {
		if !strings.Contains(other, want) {
			t.Errorf("the other page lacks %s", want)
		}
	}
	if got := s.read(t, "index.md"); got != index {
		t.Errorf("the Markdown is %q", got)
	}
	shots := fstest.MapFS{"gone.png": {Data: []byte("png")}}
	withShots := write(t, manual.Options{Files: files(index, "# Other\n"), Shots: shots})
	if page := withShots.read(t, "index.html"); !strings.Contains(page, `src="shots/gone.png"`) {
		t.Error("a picture that a test made is left out")
	}
	if withShots.read(t, "shots/gone.png") != "png" {
		t.Error("the picture is not written")
	}
}

func TestBrokenLinksAreFound(t *testing.T) {
	for _, text := range []string{"[a](gone.md)", "[a](../../x)", "![a](gone.svg)"} {
		m, err := manual.New(manual.Options{Files: files("# First\n\n"+text+"\n", "# Other\n")})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Write(t.TempDir()); err == nil {
			t.Errorf("%s is not refused", text)
		}
	}
}

func TestBlocksOfCodeWithTitlesBecomeTabs(t *testing.T) {
	index := "# First\n\n```python title=\"Python\"\nx = 1 # one\n```\n\n" +
		"```js title=\"JavaScript\"\nlet x = '//'; // two\n```\n\n" +
		"Text.\n\n```toml title=\"mailroom.toml\"\na = \"<b>\"\n```\n\n```\nmailroom send \"#1\" # three\n```\n"
	page := write(t, manual.Options{Files: files(index, "# Other\n")}).read(t, "index.html")
	if n := strings.Count(page, `<div class="tabs">`); n != 1 {
		t.Errorf("%d groups of tabs, want 1", n)
	}
	for _, want := range []string{
		`<p class="name">Python</p><pre><code class="language-python">x = 1 <i># one</i>` + "\n",
		`let x = &#39;//&#39;; <i>// two</i>`, `<p class="name">mailroom.toml</p>`, `a = &#34;&lt;b&gt;&#34;`,
		`mailroom send &#34;#1&#34; <i># three</i>`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

func TestGeneratedPartsReplaceTheirMarkers(t *testing.T) {
	index := "# First\n\n<!-- generated: list -->\nSee the program.\n<!-- end -->\n\nMore.\n"
	o := manual.Options{Files: files(index, "# Other\n"), Generated: map[string]func() (string, error){
		"list": func() (string, error) { return "| a | b |\n| --- | ---: |\n| 1 | 2 |\n", nil },
	}}
	s := write(t, o)
	page := s.read(t, "index.html")
	if strings.Contains(page, "See the program") || !strings.Contains(page, `<td align="right">2</td>`) {
		t.Errorf("the part is not generated: %s", page)
	}
	if got := s.read(t, "index.md"); !strings.Contains(got, "| 1 | 2 |") {
		t.Errorf("the Markdown lacks the part: %q", got)
	}
	o.Generated = nil
	m, err := manual.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Write(t.TempDir()); err == nil {
		t.Error("a part that nothing generates is not refused")
	}
}

// TestAServerAndASiteHaveTheSamePages also checks the media types, and that a page needs no request a second time.
func TestAServerAndASiteHaveTheSamePages(t *testing.T) {
	s := write(t, manual.FromCode(root()))
	m, err := manual.New(manual.FromCode(root()))
	if err != nil {
		t.Fatal(err)
	}
	handlers := m.Handlers()
	get := func(at string, header ...string) (*http.Response, string) {
		h := handlers[at]
		if h == nil {
			t.Fatalf("%s is not served", at)
		}
		r := httptest.NewRequest(http.MethodGet, at, nil)
		if len(header) > 0 {
			r.Header.Set(header[0], header[1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		body, err := io.ReadAll(w.Result().Body)
		if err != nil {
			t.Fatal(err)
		}
		return w.Result(), string(body)
	}
	for at, kind := range map[string]string{
		"index.html": "text/html; charset=utf-8", "channels/slack.html": "text/html; charset=utf-8",
		"index.md": "text/markdown; charset=utf-8", "search.json": "application/json", "tree.svg": "image/svg+xml",
		"site.js": "text/javascript; charset=utf-8", "base.css": "text/css; charset=utf-8",
	} {
		resp, body := get("/docs/" + at)
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != kind || body != s.read(t, at) {
			t.Errorf("%s: %d %s, %d bytes", at, resp.StatusCode, resp.Header.Get("Content-Type"), len(body))
		}
		again, _ := get("/docs/"+at, "If-None-Match", resp.Header.Get("ETag"))
		if again.StatusCode != http.StatusNotModified {
			t.Errorf("%s: %d for an unchanged page", at, again.StatusCode)
		}
	}
	if resp, _ := get("/docs"); resp.StatusCode != http.StatusFound || resp.Header.Get("Location") != "docs/" {
		t.Errorf("/docs: %d to %q", resp.StatusCode, resp.Header.Get("Location"))
	}
	if _, body := get("/docs/{$}"); body != s.read(t, "index.html") {
		t.Error("/docs/ is not the first page")
	}
	if _, body := get("/llms.txt"); !strings.Contains(body, "](docs/channels/slack.md): ") {
		t.Error("/llms.txt does not list the pages")
	}
	if _, body := get("/llms-full.txt"); !strings.Contains(body, s.read(t, "security.md")) || len(body) < 300_000 {
		t.Error("/llms-full.txt lacks a page")
	}
}

// TestTheAddressOfTheSiteIsOneSetting checks that only llms.txt and the canonical links have it.
func TestTheAddressOfTheSiteIsOneSetting(t *testing.T) {
	o := manual.Options{Files: files("# First\n", "# Other\n"), Base: "https://docs.example.org"}
	s := write(t, o)
	if got := s.read(t, "llms.txt"); !strings.Contains(got, "](https://docs.example.org/more/other.md): what") {
		t.Errorf("llms.txt: %s", got)
	}
	if got := s.read(t, "more/other.html"); strings.Count(got, "https://docs.example.org") != 1 {
		t.Errorf("the page: %s", got)
	}
	o.Base = ""
	if got := write(t, o).read(t, "more/other.html"); strings.Contains(got, "canonical") {
		t.Error("a site without an address has a canonical link")
	}
}
