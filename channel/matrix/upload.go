package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"mailroom"
	"mailroom/channel/chat"
	"mailroom/channel/httpcall"
)

// maxUpload is the size of files that homeservers accept by default (Synapse, max_upload_size). A homeserver that
// accepts less refuses the upload.
const maxUpload = 50 << 20

// upload stores a file in the media repository and returns the message that shows it. An upload alone shows nothing,
// so an upload of unknown outcome counts as not sent.
func (c *connection) upload(ctx context.Context, to chat.Room, m chat.Message) (content, error) {
	const op = "upload file"
	header := c.client.authorization()
	if header == nil {
		header = http.Header{}
	}
	header.Set("Content-Type", chat.UploadType)
	address := "/_matrix/media/v3/upload?filename=" + url.QueryEscape(m.File.Name)
	a, err := c.client.http.Do(ctx, httpcall.Request{Op: op, Method: http.MethodPost, URL: address, Header: header,
		Body: m.File.Content, Timeout: callTimeout})
	if err == nil && a.Status/100 != 2 {
		err = c.client.decodeError(op, a)
	}
	var stored struct {
		URI string `json:"content_uri"`
	}
	if err == nil && (json.Unmarshal(a.Body, &stored) != nil || stored.URI == "") {
		err = &httpcall.TransportError{Op: op, Reason: "response contains no content_uri"}
	}
	if refused, ok := errors.AsType[*httpcall.Refusal](err); ok && (refused.Status == http.StatusForbidden ||
		refused.Status == http.StatusRequestEntityTooLarge) {
		return content{}, httpcall.Permanent(err) // the media repository refused the file, not the room
	}
	if err = c.sendError(ctx, to, err); errors.Is(err, mailroom.ErrUnknown) {
		err = httpcall.Unavailable(fmt.Errorf("the file was not sent: %s", err.Error()))
	}
	if err != nil {
		return content{}, err
	}
	info, err := json.Marshal(map[string]any{"mimetype": "text/markdown", "size": len(m.File.Content)})
	if err != nil {
		return content{}, httpcall.Permanent(err)
	}
	return content{Type: "m.file", Body: m.Text, Filename: m.File.Name, URL: stored.URI, Info: info,
		Mentions: &mentions{}}, nil
}
