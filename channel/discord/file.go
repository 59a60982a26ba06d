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

// fetchTimeout bounds the download of a file.
const fetchTimeout = 2 * time.Minute

// files converts attachments. Their URLs are signed: a URL is enough to read its file for
// about a day.
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

// isFileURL reports whether Discord serves files at a URL. Files are downloaded from nowhere
// else.
func (c *client) isFileURL(at string) bool {
	u, err := url.Parse(at)
	if err != nil || u.User != nil {
		return false
	}
	own := u.Scheme == "https" && slices.Contains([]string{"cdn.discordapp.com", "media.discordapp.net"}, u.Host)
	return own || c.base.String() != DefaultAPI && u.Scheme == c.base.Scheme && u.Host == c.base.Host
}

// openFile starts the download of a file. The token is not sent: the signed URL is enough.
func (c *client) openFile(ctx context.Context, at string) (io.ReadCloser, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		cancel()
		return nil, permanent(errors.New("download file: " + c.errorText(err)))
	}
	req.Header.Set("User-Agent", c.agent)
	resp, err := c.http.Do(req)
	if err != nil {
		cancel()
		return nil, unavailable(c.newTransportError(ctx, "download file", err, false))
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close() // the status is the error
		cancel()
		class := mailroom.ClassPermanent // deleted or expired
		if resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests {
			class = mailroom.ClassUnavailable
		}
		return nil, &mailroom.Failure{Class: class, Err: fmt.Errorf("download file: Discord answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))}
	}
	return &fileReader{ReadCloser: resp.Body, cancel: cancel}, nil
}

// fileReader reads a file that is being downloaded.
type fileReader struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (f *fileReader) Close() error {
	defer f.cancel()
	return f.ReadCloser.Close()
}
