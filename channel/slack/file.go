package slack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"mailroom/channel/chat"
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

// fetchTimeout bounds the download of a file.
const fetchTimeout = 2 * time.Minute

// openFile starts the download of a file. The token is sent to Slack's hosts only, whatever URL
// a response names.
func (c *connection) openFile(ctx context.Context, f file) (io.ReadCloser, error) {
	const op = "download file"
	if f.downloadURL() == "" {
		var about struct {
			File file `json:"file"`
		}
		if _, err := c.client.call(ctx, request{op: "get file", method: "files.info", params: formValues("file", f.ID), result: &about}); err != nil {
			return nil, sendError(err)
		}
		f = about.File
	}
	at, err := url.Parse(f.downloadURL())
	if err != nil || !c.client.isTrusted(at, "https", "http") {
		return nil, permanent(errors.New(op + ": its URL is not on a Slack host"))
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	resp, err := c.client.doRequest(ctx, op, http.MethodGet, at.String(), c.client.bot, nil)
	if err != nil {
		cancel()
		return nil, unavailable(err)
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close() // the status is the error
		cancel()
		err := &transportError{op: op, reason: fmt.Sprintf("Slack answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode)), retryAfter: parseRetryAfter(resp.Header.Get("Retry-After"))}
		if resp.StatusCode >= 300 && resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests {
			return nil, permanent(err) // such as a redirect to the sign-in page: the token lacks files:read
		}
		return nil, unavailable(err)
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
