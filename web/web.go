// Package web is the pages that the server serves to browsers: plain files in
// the binary, without a build step. They use the API like any other client, with
// a token that their reader pastes; the files themselves are no secret.
package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"time"

	js "mailroom/clients/js"
)

//go:embed chat
var files embed.FS

// policy allows a page its own scripts and styles, and calls to the server it
// came from; nothing inline, nothing from elsewhere, and no page around it. With
// trusted types, text cannot become HTML by mistake either.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Pages are the handlers of GET and HEAD by path. No path has a prefix in it, and
// pages refer to each other by relative URLs, so that they also work behind a
// proxy that serves them below a path of its own.
func Pages() map[string]http.Handler {
	pages := map[string]http.Handler{"/": http.HandlerFunc(toChat)}
	for _, from := range []struct {
		files fs.FS
		below string // where they are served
	}{{files, "/"}, {js.Modules, "/chat/client/"}} {
		err := fs.WalkDir(from.files, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			body, err := fs.ReadFile(from.files, name)
			if err != nil {
				return err
			}
			at, f, err := newFile(from.below+name, body)
			pages[at] = f
			return err
		})
		if err != nil {
			panic("read the pages: " + err.Error()) // what is in the binary is this package's own
		}
	}
	return pages
}

// toChat leads who opens the bare address to the one page there is.
func toChat(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Location", "chat") // relative, as all references are
	w.WriteHeader(http.StatusFound)
}

// file is one file of a page.
type file struct {
	body []byte
	kind string // media type
	tag  string
}

func newFile(at string, body []byte) (string, file, error) {
	kinds := map[string]string{
		".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
		".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
	}
	ext := path.Ext(at)
	if kinds[ext] == "" {
		return "", file{}, fmt.Errorf("%s: no media type is known for %q", at, ext)
	}
	if ext == ".html" {
		at = path.Dir(at) // /chat/index.html is /chat
	}
	sum := sha256.Sum256(body)
	return at, file{body: body, kind: kinds[ext], tag: `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`}, nil
}

func (f file) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache") // asked for each time, so that no page outlives its server's version
	h.Set("ETag", f.tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.body))
}
