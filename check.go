package mailroom

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// CheckThreadID trims id and returns an error if it is empty, ".", "..", longer than MaxThreadID
// characters, or contains a slash or an unprintable character.
func CheckThreadID(id string) (string, error) {
	id = strings.TrimSpace(id)
	switch {
	case id == "", id == ".", id == "..":
		return "", invalid("thread", "is not a thread id; use a name other than . and ..", id)
	case !utf8.ValidString(id):
		return "", invalid("thread", "is not valid UTF-8", id)
	case utf8.RuneCountInString(id) > MaxThreadID:
		return "", invalid("thread", fmt.Sprintf("is longer than %d characters", MaxThreadID), id)
	case strings.ContainsRune(id, '/'):
		return "", invalid("thread", "must not contain a slash", id)
	}
	for _, c := range id {
		if !unicode.IsPrint(c) {
			return "", invalid("thread", fmt.Sprintf("must not contain the unprintable character %U", c), id)
		}
	}
	return id, nil
}

// Check fills in defaults and validates in. It also computes the digest that recognizes a repeated
// submit, so call it before the transaction.
func (in *Submit) Check() error {
	if in.Mode == "" {
		in.Mode = ModeQueue
	}
	if in.MaxAttempts == 0 {
		in.MaxAttempts = DefaultAttempts
	}
	in.NotBefore = in.NotBefore.UTC().Truncate(time.Microsecond)
	in.Messages = slices.Clone(in.Messages) // do not change the caller's slice
	for _, check := range []func() error{in.checkNames, in.checkOptions, in.checkMode, in.checkMessages, in.checkChannel} {
		if err := check(); err != nil {
			return err
		}
	}
	in.sum = in.digest()
	return nil
}

func (in *Submit) checkNames() error {
	for _, n := range []struct{ location, name string }{
		{"agent", in.Agent}, {"agent_version", in.AgentVersion}, {"sender", in.Sender}, {"owner", in.Owner},
		{"parent", in.Parent}, {"expect_run", in.ExpectRun}, {"origin", in.Origin.Via},
		{"origin", in.Origin.Sender}, {"origin", in.Origin.RequestID},
	} {
		if !cleanText(n.name) {
			return invalid(n.location, "must be valid UTF-8 without NUL", n.name)
		}
	}
	return nil
}

// checkChannel validates the fields that only channels set.
func (in *Submit) checkChannel() error {
	if in.DeliverTo != "" {
		id, err := CheckThreadID(in.DeliverTo)
		if err != nil {
			return err
		}
		if in.DeliverTo = id; !cleanText(in.DeliverAgent) || in.DeliverAgent == "" {
			return invalid("deliver_to", "needs an agent that delivers", in.DeliverAgent)
		}
	}
	if in.Cursor == nil {
		return nil
	}
	return CheckCursor(in.Cursor)
}

func (in *Submit) checkOptions() error {
	if utf8.RuneCountInString(in.Key) > MaxSubmitKey || !cleanText(in.Key) {
		return invalid("key", fmt.Sprintf("must be text of at most %d characters", MaxSubmitKey), in.Key)
	}
	if p := in.priority(); p < 0 || p > 255 {
		return invalid("priority", "must be between 0 and 255", p)
	}
	if in.MaxAttempts < 1 || in.MaxAttempts > 100 {
		return invalid("max_attempts", "must be between 1 and 100", in.MaxAttempts)
	}
	if len(in.Options) == 0 {
		in.Options = nil
	} else if err := checkJSON("options", in.Options, MaxOptions); err != nil {
		return err
	}
	size := 0
	for k, v := range in.Metadata {
		size += len(k) + len(v)
		if !cleanText(k) || !cleanText(v) || k == "" {
			return invalid("metadata", "must be text without NUL, under a name", k)
		}
	}
	if size > MaxMetadata {
		return tooLarge("metadata", fmt.Sprintf("is larger than %d bytes", MaxMetadata), size)
	}
	return nil
}

func (in *Submit) checkMode() error {
	switch in.Mode {
	case ModeQueue, ModeLatest, ModeCollect:
	case ModeSteer, ModeInterrupt, ModeReject:
		if !in.NotBefore.IsZero() {
			return invalid("not_before", "goes with the modes queue, latest and collect", in.NotBefore)
		}
	default:
		return invalid("mode", "must be queue, steer, interrupt, latest, collect or reject", string(in.Mode))
	}
	if y := in.NotBefore.Year(); y > 9999 || y < 1 {
		return invalid("not_before", "is not a time between the years 1 and 9999", in.NotBefore)
	}
	if in.ExpectRun != "" && in.Mode != ModeSteer {
		return invalid("expect_run", "goes with mode steer", in.ExpectRun)
	}
	return nil
}

