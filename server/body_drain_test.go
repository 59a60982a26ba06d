package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// sendFirst sends a request as simple clients do: it reads the answer only once the whole body is sent.
func (f *fixture) sendFirst(header, body string) (status int, err error) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	request := fmt.Sprintf("POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\n%s\r\n\r\n%s", f.secret, header, body)
	if _, err := io.WriteString(conn, request); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

func TestAClientThatSendsATooLargeBodyReadsTheRefusal(t *testing.T) {
	f := start(t)
	body := strings.Repeat("x", 20<<20)
	for name, c := range map[string]struct{ header, body string }{
		"of a known length": {fmt.Sprintf("Content-Length: %d", len(body)), body},
		"of no length":      {"Transfer-Encoding: chunked", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)},
	} {
		t.Run(name, func(t *testing.T) {
			status, err := f.sendFirst(c.header, c.body)
			if err != nil || status != http.StatusRequestEntityTooLarge {
				t.Errorf("got status %d, error %v, want 413", status, err)
			}
		})
	}
}
