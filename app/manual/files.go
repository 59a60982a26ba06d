package manual

import (
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"

	"mailroom/web"
)

// assets are the files that pages load, by path in the manual, with their paths in package web.
func assets() map[string]string {
	return map[string]string{
		"base.css": "chat/base.css", "icon.svg": "chat/icon.svg", "site.css": "docs/site.css",
		"site.js": "docs/site.js", "rank.js": "docs/rank.js", "api.css": "docs/api.css", "api.js": "docs/api.js",
	}
}

// files returns the content of all files of the manual, by path. Each is made when its function is called.
func (m *Manual) files() map[string]func() ([]byte, error) {
	all := map[string]func() ([]byte, error){indexPath: m.index}
	for _, name := range m.paths() {
		p := m.pages[name]
		all[name] = func() ([]byte, error) {
			source, err := p.source()
			return []byte(source), err
		}
		all[htmlPath(name)] = func() ([]byte, error) {
			s, err := p.shown()
			if err != nil {
				return nil, err
			}
			return s.html, nil
		}
	}
	for _, name := range m.pictures {
		all[name] = func() ([]byte, error) { return fs.ReadFile(m.options.Files, name) }
	}
	for name, from := range assets() {
		all[name] = func() ([]byte, error) { return web.Content(from) }
	}
	return all
}

// Handlers returns the handlers of the manual at /docs/ by path, as [web.Pages] does, and the handlers of /llms.txt
// and /llms-full.txt. They make a file at its first request, and keep it.
func (m *Manual) Handlers() map[string]http.Handler {
	all := map[string]http.Handler{"/docs": redirect("docs/"), "/docs/" + apiPath: redirect("api")}
	for name, content := range m.files() {
		all["/docs/"+name] = serve(name, content)
	}
	all["/docs/{$}"] = all["/docs/"+htmlPath(firstPath)]
	for name, content := range m.maps("docs/") {
		all["/"+name] = serve(name, content)
	}
	return all
}

// redirect returns a handler that redirects to a relative path, because a proxy may serve it below a path prefix.
func redirect(to string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusFound)
	})
}

// serve returns the handler of a file.
func serve(name string, content func() ([]byte, error)) http.Handler {
	made := sync.OnceValues(func() (http.Handler, error) {
		body, err := content()
		if err != nil {
			return nil, err
		}
		return web.File(path.Base(name), body)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, err := made()
		if err != nil { // a mistake in the pages, which the tests of this package find
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// maps returns /llms.txt and /llms-full.txt, for language models. Links of the former begin with below.
func (m *Manual) maps(below string) map[string]func() ([]byte, error) {
	if m.options.Base != "" {
		below = m.options.Base + "/"
	}
	return map[string]func() ([]byte, error){
		"llms.txt": func() ([]byte, error) {
			var b strings.Builder
			b.WriteString("\n## Pages of the manual\n\n[All pages in one file](" + strings.TrimSuffix(below, "docs/") +
				"llms-full.txt).\n")
			for _, s := range m.sections {
				b.WriteString("\n### " + s.Name + "\n\n")
				for _, p := range s.Pages {
					b.WriteString("- [" + p.Title + "](" + below + p.Path + "): " + p.About + "\n")
				}
			}
			head, err := web.Content("llms.txt")
			return append(head, b.String()...), err
		},
		"llms-full.txt": func() ([]byte, error) {
			var b strings.Builder
			for _, p := range m.order {
				source, err := p.source()
				if err != nil {
					return nil, err
				}
				b.WriteString("<!-- " + below + p.Path + " -->\n\n" + source + "\n")
			}
			return []byte(b.String()), nil
		},
	}
}
