package openapi

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// TestTheMapForLanguageModelsIsTrue checks that /llms.txt needs no token, and that each of its calls and links exists.
func TestTheMapForLanguageModelsIsTrue(t *testing.T) {
	f := start(t, withPages)
	resp, err := f.http.RoundTrip(httptest.NewRequest(http.MethodGet, f.url+"/llms.txt", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("/llms.txt: %d, %v", resp.StatusCode, err)
	}
	routes := http.NewServeMux()
	for _, op := range f.describe().operations() {
		routes.HandleFunc(strings.ToUpper(op.Method)+" "+op.Path, func(http.ResponseWriter, *http.Request) {})
	}
	calls := 0
	for line := range strings.Lines(string(raw)) {
		_, path, ok := strings.Cut(strings.TrimSpace(line), " $URL")
		if !ok {
			_, path, ok = strings.Cut(strings.TrimSpace(line), ` "$URL`)
		}
		if !ok || !strings.Contains(line, "curl") {
			continue
		}
		calls++
		method := http.MethodGet
		if strings.Contains(line, " -d ") || strings.Contains(line, "-X POST") {
			method = http.MethodPost
		}
		path = strings.NewReplacer("$", "", `"`, "").Replace(path)
		if _, route := routes.Handler(httptest.NewRequest(method, path, nil)); route == "" {
			t.Errorf("%s %s is no operation", method, path)
		}
	}
	if calls != 10 {
		t.Errorf("%d calls, want 10", calls)
	}
	for _, link := range regexp.MustCompile(`\]\(([^)]*)\)`).FindAllStringSubmatch(string(raw), -1) {
		path := "/" + strings.TrimPrefix(link[1], ".")
		resp, err := f.http.RoundTrip(httptest.NewRequest(http.MethodGet, f.url+path, nil))
		if err != nil {
			t.Fatal(err)
		}
		if _ = resp.Body.Close(); resp.StatusCode != http.StatusOK {
			t.Errorf("the link to %s: %d", path, resp.StatusCode)
		}
	}
}
