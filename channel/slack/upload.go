package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"mailroom"
	"mailroom/channel/chat"
	"mailroom/channel/httpcall"
)

// maxUpload is the size of files that a bot sends here. Slack accepts 1 GB.
const maxUpload = 100 << 20

// scopeFiles is the scope without which a bot uploads no files.
const scopeFiles = "files:write"

// sendFile uploads a file and shares it in a room (Web API, "files.getUploadURLExternal" and
// "files.completeUploadExternal"). Slack returns no id of the message. Only the last call shows the
// file, so an unknown outcome of the calls before it means that nothing was sent.
func (c *connection) sendFile(ctx context.Context, to chat.Room, m chat.Message) error {
	if slices.Contains(c.bot.MissingScopes, scopeFiles) {
		return httpcall.Permanent(errors.New("the bot's token lacks the scope " + scopeFiles))
	}
	var at struct {
		URL  string `json:"upload_url"`
		File string `json:"file_id"`
	}
	in := formValues("filename", m.File.Name, "length", strconv.Itoa(len(m.File.Content)))
	if err := c.callWrite(ctx, request{op: "get upload address", method: "files.getUploadURLExternal", params: in,
		result: &at}); err != nil {
		return fileError(err)
	}
	address, err := url.Parse(at.URL)
	if err != nil || address.Host == "" || address.Scheme != "https" && address.Host != c.client.base.Host ||
		at.File == "" {
		return httpcall.Unavailable(errors.New("the answer of Slack has no valid address for the upload of the file"))
	}
	a, err := c.client.http.Do(ctx, httpcall.Request{
		Op: "upload file", Method: http.MethodPost, URL: at.URL,
		Header: http.Header{"Content-Type": {"application/octet-stream"}}, Body: m.File.Content, Timeout: callTimeout,
	})
	switch {
	case err != nil:
		return httpcall.Unavailable(err)
	case a.Status/100 != 2:
		return httpcall.Unavailable(fmt.Errorf("upload file: Slack answered %d %s", a.Status, http.StatusText(a.Status)))
	}
	files, err := json.Marshal([]map[string]string{{"id": at.File, "title": m.File.Name}})
	if err != nil {
		return httpcall.Permanent(err)
	}
	in = formValues("files", string(files), "channel_id", to.Chat, "thread_ts", to.Topic, "initial_comment",
		escape(m.Text))
	err = c.callWrite(ctx, request{op: "share file", method: "files.completeUploadExternal", params: in})
	if e, ok := errors.AsType[*httpcall.Refusal](err); ok && e.Code == "thread_not_found" && to.Topic != "" {
		err = fmt.Errorf("%w: %w", chat.ErrTopicGone, err)
	}
	return refusedScope(err)
}

// fileError converts the error of a call before the one that shows the file. If the outcome of the call is unknown,
// the message was still not sent, so a retry is safe.
func fileError(err error) error {
	if err = refusedScope(err); errors.Is(err, mailroom.ErrUnknown) {
		return httpcall.Unavailable(fmt.Errorf("the file was not sent: %s", err.Error()))
	}
	return err
}

// refusedScope turns the error about a missing scope into a refusal of the file, because the token itself is valid
// and the channel must go on.
func refusedScope(err error) error {
	if e, ok := errors.AsType[*httpcall.Refusal](err); ok && e.Code == "missing_scope" {
		return httpcall.Permanent(fmt.Errorf("the bot's token lacks the scope %s: %s", scopeFiles, err.Error()))
	}
	return err
}

// hasFile reports whether a message has a file of this name.
func hasFile(m message, name string) bool {
	return slices.ContainsFunc(m.Files, func(f file) bool { return f.Name == name })
}
