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

// fetchTimeout bounds the download of a file.
const fetchTimeout = 2 * time.Minute

// openFile starts the download of a file. Reading past maxFileSize returns an error.
func (c *connection) openFile(ctx context.Context, id string) (io.ReadCloser, error) {
	var meta struct {
		Path string `json:"file_path"`
		Size int64  `json:"file_size"`
	}
	err := c.client.call(ctx, "get file", "getFile", map[string]any{"file_id": id}, &meta, callTimeout)
	if e, ok := errors.AsType[*apiError](err); ok && e.code == http.StatusBadRequest {
		return nil, &mailroom.Failure{Class: mailroom.ClassPermanent, Err: err} // too large or deleted
	}
	if err != nil {
		return nil, unavailable(err)
	}
	if meta.Path == "" || strings.HasPrefix(meta.Path, "/") || meta.Size > maxFileSize {
		return nil, &mailroom.Failure{Class: mailroom.ClassPermanent, Err: fmt.Errorf("cannot download a file of %d bytes: the limit is %d bytes, and servers in local mode are not supported", meta.Size, maxFileSize)}
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	escaped := (&url.URL{Path: meta.Path}).EscapedPath()
	resp, err := c.client.doRequest(ctx, "download file", http.MethodGet, "/file/bot"+c.client.token+"/"+escaped, nil)
	if err != nil {
		cancel()
		return nil, unavailable(err)
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close() // the status is the error
		cancel()
		return nil, unavailable(&transportError{op: "download file", reason: fmt.Sprintf("Telegram answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))})
	}
	return &fileReader{body: resp.Body, remaining: maxFileSize, client: c.client, cancel: cancel}, nil
}

// fileReader reads a file that is being downloaded.
type fileReader struct {
	body      io.ReadCloser
	remaining int64
	client    *client
	cancel    context.CancelFunc
}

func (f *fileReader) Read(b []byte) (int, error) {
	n, err := f.body.Read(b)
	if f.remaining -= int64(n); f.remaining < 0 {
		return 0, fmt.Errorf("file exceeds %d bytes", maxFileSize)
	}
	if err != nil && err != io.EOF {
		err = errors.New("download file: " + f.client.redact([]byte(err.Error())))
	}
	return n, err
}

func (f *fileReader) Close() error {
	defer f.cancel()
	return f.body.Close()
}
