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
	fetchTime = 2 * time.Minute // for the whole of a file
	mostFile  = 100 << 20       // bytes: more than is ever wanted of one
)

// address is where a file is: on which server, under which id.
var address = regexp.MustCompile(`^mxc://([A-Za-z0-9.:\[\]-]{1,255})/([A-Za-z0-9_-]{1,255})$`)

// files are what came with a message.
func (r *receiver) files(s content) []chat.File {
	if !address.MatchString(s.URL) {
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
	if m := address.FindStringSubmatch(f.URI); m != nil {
		f.Open = func(ctx context.Context) (io.ReadCloser, error) { return c.fetch(ctx, m[1], m[2]) }
	}
}

// fetch opens a file, also on a homeserver that hands it out as older ones did.
func (c *connection) fetch(ctx context.Context, server, id string) (io.ReadCloser, error) {
	const what = "fetch a file"
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	var err error
	for _, begin := range []string{"/_matrix/client/v1/media/download", "/_matrix/media/v3/download"} {
		var a *http.Response
		if a, err = c.client.exchange(ctx, what, http.MethodGet, path(begin, server, id), nil); err != nil {
			break
		}
		if a.StatusCode == http.StatusOK {
			return &file{body: a.Body, left: mostFile, client: c.client, end: cancel}, nil
		}
		raw, _ := io.ReadAll(io.LimitReader(a.Body, maxQuote)) // its status says enough
		_ = a.Body.Close()                                     // as above
		err = c.client.no(what, a, raw)
		if a.StatusCode != http.StatusNotFound && a.StatusCode != http.StatusMethodNotAllowed {
			break
		}
	}
	cancel()
	if e, ok := errors.AsType[*refused](err); ok && e.code < 500 && e.code != http.StatusTooManyRequests {
		return nil, permanent(err)
	}
	return nil, outage(err)
}

// file is one that is being fetched.
type file struct {
	body   io.ReadCloser
	left   int64
	client *client
	end    context.CancelFunc
}

func (f *file) Read(b []byte) (int, error) {
	n, err := f.body.Read(b)
	if f.left -= int64(n); f.left < 0 {
		return 0, fmt.Errorf("the file has more than %d bytes", mostFile)
	}
	if err != nil && err != io.EOF {
		err = errors.New("fetch a file: " + f.client.quote([]byte(err.Error())))
	}
	return n, err
}

func (f *file) Close() error {
	defer f.end()
	return f.body.Close()
}
