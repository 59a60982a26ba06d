package discord

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"

	"mailroom/channel/chat"
	"mailroom/channel/httpcall"
)

// maxFileSize bounds a file in bytes. Discord accepts 500 MB at most.
const maxFileSize = 1 << 30

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
	content, a, err := c.http.Open(ctx, httpcall.Request{Op: "download file", URL: at}, maxFileSize)
	switch {
	case err == nil:
		return content, nil
	case a.Status == 0, a.Status >= 500, a.Status == http.StatusTooManyRequests:
		return nil, httpcall.Unavailable(err)
	}
	return nil, httpcall.Permanent(err) // deleted or expired
}
