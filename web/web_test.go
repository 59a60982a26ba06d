package web_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"mailroom/web"
)

func get(h http.Handler, header ...string) *http.Response {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func TestPagesMayUseNothingButTheirOwnServer(t *testing.T) {
	for path, page := range web.Pages() {
		h := get(page).Header
		csp := h.Get("Content-Security-Policy")
		for _, want := range []string{
			"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'",
			"base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
		} {
			if !strings.Contains(csp, want+";") {
				t.Errorf("%s: the policy %q lacks %q", path, csp, want)
			}
		}
		if strings.Contains(csp, "unsafe") || strings.Contains(csp, "*") {
			t.Errorf("%s: the policy %q allows too much", path, csp)
		}
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
	}
}

// The tests in the browser check a page in one color scheme against all rules of accessibility, and in the other one
// against the rules of colors. So a style sheet may set only properties that are colors for a scheme.
func TestADarkSchemeChangesOnlyColors(t *testing.T) {
	scheme := regexp.MustCompile(`(?s)prefers-color-scheme[^{]*\{(.*?)\n\}`)
	setting := regexp.MustCompile(`(?:^|[\s;{])([\w-]+)\s*:\s*([^;{}]+);`)
	color := regexp.MustCompile(`^(#[0-9a-f]{6}|[^,]*rgb\([^)]*\)(, [^,]*rgb\([^)]*\))*)$`)
	schemes, colors := 0, 0
	for path, page := range web.Pages() {
		if !strings.HasSuffix(path, ".css") || strings.Contains(path, "vendor") {
			continue
		}
		content, err := io.ReadAll(get(page).Body)
		if err != nil {
			t.Fatal(err)
		}
		schemes += strings.Count(string(content), "prefers-color-scheme")
		for _, block := range scheme.FindAllStringSubmatch(string(content), -1) {
			schemes--
			for _, set := range setting.FindAllStringSubmatch(block[1], -1) {
				colors++
				if !strings.HasPrefix(set[1], "--") || !color.MatchString(set[2]) {
					t.Errorf("%s: a color scheme sets %s to %s, which is no color", path, set[1], set[2])
				}
			}
		}
	}
	if schemes != 0 || colors < 10 {
		t.Errorf("found %d colors, and %d schemes that cannot be read", colors, schemes)
	}
}

// A component that hears keys in an effect hears them after its first frame was shown: the first key of a fast user, or
// of a test on a busy machine, would be lost.
func TestKeysAreHeardFromTheFirstFrameOn(t *testing.T) {
	found := 0
	for path := range web.Pages() {
		if !strings.HasPrefix(path, "/console/") {
			continue
		}
		body, err := web.Content(path[1:]) // a page gets modules together
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(string(body), "addEventListener('keydown'")
		for _, before := range parts[:len(parts)-1] {
			found++
			if i := strings.LastIndex(before, "Effect("); i >= 0 && !strings.HasSuffix(before[:i], "useLayout") {
				t.Errorf("%s hears keys in an effect; use useLayoutEffect", path)
			}
		}
	}
	if found < 4 {
		t.Errorf("%d listeners for keys were found, want those of the shortcuts, the inbox, the lists and the undo", found)
	}
}

// Absolute paths would break the pages below a proxy's path prefix.
func TestPagesReferToExistingFilesByRelativePaths(t *testing.T) {
	pages := web.Pages()
	references := regexp.MustCompile(`(?:src|href)="([^"]+)"|\bfrom '([^']+)'`)
	at := func(path string) *url.URL { return &url.URL{Path: path} }
	for path, page := range pages {
		if strings.HasPrefix(path, "/vendor/") {
			continue // bundles name nothing
		}
		body, err := io.ReadAll(get(page).Body)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range references.FindAllStringSubmatch(string(body), -1) {
			name, from := found[1]+found[2], path
			if found[1] != "" && strings.HasSuffix(path, ".js") {
				from = "/" // links in the console's modules are relative to its page
			}
			if name, _, _ = strings.Cut(name, "#"); name == "" {
				continue
			}
			if strings.HasPrefix(name, "/") || strings.Contains(name, ":") {
				t.Errorf("%s names %q, which is not relative", path, name)
				continue
			}
			to := at(from).ResolveReference(at(name)).Path
			if pages[to] == nil && to != "/docs/api" && to != "/docs/" { // others render these
				t.Errorf("%s names %s, which is not there", path, to)
			}
		}
		if (path == "/chat" || path == "/") && regexp.MustCompile(`<script[^>]*>[^<]|\son[a-z]+=|style=`).Match(body) {
			t.Errorf("%s has inline scripts or styles, which its policy refuses", path)
		}
	}
	if pages["/vendor/build.js"] != nil || pages["/vendor/src/preact.js"] != nil {
		t.Error("the sources of the bundles are served")
	}
}

// The scope of a service worker is the folder of its script. It must be revalidated with each visit.
func TestTheServiceWorkerCoversAllPages(t *testing.T) {
	pages := web.Pages()
	for path, want := range map[string]string{"/sw.js": "text/javascript; charset=utf-8",
		"/manifest.webmanifest": "application/manifest+json"} {
		if pages[path] == nil {
			t.Fatalf("%s is not served", path)
		}
		h := get(pages[path]).Header
		if h.Get("Content-Type") != want || h.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %v", path, h)
		}
	}
	var manifest struct {
		Start string `json:"start_url"`
		Scope string
		Icons []struct{ Src string }
	}
	if err := json.NewDecoder(get(pages["/manifest.webmanifest"]).Body).Decode(&manifest); err != nil {
		t.Fatal(err)
	}
	if manifest.Start != "./" || manifest.Scope != "./" || len(manifest.Icons) == 0 ||
		pages["/"+manifest.Icons[0].Src] == nil {
		t.Errorf("the manifest is %+v", manifest)
	}
	for path, want := range map[string]string{"/": "trusted-types worker", "/chat": "trusted-types 'none'",
		"/decide": "trusted-types 'none'", "/sw.js": "trusted-types 'none'"} {
		if csp := get(pages[path]).Header.Get("Content-Security-Policy"); !strings.HasSuffix(csp, "; "+want) {
			t.Errorf("%s: the policy %q does not end with %q", path, csp, want)
		}
	}
}

