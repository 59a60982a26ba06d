package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"time"

	"mailroom"
	"mailroom/api"
)

// pieceBytes is how much of a blob may take the time of one call.
const pieceBytes = 256 << 10

// timeFor returns how long a blob of this size may take.
func (c *Client) timeFor(size int64) time.Duration {
	return c.options.timeout * time.Duration(1+min(size, mailroom.MaxBlob)/pieceBytes)
}

// Upload stores content for a blob of a claimed run. A step under the claim that names the upload writes the blob.
func (w Work) Upload(ctx context.Context, claim mailroom.Claim, content io.Reader) (api.Upload, error) {
	size := int64(mailroom.MaxBlob)
	if known, ok := content.(interface{ Len() int }); ok { // as net/http finds the length of a body
		size = int64(known.Len())
	}
	ctx, cancel := context.WithTimeout(ctx, w.c.timeFor(size))
	defer cancel()
	var out api.Upload
	err := w.c.exchange(ctx, request{method: http.MethodPost, path: path("v1", "claims", api.ClaimID(claim), "uploads"),
		content: content}, &out)
	return out, err
}

// Blobs returns the blobs of a claimed run's agent in its thread, by name: those that begin with prefix and follow
// after. The Next of the page is the after of the next one.
func (w Work) Blobs(ctx context.Context, claim mailroom.Claim, prefix, after string) (api.Page[api.Blob], error) {
	v := url.Values{}
	for name, value := range map[string]string{"prefix": prefix, "after": after} {
		if value != "" {
			v.Set(name, value)
		}
	}
	return get[api.Page[api.Blob]](ctx, w.c, path("v1", "claims", api.ClaimID(claim), "blobs"), v)
}

// Blob returns the content of a blob of a claimed run's agent. If there is none of this name, the error has the code
// CodeNotFound and the field query.name.
func (w Work) Blob(ctx context.Context, claim mailroom.Claim, name string) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	late := time.AfterFunc(w.c.timeFor(0), cancel)
	defer late.Stop()
	resp, err := w.c.send(ctx, request{method: http.MethodGet, path: path("v1", "claims", api.ClaimID(claim), "blob"),
		query: url.Values{"name": {name}}})
	if err != nil {
		return nil, err
	}
	defer closeBody(resp)
	size := resp.ContentLength
	if size < 0 || size > mailroom.MaxBlob {
		return nil, mailroom.Errorf(mailroom.CodeInternal, "the server announces a blob of %d bytes", size)
	}
	late.Reset(w.c.timeFor(size))
	content := make([]byte, size)
	if _, err := io.ReadFull(resp.Body, content); err != nil {
		return nil, w.c.unanswered(ctx, err)
	}
	return content, nil
}
