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

// SetOpen implements [chat.Platform].
func (c *connection) SetOpen(f *chat.File) {
	id := strings.TrimPrefix(f.URI, fileURI)
	f.Open = func(ctx context.Context) (io.ReadCloser, error) { return c.openFile(ctx, id) }
}

// fetchTimeout is for the whole of a file.
const fetchTimeout = 2 * time.Minute

// openFile opens a file. More of it than the platform hands out is an error.
func (c *connection) openFile(ctx context.Context, id string) (io.ReadCloser, error) {
	var where struct {
		Path string `json:"file_path"`
		Size int64  `json:"file_size"`
	}
	err := c.client.call(ctx, "ask for a file", "getFile", map[string]any{"file_id": id}, &where, callTimeout)
	if e, ok := errors.AsType[*apiError](err); ok && e.code == http.StatusBadRequest {
		return nil, &mailroom.Failure{Class: mailroom.ClassPermanent, Err: err} // too large, or not there any more
	}
	if err != nil {
		return nil, unavailable(err)
	}
	if where.Path == "" || strings.HasPrefix(where.Path, "/") || where.Size > maxFileSize {
		return nil, &mailroom.Failure{Class: mailroom.ClassPermanent, Err: fmt.Errorf("the file of %d bytes is not handed out: up to %d bytes are, and none by a server in local mode", where.Size, maxFileSize)}
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	escaped := (&url.URL{Path: where.Path}).EscapedPath()
	a, err := c.client.doRequest(ctx, "fetch a file", http.MethodGet, "/file/bot"+c.client.token+"/"+escaped, nil)
	if err != nil {
		cancel()
		return nil, unavailable(err)
	}
	if a.StatusCode != http.StatusOK {
		_ = a.Body.Close() // its status says enough
		cancel()
		return nil, unavailable(&transportError{op: "fetch a file", reason: fmt.Sprintf("the platform answered %d %s", a.StatusCode, http.StatusText(a.StatusCode))})
	}
	return &fileReader{body: a.Body, remaining: maxFileSize, client: c.client, cancel: cancel}, nil
}

// fileReader is a file that is being fetched.
type fileReader struct {
	body      io.ReadCloser
	remaining int64
	client    *client
	cancel    context.CancelFunc
}

func (f *fileReader) Read(b []byte) (int, error) {
	n, err := f.body.Read(b)
	if f.remaining -= int64(n); f.remaining < 0 {
		return 0, fmt.Errorf("the file has more than %d bytes", maxFileSize)
	}
	if err != nil && err != io.EOF {
		err = errors.New("fetch a file: " + f.client.redact([]byte(err.Error())))
	}
	return n, err
}

func (f *fileReader) Close() error {
	defer f.cancel()
	return f.body.Close()
}
