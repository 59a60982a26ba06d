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
	fetchTimeout = 2 * time.Minute // for the whole of a file
	maxFileSize  = 100 << 20       // bytes: more than is ever wanted of one
)

// mediaURI is where a file is: on which server, under which id.
var mediaURI = regexp.MustCompile(`^mxc://([A-Za-z0-9.:\[\]-]{1,255})/([A-Za-z0-9_-]{1,255})$`)

// attachments are what came with a message.
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

// openFile opens a file, also on a homeserver that hands it out as older ones did.
func (c *connection) openFile(ctx context.Context, server, id string) (io.ReadCloser, error) {
	const what = "fetch a file"
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	var err error
	for _, begin := range []string{"/_matrix/client/v1/media/download", "/_matrix/media/v3/download"} {
		var a *http.Response
		if a, err = c.client.doRequest(ctx, what, http.MethodGet, escapePath(begin, server, id), nil); err != nil {
			break
		}
		if a.StatusCode == http.StatusOK {
			return &fileReader{body: a.Body, remaining: maxFileSize, client: c.client, cancel: cancel}, nil
		}
		raw, _ := io.ReadAll(io.LimitReader(a.Body, maxQuote)) // its status says enough
		_ = a.Body.Close()                                     // as above
		err = c.client.decodeError(what, a, raw)
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

// fileReader is one that is being fetched.
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
