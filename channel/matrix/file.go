package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"mailroom/channel/chat"
	"mailroom/channel/httpcall"
	"mailroom/internal/lazyregexp"
)

const maxFileSize = 100 << 20 // bytes

// mediaURI matches mxc://SERVER/MEDIA-ID.
var mediaURI = lazyregexp.New(`^mxc://([A-Za-z0-9.:\[\]-]{1,255})/([A-Za-z0-9_-]{1,255})$`)

// attachments returns the files of a message.
func (r *receiver) attachments(s content) []chat.File {
	if !mediaURI().MatchString(s.URL) {
		return nil
	}
	var info struct {
		Size float64 `json:"size"`
		Kind string  `json:"mimetype"`
	}
	f := chat.File{Name: s.Filename, Size: -1, URI: s.URL}
	r.SetOpen(&f)
	if json.Unmarshal(s.Info, &info) == nil {
		f.MimeType = info.Kind
		if info.Size >= 0 && info.Size < 1<<53 {
			f.Size = int64(info.Size)
		}
	}
	if f.Name == "" {
		f.Name = s.Body
	}
	return []chat.File{f}
}

// SetOpen implements [chat.Platform].
func (c *connection) SetOpen(f *chat.File) {
	if m := mediaURI().FindStringSubmatch(f.URI); m != nil {
		f.Open = func(ctx context.Context) (io.ReadCloser, error) { return c.openFile(ctx, m[1], m[2]) }
	}
}

// openFile starts a download. It falls back to the unauthenticated endpoint of homeservers before
// Matrix 1.11.
func (c *connection) openFile(ctx context.Context, server, id string) (io.ReadCloser, error) {
	const op = "download file"
	var err error
	for _, prefix := range []string{"/_matrix/client/v1/media/download", "/_matrix/media/v3/download"} {
		content, a, failed := c.client.http.Open(ctx, httpcall.Request{Op: op, URL: escapePath(prefix, server, id),
			Header: c.client.authorization()}, maxFileSize)
		if failed == nil {
			return content, nil
		}
		if err = failed; a.Status == 0 {
			break
		}
		err = c.client.decodeError(op, a)
		if a.Status != http.StatusNotFound && a.Status != http.StatusMethodNotAllowed {
			break
		}
	}
	if e, ok := errors.AsType[*httpcall.Refusal](err); ok && e.Status < 500 && e.Status != http.StatusTooManyRequests {
		return nil, httpcall.Permanent(err)
	}
	return nil, httpcall.Unavailable(err)
}
