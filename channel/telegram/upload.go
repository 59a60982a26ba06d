package telegram

import (
	"context"
	"encoding/json"
	"net/http"

	"mailroom/channel/chat"
	"mailroom/channel/httpcall"
)

// Limits of a file (Bot API, "sendDocument").
const (
	maxUpload  = 50_000_000 // bytes
	maxCaption = 1024       // UTF-16 units
)

// upload calls a method with a file. Values that are no text are JSON in the form.
func (c *client) upload(ctx context.Context, op, method string, in map[string]any, file *chat.Upload, out any) error {
	fields := map[string]string{}
	for name, value := range in {
		text, isText := value.(string)
		if !isText {
			raw, err := json.Marshal(value)
			if err != nil {
				return &httpcall.TransportError{Op: op, Reason: err.Error()}
			}
			text = string(raw)
		}
		fields[name] = text
	}
	kind, body, err := httpcall.Form(fields, httpcall.FormFile{Field: "document", Name: file.Name, Type: chat.UploadType,
		Content: file.Content})
	if err != nil {
		return &httpcall.TransportError{Op: op, Reason: err.Error()}
	}
	return c.post(ctx, httpcall.Request{Op: op, URL: method, Header: http.Header{"Content-Type": {kind}}, Body: body,
		Timeout: callTimeout}, out)
}