func (in *Submit) checkMessages() error {
	if len(in.Messages) == 0 && len(in.Decisions) > 0 {
		return nil
	}
	if len(in.Messages) == 0 {
		return invalid("text", "is empty; give text, parts or messages", "")
	}
	if len(in.Messages) > MaxMessages {
		return invalid("messages", fmt.Sprintf("are more than %d", MaxMessages), len(in.Messages))
	}
	for i := range in.Messages {
		d := &in.Messages[i]
		at := ""
		if len(in.Messages) > 1 {
			at = fmt.Sprintf("messages[%d].", i)
		}
		if d.Role == "" {
			d.Role = RoleUser
		}
		if d.Visibility == "" {
			d.Visibility = VisibleAll
		}
		if d.Role != RoleUser && d.Role != RoleSystem {
			return invalid(at+"role", "must be user or system", string(d.Role))
		}
		if d.Visibility != VisibleAll && d.Visibility != VisibleInternal {
			return invalid(at+"visibility", "must be all or internal", d.Visibility)
		}
		if err := checkParts(at, d.Parts); err != nil {
			return err
		}
	}
	return nil
}

func checkParts(at string, parts []Part) error {
	if len(parts) > MaxParts {
		return invalid(at+"parts", fmt.Sprintf("are more than %d", MaxParts), len(parts))
	}
	size, empty := 0, true
	for i, p := range parts {
		where := fmt.Sprintf("%sparts[%d]", at, i)
		if !cleanText(p.Text) {
			return invalid(at+"text", "must be valid UTF-8 without NUL", "")
		}
		if !cleanText(p.URI + p.Name + p.MimeType) {
			return invalid(where, "must be valid UTF-8 without NUL", "")
		}
		if err := checkLabels(&p, where); err != nil {
			return err
		}
		if len(p.Data) > 0 || p.Type == "data" {
			if err := checkJSON(where+".data", p.Data, MaxText); err != nil {
				return err
			}
		}
		size += len(p.Text)
		switch p.Type {
		case "text":
			empty = empty && strings.TrimSpace(p.Text) == ""
		case "data":
			empty = false
		case "file":
			if p.URI == "" {
				return invalid(where+".uri", "is needed for a file part", p.URI)
			}
			empty = false
		default:
			return invalid(where+".type", "must be text, data or file", p.Type)
		}
	}
	if empty {
		return invalid(at+"text", "is empty; give text, parts or messages", "")
	}
	if size > MaxText {
		return tooLarge(at+"text", fmt.Sprintf("is longer than %d bytes", MaxText), size)
	}
	return nil
}

// checkLabels bounds the URI, name and MIME type of a part.
func checkLabels(p *Part, where string) error {
	for _, l := range []struct {
		field, text string
		most        int
	}{{".uri", p.URI, MaxURI}, {".name", p.Name, MaxLabel}, {".mime_type", p.MimeType, MaxLabel}} {
		if utf8.RuneCountInString(l.text) > l.most {
			return invalid(where+l.field, fmt.Sprintf("is longer than %d characters", l.most), utf8.RuneCountInString(l.text))
		}
	}
	return nil
}

// checkJSON returns an error if raw is not valid JSON or is longer than limit bytes.
func checkJSON(where string, raw json.RawMessage, limit int) error {
	switch {
	case len(raw) > limit:
		return tooLarge(where, fmt.Sprintf("is larger than %d bytes", limit), len(raw))
	case !json.Valid(raw) || !utf8.Valid(raw) || bytes.IndexByte(raw, 0) >= 0:
		return invalid(where, "is not valid JSON", "")
	}
	return nil
}

// isObject reports whether valid JSON is an object.
func isObject(raw json.RawMessage) bool {
	return bytes.HasPrefix(bytes.TrimLeft(raw, " \t\r\n"), []byte("{"))
}

func cleanText(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

func (in *Submit) priority() int {
	if in.Priority == nil {
		return DefaultPriority
	}
	return *in.Priority
}

// submitDigest holds the fields that the digest of a submit covers.
type submitDigest struct {
	Messages  []NewMessage
	Agent     string
	Mode      Mode
	Priority  int
	NotBefore time.Time
	Options   json.RawMessage
	Decisions []Decision
}

// digest returns the digest that decides whether two submits with one key are the same.
func (in *Submit) digest() string {
	d := submitDigest{Messages: in.Messages, Mode: in.Mode, Priority: in.priority(), NotBefore: in.NotBefore, Options: in.Options, Decisions: in.Decisions}
	if in.SetAgent {
		d.Agent = in.Agent
	}
	if in.Size() > maxAppended {
		type streamed submitDigest // has no AppendJSON: encoding/json reuses its buffer for long texts
		return digest(streamed(d))
	}
	return digest(d)
}
