package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"time"

	"mailroom/channel/chat"
)

const (
	fetchTimeout = 2 * time.Minute // for a whole download
	maxFileSize  = 100 << 20       // bytes
)

// mediaURI matches mxc://SERVER/MEDIA-ID.
var mediaURI = regexp.MustCompile(`^mxc://([A-Za-z0-9.:\[\]-]{1,255})/([A-Za-z0-9_-]{1,255})$`)

// attachments returns the files of a message.
func (r *receiver) attachments(s content) []chat.File {
	if !mediaURI.MatchString(s.URL) {
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
	if m := mediaURI.FindStringSubmatch(f.URI); m != nil {
		f.Open = func(ctx context.Context) (io.ReadCloser, error) { return c.openFile(ctx, m[1], m[2]) }
	}
}

// openFile starts a download. It falls back to the unauthenticated endpoint of homeservers before
// Matrix 1.11.
func (c *connection) openFile(ctx context.Context, server, id string) (io.ReadCloser, error) {
	const op = "download file"
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	var err error
	for _, prefix := range []string{"/_matrix/client/v1/media/download", "/_matrix/media/v3/download"} {
		var a *http.Response
		if a, err = c.client.doRequest(ctx, op, http.MethodGet, escapePath(prefix, server, id), nil); err != nil {
			break
		}
		if a.StatusCode == http.StatusOK {
			return &fileReader{body: a.Body, remaining: maxFileSize, client: c.client, cancel: cancel}, nil
		}
		raw, _ := io.ReadAll(io.LimitReader(a.Body, maxQuote)) // best effort: the status alone is enough
		_ = a.Body.Close()                                     // the body is no longer needed
		err = c.client.decodeError(op, a, raw)
		if a.StatusCode != http.StatusNotFound && a.StatusCode != http.StatusMethodNotAllowed {
			break
		}
	}
	cancel()
	if e, ok := errors.AsType[*apiError](err); ok && e.code < 500 && e.code != http.StatusTooManyRequests {
		return nil, permanent(err)
	}
	return nil, unavailable(err)
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
