package slack

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"mailroom/channel/chat"
	"mailroom/channel/httpcall"
)

// file is an attachment.
type file struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Title     string `json:"title"`
	MimeType  string `json:"mimetype"`
	Size      int64  `json:"size"`
	Mode      string `json:"mode"`
	External  bool   `json:"is_external"`
	Access    string `json:"file_access"` // "check_file_info" for a file from another workspace
	URL       string `json:"url_private_download"`
	Private   string `json:"url_private"`
	Permalink string `json:"permalink"`
}

// downloadURL returns the URL of the content, which requires the bot's token.
func (f file) downloadURL() string {
	if f.URL != "" {
		return f.URL
	}
	return f.Private
}

// files converts attachments. Their URI is the page of the file, which only members of the
// workspace can see.
func (c *connection) files(all []file) (out []chat.File) {
	for _, f := range all {
		if f.Mode == "tombstone" || f.Mode == "hidden_by_limit" {
			continue
		}
		one := chat.File{Name: f.Name, MimeType: f.MimeType, Size: f.Size, URI: f.Permalink}
		if one.Name == "" {
			one.Name = f.Title
		}
		if one.Size <= 0 {
			one.Size = -1
		}
		if !f.External && f.Mode != "external" {
			one.Ref = f.ID
			if at := f.downloadURL(); at != "" {
				one.Ref = at
			}
			c.SetOpen(&one)
		} else if one.URI == "" {
			one.URI = f.Private
		}
		out = append(out, one)
	}
	return out
}

// SetOpen implements [chat.Platform]. A Ref is the URL of the content, or the id of a file whose
// URL has to be looked up.
func (c *connection) SetOpen(f *chat.File) {
	at := file{URL: f.Ref}
	if !strings.Contains(f.Ref, "/") {
		at = file{ID: f.Ref}
	}
	f.Open = func(ctx context.Context) (io.ReadCloser, error) { return c.openFile(ctx, at) }
}

// maxFileSize is Slack's limit for a file, in bytes.
const maxFileSize = 1 << 30

// openFile starts the download of a file. The token is sent to Slack's hosts only, whatever URL
// a response names.
func (c *connection) openFile(ctx context.Context, f file) (io.ReadCloser, error) {
	const op = "download file"
	if f.downloadURL() == "" {
		var about struct {
			File file `json:"file"`
		}
		if _, err := c.client.call(ctx, request{op: "get file", method: "files.info", params: formValues("file", f.ID),
			result: &about}); err != nil {
			return nil, sendError(err)
		}
		f = about.File
	}
	at, err := url.Parse(f.downloadURL())
	if err != nil || !c.client.isTrusted(at, "https", "http") {
		return nil, httpcall.Permanent(errors.New(op + ": its URL is not on a Slack host"))
	}
	content, a, err := c.client.http.Open(ctx, httpcall.Request{Op: op, URL: at.String(),
		Header: authorization(c.client.bot)}, maxFileSize)
	switch {
	case err == nil:
		return content, nil
	case a.Status >= 300 && a.Status < 500 && a.Status != http.StatusTooManyRequests:
		return nil, httpcall.Permanent(err) // such as a redirect to the sign-in page: the token lacks files:read
	}
	return nil, httpcall.Unavailable(err)
}
