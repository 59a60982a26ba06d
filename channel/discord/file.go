package discord

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"mailroom"
	"mailroom/channel/chat"
)

// fetchTimeout is for the whole of a file.
const fetchTimeout = 2 * time.Minute

// files are what came with a message. The address of one is signed: whoever has it can
// read the file for about a day, and nothing else.
func (c *connection) files(all []attachment) (out []chat.File) {
	for _, a := range all {
		f := chat.File{Name: a.Name, MimeType: a.MimeType, Size: a.Size, URI: a.URL}
		if f.Size <= 0 {
			f.Size = -1
		}
		c.SetOpen(&f)
		out = append(out, f)
	}
	return out
}

// SetOpen implements [chat.Platform].
func (c *connection) SetOpen(f *chat.File) {
	if at := f.URI; c.client.isFileURL(at) {
		f.Open = func(ctx context.Context) (io.ReadCloser, error) { return c.client.openFile(ctx, at) }
	}
}

// isFileURL reports whether an address is one of those at which the platform hands out
// files. No other is asked for anything.
func (c *client) isFileURL(at string) bool {
	u, err := url.Parse(at)
	if err != nil || u.User != nil {
		return false
	}
	own := u.Scheme == "https" && slices.Contains([]string{"cdn.discordapp.com", "media.discordapp.net"}, u.Host)
	return own || c.base.String() != DefaultAPI && u.Scheme == c.base.Scheme && u.Host == c.base.Host
}

// openFile opens a file. The token is not sent along: the address is all it takes.
func (c *client) openFile(ctx context.Context, at string) (io.ReadCloser, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		cancel()
		return nil, permanent(errors.New("fetch a file: " + c.errorText(err)))
	}
	req.Header.Set("User-Agent", c.agent)
	a, err := c.http.Do(req)
	if err != nil {
		cancel()
		return nil, unavailable(c.newTransportError(ctx, "fetch a file", err, false))
	}
	if a.StatusCode != http.StatusOK {
		_ = a.Body.Close() // its status says enough
		cancel()
		class := mailroom.ClassPermanent // it is not there, or not any more
		if a.StatusCode >= 500 || a.StatusCode == http.StatusTooManyRequests {
			class = mailroom.ClassUnavailable
		}
		return nil, &mailroom.Failure{Class: class, Err: fmt.Errorf("fetch a file: the platform answered %d %s", a.StatusCode, http.StatusText(a.StatusCode))}
	}
	return &fileReader{ReadCloser: a.Body, cancel: cancel}, nil
}

// fileReader is a file that is being fetched.
type fileReader struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (f *fileReader) Close() error {
	defer f.cancel()
	return f.ReadCloser.Close()
}
