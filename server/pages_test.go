package server_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"mailroom/server"
)

func TestPagesNeedNoTokenAndOpenNothingElse(t *testing.T) {
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "a page") // a recorder never fails
	})
	s := server.New(server.Options{
		Access: server.Access{Token: "secret"},
		Parts: server.Parts{Pages: map[string]http.Handler{
			"/": page, "/chat": page, "/chat/chat.js": page, "/docs/{$}": page,
		}},
	})
	for _, c := range []struct {
		method, path string
		want         int
	}{
		{"GET", "/", 200}, {"GET", "/chat", 200}, {"GET", "/chat/chat.js", 200}, {"HEAD", "/chat", 200},
		{"GET", "/docs/", 200},
		{"GET", "/chat?token=x", 422}, // not in a URL
		{"POST", "/chat", 405},
		{"GET", "/chat/", 404},
		{"GET", "/chat/other.js", 401}, {"GET", "/v1/threads", 401}, {"GET", "/metrics", 401},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(c.method, "http://localhost"+c.path, nil)
		s.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s %s: %d, want %d", c.method, c.path, w.Code, c.want)
		}
	}
}

func TestTheReferenceIsRenderedOnceAndNeedsNoToken(t *testing.T) {
	rendered := 0
	s := server.New(server.Options{
		Access: server.Access{Token: "secret"},
		Parts: server.Parts{Page: func(html []byte) http.Handler {
			rendered++
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write(html) // a recorder never fails
			})
		}},
	})
	if rendered > 0 {
		t.Error("it is rendered at the start")
	}
	for _, c := range []struct {
		method, path string
		want         int
	}{
		{"GET", "/docs/api", 200}, {"HEAD", "/docs/api", 200}, {"GET", "/docs/api", 200}, {"GET", "/docs/api?q=x", 422},
		{"POST", "/docs/api", 405}, {"GET", "/docs", 401}, {"GET", "/docs/api/submit", 401},
	} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(c.method, "http://localhost"+c.path, nil))
		if w.Code != c.want || w.Code == 200 && !strings.Contains(w.Body.String(), "<h1>API reference</h1>") {
			t.Errorf("%s %s: %d %.200s, want %d", c.method, c.path, w.Code, w.Body, c.want)
		}
	}
	if rendered != 1 {
		t.Errorf("it was rendered %d times", rendered)
	}
	none := httptest.NewRecorder()
	server.New(server.Options{Access: server.Access{Token: "secret"}}).ServeHTTP(none,
		httptest.NewRequest("GET", "http://localhost/docs/api", nil))
	if none.Code != 401 {
		t.Errorf("a server without pages: %d", none.Code)
	}
}
