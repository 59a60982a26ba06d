package server

import (
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mailroom/auth"
	"mailroom/server/internal/request"
)

// upload is a request whose body arrives in pieces.
type upload struct {
	answer *httptest.ResponseRecorder
	body   *io.PipeWriter
	done   chan struct{}
}

// startUpload starts a request with a body of size bytes; negative means unknown.
func startUpload(s *Server, path, secret string, size int64) *upload {
	reader, writer := io.Pipe()
	r := httptest.NewRequest(http.MethodPost, "http://localhost"+path, reader)
	r.ContentLength = size
	if secret != "" {
		r.Header.Set("Authorization", "Bearer "+secret)
	}
	u := &upload{answer: httptest.NewRecorder(), body: writer, done: make(chan struct{})}
	go func() {
		defer close(u.done)
		s.ServeHTTP(u.answer, r)
	}()
	return u
}

func (u *upload) abort() {
	u.body.CloseWithError(errors.New("gone"))
	<-u.done
}

const operatorSecret = "a-token-hard-to-guess"

// fullServer returns a server on which the uploads of one token, and of one anonymous address, fill
// their shares.
func fullServer() (s *Server, slow []*upload) {
	s = New(Options{Access: Access{Token: operatorSecret}, Parts: Parts{Protocols: map[string]Protocol{"POST /open": {
		Via: "open", Public: true, Answer: func(*http.Request) (any, error) { return "in", nil },
	}}}})
	other := newGrant(secretHash(sha256.Sum256([]byte("another"))),
		&auth.Token{Name: "other", Scopes: []auth.Permission{auth.PermissionSubmit}})
	s.tokens.byHash.Store(&map[secretHash]*grant{other.hash: other})
	read := time.Now()
	s.tokens.readAt.Store(&read)
	for range 4 {
		slow = append(slow, startUpload(s, "/v1/messages", operatorSecret, 4<<20))
	}
	slow = append(slow, startUpload(s, "/open", "", 4<<20))
	synctest.Wait()
	return s, slow
}

func TestBodiesInMemoryAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, slow := fullServer()
		held, _ := s.bodies.budget.Held()
		public, _ := s.bodies.public.Held()
		if held != 16<<20 || public != 4<<20 {
			t.Fatalf("%d bytes of a token and %d of an address", held, public)
		}
		for name, u := range map[string]*upload{
			"of a size it names":         startUpload(s, "/v1/messages", operatorSecret, 4<<20),
			"of another size":            startUpload(s, "/v1/messages", operatorSecret, -1),
			"of the same address":        startUpload(s, "/open", "", 4<<20),
			"of the same address, small": startUpload(s, "/open", "", 100),
		} {
			if <-u.done; u.answer.Code != http.StatusTooManyRequests || u.answer.Header().Get("Retry-After") != "1" ||
				u.answer.Header().Get("Connection") != "close" {
				t.Errorf("one body too many %s: %d %v %s", name, u.answer.Code, u.answer.Header(), u.answer.Body)
			}
		}
		other := startUpload(s, "/v1/messages", "another", 100)
		synctest.Wait()
		if held, _ = s.bodies.budget.Held(); held != 16<<20+100 {
			t.Errorf("%d bytes with those of another token", held)
		}
		for _, u := range append(slow, other) {
			u.abort()
		}
		held, owners := s.bodies.budget.Held()
		public, addresses := s.bodies.public.Held()
		if held != 0 || public != 0 || owners+addresses != 0 {
			t.Errorf("%d and %d bytes after the end of all requests", held, public)
		}
	})
}

func TestAWaitingBodyGetsReleasedRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, slow := fullServer()
		waits := startUpload(s, "/v1/messages", operatorSecret, 3<<20)
		synctest.Wait()
		<-time.After(request.BodyWait - time.Millisecond)
		slow[0].abort()
		synctest.Wait()
		if held, _ := s.bodies.budget.Held(); held != 15<<20 {
			t.Errorf("%d bytes", held)
		}
		for _, u := range append(slow[1:], waits) {
			u.abort()
		}
	})
}

func TestCompressedBodiesAreRefused(t *testing.T) {
	s := New(Options{Access: Access{Token: operatorSecret}})
	for coding, want := range map[string]int{"gzip": 415, "br, gzip": 415, "": 422, "identity": 422} {
		r := httptest.NewRequest(http.MethodPost, "http://localhost/v1/messages", strings.NewReader(`{"no":1}`))
		r.Header.Set("Authorization", "Bearer "+operatorSecret)
		r.Header.Set("Content-Encoding", coding)
		a := httptest.NewRecorder()
		if s.ServeHTTP(a, r); a.Code != want {
			t.Errorf("%q: %d %s, want %d", coding, a.Code, a.Body, want)
		}
	}
}
