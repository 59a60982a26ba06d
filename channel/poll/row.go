package poll

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"mailroom"
	"mailroom/internal/check"
	"mailroom/internal/digest"
)

// Kinds of rows. Rows of other kinds are run without a reply.
const (
	kindCanvas = "canvas_user"       // a person wrote on a canvas
	kindPeer   = "peer_agent"        // a task that another agent delegated
	kindResult = "delegation_result" // the result of a delegated task
)

// row is a message as listed by the platform.
type row struct {
	id        string
	seq       int64 // number of the row; 0 if it has none and cannot be acknowledged
	kind      string
	peer      string // peer agent that the row is from; "" if it is not from one
	workspace string // where the message arrived
	parts     []mailroom.Part
}

// rowAction is how a row is processed.
type rowAction int

const (
	rowRun        rowAction = iota // run and reply
	rowRunNoReply                  // run without a reply: there is no recipient
	rowOwn                         // sent by this bridge: skip
	rowInvalid                     // not a message: skip
)

// parseRow parses a row of this workspace. It accepts the field names and types of older and newer
// servers and tolerates every missing field that it does not need. reason explains an action other
// than rowRun.
func parseRow(raw json.RawMessage, workspace string) (r row, action rowAction, reason string) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return row{}, rowInvalid, "not a JSON object"
	}
	r = row{
		id: parseID(fields["activity_id"]), seq: parseNumber(fields["seq"]), kind: parseID(fields["kind"]),
		peer: parseID(fields["peer_id"]),
	}
	for _, name := range []string{"arrival_workspace_id", "workspace_id"} {
		if r.workspace == "" {
			r.workspace = parseID(fields[name])
		}
	}
	if r.workspace == "" {
		r.workspace = workspace
	}
	switch source := parseID(fields["source_id"]); {
	case parseBool(fields["timeout"]):
		return r, rowInvalid, "timeout marker"
	case r.id == "":
		return r, rowInvalid, "missing activity_id"
	case parseID(fields["method"]) == "notify" && source == "" && r.peer == "":
		return r, rowOwn, "notice sent by this bridge"
	case r.kind != kindResult && (source == workspace || r.peer == workspace):
		return r, rowOwn, "echo of a message sent by this bridge"
	}
	r.parts = parseParts(fields)
	switch {
	case r.kind == kindPeer && r.peer == "":
		return r, rowRunNoReply, "agent without peer id"
	case r.kind == kindResult:
		return r, rowRunNoReply, ""
	case r.kind != kindCanvas && r.kind != kindPeer:
		return r, rowRunNoReply, "unknown kind"
	}
	return r, rowRun, ""
}

// chat returns the chat of a row: one per counterpart, or one of its own if the row has none.
func (r row) chat() []string {
	switch {
	case r.kind == kindCanvas:
		return []string{"canvas", r.workspace}
	case r.peer != "":
		return []string{"peer", r.peer}
	}
	return []string{"row", r.id}
}

// key returns the key of the row's submit.
func (r row) key() string {
	if utf8.RuneCountInString(r.id) <= mailroom.MaxSubmitKey {
		return r.id
	}
	return digest.ID("activity", r.id)
}

// sender returns the author of the row.
func (r row) sender() string {
	if r.peer != "" {
		return "peer:" + r.peer
	}
	return "canvas:" + r.workspace
}

// Metadata of a row's run, used to route the reply.
const (
	labelKind      = "kind"
	labelActivity  = "activity"
	labelSeq       = "seq"
	labelWorkspace = "workspace"
	labelPeer      = "peer"
)

func (r row) metadata() map[string]string {
	labels := map[string]string{labelKind: r.kind, labelActivity: r.id, labelWorkspace: r.workspace}
	if r.seq > 0 {
		labels[labelSeq] = strconv.FormatInt(r.seq, 10)
	}
	if r.peer != "" {
		labels[labelPeer] = r.peer
	}
	return labels
}

// maxID bounds ids and kinds, in bytes. Longer ones are treated as missing.
const maxID = 1000

// parseID parses an id: a string or a number. Other values yield "".
func parseID(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	s := parseText(raw)
	if s == "" && len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9') {
		s = string(raw)
	}
	if s = strings.TrimSpace(s); len(s) > maxID {
		return ""
	}
	return s
}

// parseNumber parses a non-negative number, possibly quoted; 0 if invalid.
func parseNumber(raw json.RawMessage) int64 {
	n, err := strconv.ParseInt(parseID(raw), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

func parseBool(raw json.RawMessage) bool {
	var b bool
	return json.Unmarshal(raw, &b) == nil && b
}

// parseText parses a string and removes what a message may not contain; "" if it is not a string.
func parseText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// parseObjects returns the objects of a list and skips other elements.
func parseObjects(raw json.RawMessage) []map[string]json.RawMessage {
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		return nil
	}
	var found []map[string]json.RawMessage
	for _, item := range items {
		var o map[string]json.RawMessage
		if json.Unmarshal(item, &o) == nil && o != nil {
			found = append(found, o)
		}
	}
	return found
}

// parseParts returns the text and the files of a message. An empty message gets a placeholder, so
// that the agent sees it.
func parseParts(fields map[string]json.RawMessage) []mailroom.Part {
	var texts []string
	var files []mailroom.Part
	flat := parseText(fields["text"])
	if strings.TrimSpace(flat) != "" {
		texts = append(texts, flat)
	}
	for _, p := range parseObjects(fields["parts"]) {
		kind := parseID(p["type"])
		if kind == "" {
			kind = parseID(p["kind"])
		}
		if kind != "text" {
			files = appendFile(files, p)
		} else if t := parseText(p["text"]); t != "" && t != flat {
			texts = append(texts, t)
		}
	}
	for _, a := range parseObjects(fields["attachments"]) {
		files = appendFile(files, a)
	}
	if strings.TrimSpace(flat) != "" {
		texts = texts[:1] // the parts repeat the same text
	}
	text := truncate(strings.Join(texts, "\n"))
	if strings.TrimSpace(text) == "" {
		if len(files) > 0 {
			return files
		}
		text = "(empty message)"
	}
	return append(mailroom.Text(text), files...)
}

// maxFiles bounds the files of one row.
const maxFiles = 100

// appendFile adds a file unless it is a duplicate or has no URI.
func appendFile(files []mailroom.Part, of map[string]json.RawMessage) []mailroom.Part {
	var inner map[string]json.RawMessage
	if json.Unmarshal(of["file"], &inner) == nil && inner != nil {
		of = inner
	}
	first := func(names ...string) string {
		for _, n := range names {
			if s := parseID(of[n]); s != "" {
				return s
			}
		}
		return ""
	}
	p := mailroom.Part{
		Type: "file", URI: first("uri", "url"), Name: first("name"), MimeType: first("mime_type", "mimeType"),
	}
	same := func(q mailroom.Part) bool { return q.URI == p.URI }
	if p.URI == "" || check.IsServerFile(p.URI) || len(files) == maxFiles || slices.ContainsFunc(files, same) {
		return files
	}
	return append(files, p)
}

// truncate shortens a text to the maximum of a message and appends a note.
func truncate(s string) string {
	const note = "\n(the message is longer than this, and was cut)"
	if len(s) <= mailroom.MaxText {
		return s
	}
	end := mailroom.MaxText - len(note)
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + note
}
