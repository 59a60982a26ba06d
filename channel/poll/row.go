package poll

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"mailroom"
)

// Kinds of rows. There may be others, which are run and not answered.
const (
	kindCanvas = "canvas_user"       // a person wrote on the canvas of a workspace
	kindPeer   = "peer_agent"        // another agent delegated something
	kindResult = "delegation_result" // what became of something that was delegated
)

// row is one message as the platform lists it.
type row struct {
	id        string
	seq       int64 // 0: it has none, and cannot be acknowledged
	kind      string
	peer      string // "" where there is none
	workspace string // where it arrived
	parts     []mailroom.Part
}

// rowAction is what is done with a row.
type rowAction int

const (
	rowRun        rowAction = iota // it is run, and its answer goes back
	rowRunNoReply                  // it is run, and there is nobody to answer
	rowOwn                         // we wrote it ourselves: passed over
	rowInvalid                     // it is no message: passed over, and holds nothing back
)

// parseRow reads a row of our workspace. It takes names and types as older and newer
// servers have them, and fails for no field that it can do without. why says what
// there is to say about a row that is not taken.
func parseRow(raw json.RawMessage, workspace string) (r row, what rowAction, why string) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return row{}, rowInvalid, "it is not a JSON object"
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
		return r, rowInvalid, "it says that nothing came in time"
	case r.id == "":
		return r, rowInvalid, "it has no activity_id"
	case parseID(fields["method"]) == "notify" && source == "" && r.peer == "":
		return r, rowOwn, "it is a notice of our own"
	case r.kind != kindResult && (source == workspace || r.peer == workspace):
		return r, rowOwn, "it is an echo of what we sent"
	}
	r.parts = parseParts(fields)
	switch {
	case r.kind == kindPeer && r.peer == "":
		return r, rowRunNoReply, "it is from an agent that does not say which one"
	case r.kind == kindResult:
		return r, rowRunNoReply, ""
	case r.kind != kindCanvas && r.kind != kindPeer:
		return r, rowRunNoReply, "its kind is not known"
	}
	return r, rowRun, ""
}

// chat is the chat that a row belongs to: one for each counterpart, and one of its
// own for a row that has none.
func (r row) chat() []string {
	switch {
	case r.kind == kindCanvas:
		return []string{"canvas", r.workspace}
	case r.peer != "":
		return []string{"peer", r.peer}
	}
	return []string{"row", r.id}
}

// key is what the row is submitted under.
func (r row) key() string {
	if utf8.RuneCountInString(r.id) <= mailroom.MaxSubmitKey {
		return r.id
	}
	return mailroom.DeriveID("activity", r.id)
}

// sender is who wrote the row.
func (r row) sender() string {
	if r.peer != "" {
		return "peer:" + r.peer
	}
	return "canvas:" + r.workspace
}

// Labels of a run that came from a row, for the way back.
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

// maxID bounds ids and kinds, in bytes: what is longer is none.
const maxID = 1000

// parseID reads an id: text or a number. Anything else is none.
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

// parseNumber reads a positive number, also one in quotes; 0 if it is none.
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

// parseText reads a text that a message may hold; "" if it is none.
func parseText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// parseObjects reads the objects of a list, and passes over what is none.
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

// parseParts are the parts of a message: its texts as one, and its files. A message
// of neither says so: the agent is to see that there was one.
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
		texts = texts[:1] // the parts say the same in pieces
	}
	said := truncate(strings.Join(texts, "\n"))
	if strings.TrimSpace(said) == "" {
		if len(files) > 0 {
			return files
		}
		said = "(empty message)"
	}
	return append(mailroom.Text(said), files...)
}

// maxFiles bounds the files of one row.
const maxFiles = 100

// appendFile adds a file, once, unless nothing says where it is.
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
	if p.URI == "" || len(files) == maxFiles || slices.ContainsFunc(files, same) {
		return files
	}
	return append(files, p)
}

// truncate shortens a text to what a message holds, and says so.
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
