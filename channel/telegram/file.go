package telegram

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"mailroom/channel/chat"
	"mailroom/channel/httpcall"
)

// SetOpen implements [chat.Platform].
func (c *connection) SetOpen(f *chat.File) {
	id := strings.TrimPrefix(f.URI, fileURI)
	f.Open = func(ctx context.Context) (io.ReadCloser, error) { return c.openFile(ctx, id) }
}

// openFile starts the download of a file. Reading past maxFileSize returns an error.
func (c *connection) openFile(ctx context.Context, id string) (io.ReadCloser, error) {
	var meta struct {
		Path string `json:"file_path"`
		Size int64  `json:"file_size"`
	}
	err := c.client.call(ctx, "get file", "getFile", map[string]any{"file_id": id}, &meta, callTimeout)
	if e, ok := errors.AsType[*httpcall.Refusal](err); ok && e.Status == http.StatusBadRequest {
		return nil, httpcall.Permanent(err) // too large or deleted
	}
	if err != nil {
		return nil, httpcall.Unavailable(err)
	}
	if meta.Path == "" || strings.HasPrefix(meta.Path, "/") || meta.Size > maxFileSize {
		return nil,
			httpcall.Permanent(
				fmt.Errorf("cannot download a file of %d bytes: the limit is %d bytes, and servers in local mode are not supported",
					meta.Size, maxFileSize))
	}
	escaped := (&url.URL{Path: meta.Path}).EscapedPath()
	content, _, err := c.client.http.Open(ctx, httpcall.Request{Op: "download file", URL: "/file/bot" + c.client.token +
		"/" + escaped}, maxFileSize)
	if err != nil {
		return nil, httpcall.Unavailable(err)
	}
	return content, nil
}
