package thread

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"mailroom"
	"mailroom/internal/check"
	"mailroom/internal/digest"
	"mailroom/store"
)

// Check fills in defaults and validates in. It also computes the digest that recognizes a repeated
// submit, so call it before the transaction.
func (in *Submit) Check() error {
	if in.Mode == "" {
		in.Mode = mailroom.ModeQueue
	}
	in.NotBefore = in.NotBefore.UTC().Truncate(time.Microsecond)
	in.Join = in.Join.Truncate(time.Microsecond)
	in.Written = in.Written.UTC().Truncate(time.Microsecond)
	in.Deadline = in.Deadline.UTC().Truncate(time.Microsecond)
	in.Messages = slices.Clone(in.Messages) // do not change the caller's slice
	for _, check := range []func() error{
		in.checkNames, in.checkOptions, in.checkMode, in.checkJoin, in.checkMessages, in.checkChannel,
		func() error { return checkBudget(&in.Budget) },
	} {
		if err := check(); err != nil {
			return err
		}
	}
	in.sum, in.verdicts = in.digest(), nil
	for i := range in.Decisions {
		in.verdicts = append(in.verdicts, in.Decisions[i].verdict())
	}
	return nil
}

func (in *Submit) checkNames() error {
	for _, n := range []struct{ location, name string }{
		{"agent", in.Agent}, {"agent_version", in.AgentVersion}, {"sender", in.Sender}, {"owner", in.Owner},
		{"parent", in.Parent}, {"expect_run", in.ExpectRun}, {"origin", in.Origin.Via},
		{"origin", in.Origin.Sender}, {"origin", in.Origin.RequestID},
	} {
		if !check.IsClean(n.name) {
			return check.Invalid(n.location, "must be valid UTF-8 without NUL", n.name)
		}
	}
	for i, d := range in.Decisions { // their tickets are looked up before the transaction, where no operation checks names
		if !check.IsClean(d.Ticket) {
			return check.Invalid(fmt.Sprintf("decisions[%d].ticket", i), "must be valid UTF-8 without NUL",
				strings.ToValidUTF8(d.Ticket, "\ufffd"))
		}
	}
	return nil
}

// checkChannel validates the fields that only channels set.
func (in *Submit) checkChannel() error {
	if in.DeliverTo != "" {
		id, err := check.ThreadID(in.DeliverTo)
		if err != nil {
			return err
		}
		if in.DeliverTo = id; !check.IsClean(in.DeliverAgent) || in.DeliverAgent == "" {
			return check.Invalid("deliver_to", "needs the name of the agent that delivers", in.DeliverAgent)
		}
	}
	if in.Cursor == nil {
		return nil
	}
	return CheckCursor(in.Cursor)
}

func (in *Submit) checkOptions() error {
	if utf8.RuneCountInString(in.Key) > mailroom.MaxSubmitKey || !check.IsClean(in.Key) {
		return check.Invalid("key", fmt.Sprintf("must be text of at most %d characters", mailroom.MaxSubmitKey), in.Key)
	}
	if utf8.RuneCountInString(in.LimitKey) > mailroom.MaxKey || !check.IsClean(in.LimitKey) {
		return check.Invalid("concurrency_key", fmt.Sprintf("must be text of at most %d characters", mailroom.MaxKey),
			in.LimitKey)
	}
	if p := in.priority(); p < 0 || p > 255 {
		return check.Invalid("priority", "must be between 0 and 255", p)
	}
	if in.MaxAttempts < 0 || in.MaxAttempts > 100 { // 0 is the default
		return check.Invalid("max_attempts", "must be between 1 and 100", in.MaxAttempts)
	}
	if in.MaxAttempts != 0 && in.Retry.Attempts != 0 {
		return check.Invalid("retry", "has attempts, and so has max_attempts; give one of them", in.Retry.Attempts)
	}
	if err := in.Retry.Check(); err != nil {
		return check.Invalid("retry", err.Error(), nil)
	}
	if n := in.MaxCrashes; n != nil && (*n < 0 || *n > mailroom.MaxCrashes) {
		return check.Invalid("max_crashes", fmt.Sprintf("must be between 0 and %d", mailroom.MaxCrashes), *n)
	}
	if in.Timeout < 0 || in.Timeout > maxTimeout || in.Timeout > 0 && !in.Deadline.IsZero() {
		return check.Invalid("deadline", "must be one time, or one duration of at most ten years", in.Timeout.String())
	}
	if y := in.Deadline.Year(); y > 9999 || y < 1 {
		return check.Invalid("deadline", "is not a time between the years 1 and 9999", in.Deadline)
	}
	if len(in.Options) == 0 {
		in.Options = nil
	} else if err := check.JSON("options", in.Options, mailroom.MaxOptions); err != nil {
		return err
	}
	size := 0
	for k, v := range in.Metadata {
		size += len(k) + len(v)
		if !check.IsClean(k) || !check.IsClean(v) || k == "" {
			return check.Invalid("metadata", "must be text without NUL, under a name", k)
		}
	}
	if size > mailroom.MaxMetadata {
		return check.TooLarge("metadata", fmt.Sprintf("is larger than %d bytes", mailroom.MaxMetadata), size)
	}
	return nil
}