func TestUnchangedPagesAreNotSentAgain(t *testing.T) {
	page := web.Pages()["/chat/chat.js"]
	first := get(page)
	if got, want := first.Header.Get("Content-Type"), "text/javascript; charset=utf-8"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	again := get(page, "If-None-Match", first.Header.Get("ETag"))
	if again.StatusCode != http.StatusNotModified {
		t.Errorf("second request: %d, want 304", again.StatusCode)
	}
}

func TestPagesAreCompressedForClientsThatAcceptIt(t *testing.T) {
	page := web.Pages()["/vendor/preact.js"]
	whole, err := io.ReadAll(get(page).Body)
	if err != nil {
		t.Fatal(err)
	}
	for accepted, want := range map[string]string{"gzip, deflate, br": "gzip", "br": "", "gzip;q=0": ""} {
		got := get(page, "Accept-Encoding", accepted)
		if encoding := got.Header.Get("Content-Encoding"); encoding != want {
			t.Errorf("%s: encoding %q, want %q", accepted, encoding, want)
		}
		if want != "gzip" {
			continue
		}
		body, err := gzip.NewReader(got.Body)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(body); err != nil || string(text) != string(whole) {
			t.Errorf("%s: got %d bytes, %v; want the file", accepted, len(text), err)
		}
		again := get(page, "Accept-Encoding", accepted, "If-None-Match", got.Header.Get("ETag"))
		if again.StatusCode != http.StatusNotModified || got.Header.Get("ETag") == get(page).Header.Get("ETag") {
			t.Errorf("second request: %d; the tags of both forms must differ", again.StatusCode)
		}
	}
}

// Without this a browser would ask for each module of a page, file by file, at each visit.
func TestScriptsOfPagesContainTheModulesThatTheyImport(t *testing.T) {
	pages := web.Pages()
	for at, want := range map[string]string{"/console/main.js": "/vendor/preact.js",
		"/chat/chat.js": "/chat/client/follow.js", "/decide/decide.js": "/chat/client/mailroom.js"} {
		script, err := io.ReadAll(get(pages[at]).Body)
		if err != nil {
			t.Fatal(err)
		}
		if left := regexp.MustCompile(`(?m)^(?:import|export)\b.*`).Find(script); left != nil {
			t.Errorf("%s still has %q", at, left)
		}
		if n := strings.Count(string(script), "\n// "+want+"\n"); n != 1 {
			t.Errorf("%s contains %s %d times, want once", at, want, n)
		}
	}
}
