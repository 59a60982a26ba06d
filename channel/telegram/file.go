package telegram

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"mailroom"
	"mailroom/channel/chat"
)

// Opens implements [chat.Platform].
func (c *connection) Opens(f *chat.File) {
	id := strings.TrimPrefix(f.URI, fileURI)
	f.Open = func(ctx context.Context) (io.ReadCloser, error) { return c.fetch(ctx, id) }
}

// fetchTime is for the whole of a file.
const fetchTime = 2 * time.Minute

// fetch opens a file. More of it than the platform hands out is an error.
func (c *connection) fetch(ctx context.Context, id string) (io.ReadCloser, error) {
	var where struct {
		Path string `json:"file_path"`
		Size int64  `json:"file_size"`
	}
	err := c.client.call(ctx, "ask for a file", "getFile", map[string]any{"file_id": id}, &where, callTime)
	if e, ok := errors.AsType[*refused](err); ok && e.code == http.StatusBadRequest {
		return nil, &mailroom.Failure{Class: mailroom.ClassPermanent, Err: err} // too large, or not there any more
	}
	if err != nil {
		return nil, outage(err)
	}
	if where.Path == "" || strings.HasPrefix(where.Path, "/") || where.Size > mostFile {
		return nil, &mailroom.Failure{Class: mailroom.ClassPermanent, Err: fmt.Errorf("the file of %d bytes is not handed out: up to %d bytes are, and none by a server in local mode", where.Size, mostFile)}
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	escaped := (&url.URL{Path: where.Path}).EscapedPath()
	a, err := c.client.exchange(ctx, "fetch a file", http.MethodGet, "/file/bot"+c.client.token+"/"+escaped, nil)
	if err != nil {
		cancel()
		return nil, outage(err)
	}
	if a.StatusCode != http.StatusOK {
		_ = a.Body.Close() // its status says enough
		cancel()
		return nil, outage(&lost{what: "fetch a file", why: fmt.Sprintf("the platform answered %d %s", a.StatusCode, http.StatusText(a.StatusCode))})
	}
	return &content{body: a.Body, left: mostFile, client: c.client, end: cancel}, nil
}

// content is a file that is being fetched.
type content struct {
	body   io.ReadCloser
	left   int64
	client *client
	end    context.CancelFunc
}

func (f *content) Read(b []byte) (int, error) {
	n, err := f.body.Read(b)
	if f.left -= int64(n); f.left < 0 {
		return 0, fmt.Errorf("the file has more than %d bytes", mostFile)
	}
	if err != nil && err != io.EOF {
		err = errors.New("fetch a file: " + f.client.quote([]byte(err.Error())))
	}
	return n, err
}

func (f *content) Close() error {
	defer f.end()
	return f.body.Close()
}