func (in *Submit) checkMode() error {
	switch in.Mode {
	case mailroom.ModeQueue, mailroom.ModeLatest, mailroom.ModeCollect, mailroom.ModeSteer, mailroom.ModeInterrupt,
		mailroom.ModeReject:
	default:
		return check.Invalid("mode", "must be queue, steer, interrupt, latest, collect or reject", string(in.Mode))
	}
	if !in.NotBefore.IsZero() && !canWait(in.Mode) {
		return check.Invalid("not_before", "is allowed only with the modes queue, latest and collect", in.NotBefore)
	}
	if y := in.NotBefore.Year(); y > 9999 || y < 1 {
		return check.Invalid("not_before", "is not a time between the years 1 and 9999", in.NotBefore)
	}
	if in.ExpectRun != "" && in.Mode != mailroom.ModeSteer {
		return check.Invalid("expect_run", "is allowed only with mode steer", in.ExpectRun)
	}
	return nil
}

// canWait reports whether a submit of this mode may be scheduled. The other modes decide by what the thread does now.
func canWait(m mailroom.Mode) bool {
	return m == "" || m == mailroom.ModeQueue || m == mailroom.ModeLatest || m == mailroom.ModeCollect
}

func (in *Submit) checkMessages() error {
	if len(in.Messages) == 0 && len(in.Decisions) > 0 {
		return nil
	}
	if len(in.Messages) == 0 {
		return check.Invalid("text", "is empty; give text, parts or messages", "")
	}
	if len(in.Messages) > mailroom.MaxMessages {
		return check.Invalid("messages", fmt.Sprintf("are more than %d", mailroom.MaxMessages), len(in.Messages))
	}
	for i := range in.Messages {
		d := &in.Messages[i]
		at := ""
		if len(in.Messages) > 1 {
			at = fmt.Sprintf("messages[%d].", i)
		}
		if d.Role == "" {
			d.Role = mailroom.RoleUser
		}
		if d.Visibility == "" {
			d.Visibility = mailroom.VisibleAll
		}
		if d.Role != mailroom.RoleUser && d.Role != mailroom.RoleSystem {
			return check.Invalid(at+"role", "must be user or system", string(d.Role))
		}
		if d.Visibility != mailroom.VisibleAll && d.Visibility != mailroom.VisibleInternal {
			return check.Invalid(at+"visibility", "must be all or internal", d.Visibility)
		}
		if err := in.checkFiles(at, d.Parts); err != nil {
			return err
		}
		if err := checkParts(at, d.Parts, typesOfSubmit()); err != nil {
			return err
		}
	}
	return nil
}

// checkFiles refuses the server's own files in messages that no channel received.
func (in *Submit) checkFiles(at string, parts []mailroom.Part) error {
	if strings.HasPrefix(in.Origin.Via, channelPrefix) {
		return nil
	}
	return CheckFiles(at, parts, nil)
}

// channelPrefix begins the Origin.Via of messages that a channel received. No caller of the API can set such a Via.
const channelPrefix = "channel:"

// CheckFiles refuses the server's own files, see [check.IsServerFile], in the parts of a message. before are the
// parts that the message had before an edit: files among them are accepted.
func CheckFiles(at string, parts, before []mailroom.Part) error {
	for i, p := range parts {
		had := func(q mailroom.Part) bool { return q.URI == p.URI }
		if check.IsServerFile(p.URI) && !slices.ContainsFunc(before, had) {
			return check.Invalid(fmt.Sprintf("%sparts[%d].uri", at, i),
				"is the address of a file that a chat of another message received; send the file itself to the chat of this thread",
				p.URI)
		}
	}
	return nil
}

