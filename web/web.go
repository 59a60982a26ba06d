// Package web has the pages that the server serves to browsers: the console, the chat, the page of a link in an
// alert, the styles of the API reference, the service worker that shows alerts, and the libraries that "make vendor"
// bundles. They are plain files in the binary and need no build step: the server links the modules of each page. They
// use the API like any other client, with the session of the browser or a token that the user pastes; the files
// contain no secrets.
package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	js "mailroom/clients/js"
)

//go:embed chat console decide docs sw.js manifest.webmanifest llms.txt vendor/*.js vendor/*.css vendor/LICENSES.txt
var files embed.FS

// policy is the Content-Security-Policy: scripts, styles and calls of the same origin
// only, nothing inline, no framing. With trusted types, text cannot become HTML by
// mistake.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; manifest-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types "

// consolePolicy is the name of the console's trusted types policy, which makes the addresses of the scripts of its
// workers; see console/trusted.js. Other pages have no such policy.
const consolePolicy = "worker"

// Pages returns the handlers of GET and HEAD by path. Pages use relative URLs, so that a
// proxy can serve them below a path prefix.
func Pages() map[string]http.Handler {
	pages := map[string]http.Handler{}
	for _, from := range sources() {
		err := fs.WalkDir(from.files, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || name == "vendor/build.js" {
				return err
			}
			at, f, err := newFile(from.below+name, func() []byte { return readPage(from.below + name) })
			pages[at] = f
			return err
		})
		if err != nil {
			panic("read the pages: " + err.Error()) // the files are embedded: a bug
		}
	}
	return pages
}

// source is a folder whose files are pages.
type source struct {
	files fs.FS
	below string // path prefix
}

func sources() []source { return []source{{js.Modules, "/chat/client/"}, {files, "/"}} }

// readPage returns the content of a file at a path of the server. A module that a page names has all that it imports.
func readPage(at string) []byte {
	read := readFile
	if isEntry(at) {
		read = func(at string) ([]byte, error) { return link(at, readFile) }
	}
	body, err := read(at)
	if err != nil {
		panic("read a page: " + err.Error()) // the files are embedded: a bug
	}
	return body
}

// readFile returns the embedded file at a path of the server.
func readFile(at string) ([]byte, error) {
	for _, from := range sources() {
		if name, ok := strings.CutPrefix(at, from.below); ok {
			return fs.ReadFile(from.files, name)
		}
	}
	return nil, fmt.Errorf("%s is no file of the pages", at)
}

// Page returns the handler of a page that another package renders. Its files are among [Pages].
func Page(html []byte) http.Handler {
	return makeFile(func() []byte { return html }, "text/html; charset=utf-8", policy+"'none'")
}

// File returns the handler of a file that another package makes. The extension of its name says the media type.
func File(name string, body []byte) (http.Handler, error) {
	_, f, err := newFile("/"+name, func() []byte { return body })
	return f, err
}

// Content returns a file of the pages, by its path in this folder.
func Content(name string) ([]byte, error) { return files.ReadFile(name) }

// file is one file of a page.
type file struct {
	kind string // media type
	csp  string // Content-Security-Policy
	// content returns the body and its tag, and compressed the body in gzip. They are made at the first request and not
	// at the start, because most servers never serve a page.
	content    func() content
	compressed func() []byte
}

type content struct {
	body []byte
	tag  string
}

func newFile(at string, read func() []byte) (string, file, error) {
	kinds := map[string]string{
		".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
		".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".webmanifest": "application/manifest+json",
		".txt": "text/plain; charset=utf-8", ".md": "text/markdown; charset=utf-8", ".json": "application/json",
	}
	ext := path.Ext(at)
	if kinds[ext] == "" {
		return "", file{}, fmt.Errorf("%s: unknown media type of extension %q", at, ext)
	}
	csp := policy + "'none'"
	switch {
	case at == "/console/index.html":
		at, csp = "/", policy+consolePolicy
	case ext == ".html":
		at = path.Dir(at) // /chat/index.html is /chat
	}
	return at, makeFile(read, kinds[ext], csp), nil
}

func makeFile(read func() []byte, kind, csp string) file {
	plain := sync.OnceValue(func() content {
		body := read()
		sum := sha256.Sum256(body)
		return content{body: body, tag: base64.RawURLEncoding.EncodeToString(sum[:12])}
	})
	return file{kind: kind, csp: csp, content: plain, compressed: sync.OnceValue(func() []byte {
		return compress(plain().body)
	})}
}

func compress(body []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // fails for other levels only
	_, _ = w.Write(body)                                    // a write to a buffer does not fail, nor does Close
	_ = w.Close()
	return out.Bytes()
}

// acceptsGzip reports whether a client takes gzip (RFC 9110, 12.5.3). Browsers name it without a weight.
func acceptsGzip(r *http.Request) bool {
	for _, list := range r.Header.Values("Accept-Encoding") {
		for coding := range strings.SplitSeq(list, ",") {
			if strings.TrimSpace(coding) == "gzip" {
				return true
			}
		}
	}
	return false
}

func (f file) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Content-Security-Policy", f.csp)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache") // revalidated each time: pages follow the server's version
	h.Set("Vary", "Accept-Encoding")
	plain := f.content()
	body, tag := plain.body, plain.tag
	if acceptsGzip(r) {
		h.Set("Content-Encoding", "gzip")
		body, tag = f.compressed(), tag+"-gzip"
	}
	h.Set("ETag", `"`+tag+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}
