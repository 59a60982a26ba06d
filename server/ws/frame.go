package ws

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"mailroom"
	"mailroom/server/internal/request"
)

// maxFrameID bounds the id of a frame, in bytes. The answer repeats it.
const maxFrameID = 200

// frame is a message from a client: an operation, the id that its answer repeats, and the
// operation's members as raw JSON.
type frame struct {
	op      string
	id      json.RawMessage // a string or a number; nil if missing or invalid
	members map[string]json.RawMessage
}

// parseFrame parses a frame. On an error the frame still has its id, if that was valid.
func parseFrame(raw []byte) (frame, error) {
	var f frame
	raw = bytes.TrimSpace(raw)
	broken := request.CheckJSON(raw, false)
	if len(raw) == 0 || raw[0] != '{' {
		if broken == nil {
			broken = request.Malformed("body", "must be a JSON object")
		}
		return f, broken
	}
	if err := json.Unmarshal(raw, &f.members); err != nil {
		return f, broken // request.CheckJSON refuses whatever the decoder refuses
	}
	id, named := f.members["id"]
	if isFrameID(id) {
		f.id = id
	}
	switch {
	case broken != nil:
		return f, broken
	case !named:
		return f, request.Invalid("body.id", "is missing: send a string or a number, which the answer repeats", nil)
	case f.id == nil:
		return f, request.Invalid("body.id", fmt.Sprintf("must be a string or a number of at most %d bytes", maxFrameID), nil)
	}
	op, err := parseString("op", f.members["op"])
	if err != nil {
		return f, err
	}
	f.op = op
	delete(f.members, "id")
	delete(f.members, "op")
	return f, nil
}

func isFrameID(id json.RawMessage) bool {
	return len(id) > 0 && len(id) <= maxFrameID && utf8.Valid(id) &&
		(id[0] == '"' || id[0] == '-' || id[0] >= '0' && id[0] <= '9')
}

// parseString decodes the string member name.
func parseString(name string, raw json.RawMessage) (string, error) {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return "", request.Invalid("body."+name, "must be a string", nil)
	}
	return s, nil
}

// optional removes and returns the string member name, which must not be blank. given reports
// whether it was there.
func (f frame) optional(name string) (value string, given bool, err error) {
	raw, given := f.members[name]
	if !given {
		return "", false, nil
	}
	delete(f.members, name)
	value, err = parseString(name, raw)
	if err == nil && strings.TrimSpace(value) == "" {
		err = request.Invalid("body."+name, "must not be blank", nil)
	}
	return value, true, err
}

// required is optional for a member that must be there.
func (f frame) required(name string) (string, error) {
	value, given, err := f.optional(name)
	if err == nil && !given {
		err = request.Invalid("body."+name, "is missing", nil)
	}
	return value, err
}

// checkDone refuses members that the operation does not know.
func (f frame) checkDone() error {
	first := ""
	for name := range f.members {
		if first == "" || name < first {
			first = name
		}
	}
	if first == "" {
		return nil
	}
	return request.Invalid("body."+request.Truncate(first), "unknown field", nil)
}

// body returns the remaining members as an object, with their original spelling: the digest of a
// submit must not depend on the way it came.
func (f frame) body() []byte {
	if len(f.members) == 0 {
		return nil
	}
	var b bytes.Buffer
	for name, value := range f.members {
		sep := byte(',')
		if b.Len() == 0 {
			sep = '{'
		}
		b.WriteByte(sep)
		b.Write(quoteJSON(name))
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// quoteJSON returns s as a JSON string.
func quoteJSON(s string) []byte {
	q, err := json.Marshal(s)
	if err != nil {
		panic("encode string: " + err.Error()) // every string has an encoding
	}
	return q
}

// unknownOp refuses an unknown operation.
func unknownOp(op string) error {
	return request.Invalid("body.op",
		"must be auth, submit, subscribe, unsubscribe, cancel, interrupt, decide, resume or ping", op)
}

func mustAuthenticate() error {
	return mailroom.Errorf(mailroom.CodeUnauthenticated,
		`not authenticated: send {"op":"auth","id":…,"token":TOKEN} first, or "session":HALF, or the header Authorization`)
}