func typesOfSubmit() []string {
	return []string{mailroom.PartText, mailroom.PartData, mailroom.PartFile}
}

// checkParts validates parts, which must have one of the types. At least one part must not be blank.
func checkParts(at string, parts []mailroom.Part, types []string) error {
	if len(parts) > mailroom.MaxParts {
		return check.Invalid(at+"parts", fmt.Sprintf("are more than %d", mailroom.MaxParts), len(parts))
	}
	size, empty := 0, true
	for i, p := range parts {
		where := fmt.Sprintf("%sparts[%d]", at, i)
		if !check.IsClean(p.Text) {
			return check.Invalid(at+"text", "must be valid UTF-8 without NUL", "")
		}
		if !check.IsClean(p.URI + p.Name + p.MimeType) {
			return check.Invalid(where, "must be valid UTF-8 without NUL", "")
		}
		if err := checkLabels(&p, where); err != nil {
			return err
		}
		if len(p.Data) > 0 || p.Type == mailroom.PartData {
			if err := check.JSON(where+".data", p.Data, mailroom.MaxText); err != nil {
				return err
			}
		}
		size += len(p.Text)
		switch {
		case !slices.Contains(types, p.Type):
			return check.Invalid(where+".type", "must be "+strings.Join(types[:len(types)-1], ", ")+" or "+types[len(types)-1],
				p.Type)
		case p.Type == mailroom.PartFile && p.URI == "":
			return check.Invalid(where+".uri", "is needed for a file part", p.URI)
		}
		empty = empty && p.Type != mailroom.PartData && p.Type != mailroom.PartFile && strings.TrimSpace(p.Text) == ""
	}
	if empty {
		return check.Invalid(at+"text", "is empty; give text, parts or messages", "")
	}
	if size > mailroom.MaxText {
		return check.TooLarge(at+"text", fmt.Sprintf("is longer than %d bytes", mailroom.MaxText), size)
	}
	return nil
}

// checkLabels bounds the URI, name and MIME type of a part.
func checkLabels(p *mailroom.Part, where string) error {
	for _, l := range []struct {
		field, text string
		most        int
	}{{".uri", p.URI, mailroom.MaxURI}, {".name", p.Name, mailroom.MaxLabel},
		{".mime_type", p.MimeType, mailroom.MaxLabel}} {
		if utf8.RuneCountInString(l.text) > l.most {
			return check.Invalid(where+l.field, fmt.Sprintf("is longer than %d characters", l.most),
				utf8.RuneCountInString(l.text))
		}
	}
	return nil
}

func (in *Submit) priority() int {
	if in.Priority == nil {
		return mailroom.DefaultPriority
	}
	return *in.Priority
}

// submitDigest holds the fields that the digest of a submit covers.
type submitDigest struct {
	Messages  []NewMessage
	Agent     string
	Mode      mailroom.Mode
	Priority  int
	NotBefore time.Time
	Options   json.RawMessage
	Decisions []Decision
}

// digest returns the digest that decides whether two submits with one key are the same.
func (in *Submit) digest() string {
	d := submitDigest{Messages: in.Messages, Agent: in.Agent, Mode: in.Mode, Priority: in.priority(),
		NotBefore: in.NotBefore, Options: in.Options, Decisions: in.Decisions}
	if in.Size() > maxAppended {
		type streamed submitDigest // has no AppendJSON: encoding/json reuses its buffer for long texts
		return digest.Short(streamed(d))
	}
	return digest.Short(d)
}

// CheckCursor validates c.
func CheckCursor(c *store.Cursor) error {
	if c.Channel == "" || !check.IsClean(c.Channel+c.Identity) {
		return check.Invalid("cursor", "needs the name of a channel, without NUL", c.Channel)
	}
	return check.JSON("position", c.Position, mailroom.MaxPosition)
}

// maxTimeout keeps a deadline within the years that times have in JSON.
const maxTimeout = 10 * 365 * 24 * time.Hour

// maxAppended bounds the size in bytes of submits whose digest uses the handwritten encoder.
const maxAppended = 16 << 10
