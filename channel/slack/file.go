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
	Access    string `json:"file_access"` // "check_file_info" of one from another workspace
	URL       string `json:"url_private_download"`
	Private   string `json:"url_private"`
	Permalink string `json:"permalink"`
}

// downloadURL is where its content is, for who has the token.
func (f file) downloadURL() string {
	if f.URL != "" {
		return f.URL
	}
	return f.Private
}

// files are those that are there. Their URI is the page of the file, which only
// members of the workspace see.
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

// SetOpen implements [chat.Platform]. A Ref is the address of the content, or the id of a file
// of which Slack has to be asked for that.
func (c *connection) SetOpen(f *chat.File) {
	at := file{URL: f.Ref}
	if !strings.Contains(f.Ref, "/") {
		at = file{ID: f.Ref}
	}
	f.Open = func(ctx context.Context) (io.ReadCloser, error) { return c.openFile(ctx, at) }
}

// fetchTimeout is for the whole of a file.
const fetchTimeout = 2 * time.Minute

// openFile opens a file. The token goes to Slack only, and nowhere that an answer names.
func (c *connection) openFile(ctx context.Context, f file) (io.ReadCloser, error) {
	const what = "fetch a file"
	if f.downloadURL() == "" {
		var about struct {
			File file `json:"file"`
		}
		if _, err := c.client.call(ctx, request{op: "ask for a file", method: "files.info", params: formValues("file", f.ID), result: &about}); err != nil {
			return nil, sendError(err)
		}
		f = about.File
	}
	at, err := url.Parse(f.downloadURL())
	if err != nil || !c.client.isTrusted(at, "https", "http") {
		return nil, permanent(errors.New(what + ": it is not at Slack"))
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	a, err := c.client.doRequest(ctx, what, http.MethodGet, at.String(), c.client.bot, nil)
	if err != nil {
		cancel()
		return nil, unavailable(err)
	}
	if a.StatusCode != http.StatusOK {
		_ = a.Body.Close() // its status says enough
		cancel()
		err := &transportError{op: what, reason: fmt.Sprintf("Slack answered %d %s", a.StatusCode, http.StatusText(a.StatusCode)), retryAfter: parseRetryAfter(a.Header.Get("Retry-After"))}
		if a.StatusCode >= 300 && a.StatusCode < 500 && a.StatusCode != http.StatusTooManyRequests {
			return nil, permanent(err) // to the page where people sign in, for one: it needs files:read
		}
		return nil, unavailable(err)
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
