package httpcall

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// Open starts the download of a file; reading past most bytes returns an error. A status other than
// 200 is a [*Refusal], and comes with a response that holds the beginning of the body. Any other
// error is a [*TransportError]. The request's Timeout is ignored: a download has 2 minutes.
func (c *Client) Open(ctx context.Context, r Request, most int64) (io.ReadCloser, Response, error) {
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	a, err := c.exchange(ctx, r)
	if err != nil {
		cancel()
		return nil, Response{}, err
	}
	if a.StatusCode != http.StatusOK {
		defer cancel()
		defer a.Body.Close()                       // the status is the error
		response, _ := readResponse(a, maxQuote*4) // best effort: the status alone is enough
		refusal := c.Refuse(r.Op, response)
		refusal.Text = http.StatusText(response.Status)
		return nil, response, refusal
	}
	return &fileReader{client: c, ctx: ctx, cancel: cancel, op: r.Op, body: a.Body, most: most, remaining: most},
		Response{Status: a.StatusCode, Header: a.Header}, nil
}

// fileReader reads a file that is being downloaded.
type fileReader struct {
	// Set by Open.
	client *Client
	ctx    context.Context // context of the download
	cancel context.CancelFunc
	op     string
	body   io.ReadCloser
	most   int64

	remaining int64 // owned by the reader
}

func (f *fileReader) Read(b []byte) (int, error) {
	n, err := f.body.Read(b)
	if f.remaining -= int64(n); f.remaining < 0 {
		return 0, fmt.Errorf("file exceeds %d bytes", f.most)
	}
	if err != nil && err != io.EOF {
		err = f.client.TransportError(f.ctx, f.op, err, false)
	}
	return n, err
}

func (f *fileReader) Close() error {
	defer f.cancel()
	return f.body.Close()
}
