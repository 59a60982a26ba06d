package slacktest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// upload is a file between files.getUploadURLExternal and files.completeUploadExternal.
type upload struct {
	name, content string
	length        string
	done          bool
}

func (p *Platform) uploadAddress(host string, in url.Values) (any, *apiError) {
	if _, apiErr := p.requireScope("files:write", nil); apiErr != nil {
		return nil, apiErr
	}
	if in.Get("filename") == "" || in.Get("length") == "" {
		return nil, newAPIError("invalid_arguments")
	}
	id := fmt.Sprintf("F%05d", len(p.uploads)+1)
	p.uploads[id] = &upload{name: in.Get("filename"), length: in.Get("length")}
	return map[string]any{"upload_url": "http://" + host + "/upload/" + id, "file_id": id}, nil
}

// upload takes the content of a file. The address authenticates the request, so it has no token.
func (p *Platform) upload(w http.ResponseWriter, r *http.Request, id string) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.uploads[id]
	if u == nil || fmt.Sprint(len(raw)) != u.length || r.Header.Get("Authorization") != "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	u.content, u.done = string(raw), true
}

func (p *Platform) completeUpload(in url.Values) (any, *apiError) {
	if _, apiErr := p.requireScope("files:write", nil); apiErr != nil {
		return nil, apiErr
	}
	c := p.channels[in.Get("channel_id")]
	if c == nil {
		return nil, newAPIError("channel_not_found")
	}
	var files []struct {
		ID string `json:"id"`
	}
	if json.Unmarshal([]byte(in.Get("files")), &files) != nil || len(files) != 1 || p.uploads[files[0].ID] == nil ||
		!p.uploads[files[0].ID].done {
		return nil, newAPIError("invalid_arguments")
	}
	u := p.uploads[files[0].ID]
	delete(p.uploads, files[0].ID)
	m := &Message{From: BotID, Bot: true, At: time.Now(), File: u.name, Content: u.content,
		Text: in.Get("initial_comment"), ID: p.nextTimestamp()}
	if at := in.Get("thread_ts"); c.Find(at) != nil {
		m.Thread = at
	}
	c.Add(m)
	p.event(event(m, c))
	return map[string]any{"files": []any{map[string]any{"id": files[0].ID, "title": u.name}}}, nil
}
