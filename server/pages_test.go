package server_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"mailroom/server"
)

func TestPagesNeedNoTokenAndOpenNothingElse(t *testing.T) {
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "a page") // a recorder never fails
	})
	s := server.New(server.Options{
		Access: server.Access{Token: "secret"},
		Parts:  server.Parts{Pages: map[string]http.Handler{"/": page, "/chat": page, "/chat/chat.js": page}},
	})
	for _, c := range []struct {
		method, path string
		want         int
	}{
		{"GET", "/", 200}, {"GET", "/chat", 200}, {"GET", "/chat/chat.js", 200}, {"HEAD", "/chat", 200},
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
