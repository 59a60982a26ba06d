package api

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"mailroom"
	"mailroom/internal/retry"
	"mailroom/internal/setting"
	"mailroom/thread"
)

// ClaimID formats the id of a claim, RUN:ATTEMPT.
func ClaimID(c mailroom.Claim) string { return c.Run + ":" + strconv.Itoa(c.Attempt) }

// ParseClaim parses the id of a claim. It leaves Thread empty.
func ParseClaim(text string) (c mailroom.Claim, ok bool) {
	i := strings.LastIndexByte(text, ':')
	if i < 1 {
		return c, false
	}
	n, err := strconv.Atoi(text[i+1:])
	c = mailroom.Claim{Run: text[:i], Attempt: n}
	return c, err == nil && n > 0 && ClaimID(c) == text
}

// FormatStep converts a step to its wire type.
func FormatStep(s mailroom.Step) Step {
	out := Step{
		Name: s.Name, Entries: FormatAgentEntries(s.Entries), Checkpoint: s.Checkpoint, State: s.State,
		Tickets: FormatAsks(s.Tickets), Progress: s.Progress, NoProgress: s.NoProgress, Internal: s.Internal,
	}
	for _, send := range s.Sends {
		out.Sends = append(out.Sends, formatSend(send))
	}
	if s.Extend != 0 {
		out.Extend = s.Extend.String()
	}
	if s.Usage != (mailroom.Usage{}) {
		u := Usage(s.Usage)
		out.Usage = &u
	}
	return out
}

// Read converts the step from its wire type. Errors name a field below the path at.
func (s Step) Read(at string) (mailroom.Step, error) {
	out := mailroom.Step{
		Name: s.Name, Entries: ReadAgentEntries(s.Entries), Checkpoint: s.Checkpoint, State: s.State,
		Progress: s.Progress, NoProgress: s.NoProgress, Internal: s.Internal,
	}
	if s.Usage != nil {
		out.Usage = mailroom.Usage(*s.Usage)
	}
	var err error
	if out.Extend, err = ReadDuration(at+".extend", s.Extend); err != nil {
		return out, err
	}
	if out.Tickets, err = ReadAsks(at+".tickets", s.Tickets); err != nil {
		return out, err
	}
	for i, send := range s.Sends {
		read, err := send.read(fmt.Sprintf("%s.sends[%d]", at, i))
		if err != nil {
			return out, err
		}
		out.Sends = append(out.Sends, read)
	}
	return out, nil
}

func formatSend(s mailroom.Send) Send {
	return Send{Name: s.Name, Thread: s.Thread, Agent: s.Agent, Parts: s.Parts, Answer: s.Answer, Mode: s.Mode,
		Priority: s.Priority, NotBefore: formatWhen(s.NotBefore, s.Delay), Deadline: formatWhen(s.Deadline, s.Timeout),
		Options: s.Options, Metadata: s.Metadata, Budget: FormatBudget(s.Budget)}
}

// read converts the send from its wire type. Errors name a field below the path at.
func (s Send) read(at string) (mailroom.Send, error) {
	out := mailroom.Send{Name: s.Name, Thread: s.Thread, Agent: s.Agent, Parts: s.Parts, Answer: s.Answer, Mode: s.Mode,
		Priority: s.Priority, Options: present(s.Options), Metadata: s.Metadata}
	switch {
	case s.Parts == nil:
		out.Parts = mailroom.Text(s.Text)
	case s.Text != "":
		return out, invalid(at+".parts", "comes with text: give one of them", nil)
	}
	var err error
	if out.Budget, err = s.Budget.Read(at + ".budget"); err != nil {
		return out, err
	}
	if out.NotBefore, out.Delay, err = ReadWhen(at+".not_before", s.NotBefore); err != nil {
		return out, err
	}
	out.Deadline, out.Timeout, err = ReadWhen(at+".deadline", s.Deadline)
	return out, err
}

// FormatAgentEntries converts entries of an agent to their wire type.
func FormatAgentEntries(entries []mailroom.AgentEntry) []AgentEntry {
	var out []AgentEntry
	for _, n := range entries {
		out = append(out, AgentEntry(n))
	}
	return out
}

// ReadAgentEntries converts entries of an agent from their wire type.
func ReadAgentEntries(entries []AgentEntry) []mailroom.AgentEntry {
	var out []mailroom.AgentEntry
	for _, n := range entries {
		out = append(out, mailroom.AgentEntry(n))
	}
	return out
}

// FormatAsks converts asks to their wire type.
func FormatAsks(asks []mailroom.Ask) []Ask {
	var out []Ask
	for _, a := range asks {
		shown := Ask{Name: a.Name, Kind: a.Kind, Prompt: a.Prompt, Action: a.Action, Arguments: a.Arguments,
			Answers: a.Answers, Holds: a.Holds}
		if !a.Expires.IsZero() {
			at := a.Expires
			shown.ExpiresAt = &at
		}
		if a.After != 0 {
			shown.After = a.After.String()
		}
		out = append(out, shown)
	}
	return out
}

// ReadAsks converts asks from their wire type. Errors name a field below the path at.
func ReadAsks(at string, asks []Ask) ([]mailroom.Ask, error) {
	var out []mailroom.Ask
	for i, a := range asks {
		read := mailroom.Ask{Name: a.Name, Kind: a.Kind, Prompt: a.Prompt, Action: a.Action, Arguments: a.Arguments,
			Answers: a.Answers, Holds: a.Holds}
		if a.ExpiresAt != nil {
			read.Expires = *a.ExpiresAt
		}
		var err error
		if read.After, err = ReadDuration(fmt.Sprintf("%s[%d].after", at, i), a.After); err != nil {
			return nil, err
		}
		out = append(out, read)
	}
	return out, nil
}

// FormatPartialText converts a message to its wire type.
func FormatPartialText(s *thread.PartialText) *PartialText {
	if s == nil {
		return nil
	}
	return &PartialText{ID: s.ID, Text: s.Text, Truncated: s.Truncated, Parts: s.Parts}
}

// Read converts the message from its wire type.
func (s *PartialText) Read() *thread.PartialText {
	if s == nil {
		return nil
	}
	return &thread.PartialText{ID: s.ID, Text: s.Text, Truncated: s.Truncated, Parts: s.Parts}
}

// FormatFailure converts an error of an agent to its wire type.
func FormatFailure(f *mailroom.Failure) *Failure {
	if f == nil {
		return nil
	}
	out := &Failure{Class: f.Class, Agent: f.Agent, Message: strings.ToValidUTF8(fmt.Sprint(f.Err), "\uFFFD")}
	if f.Class != mailroom.ClassUnavailable && f.Class != mailroom.ClassPermanent {
		out.Class = mailroom.ClassTransient // the default of the rules
	}
	if f.RetryAfter > 0 {
		out.RetryAfter = f.RetryAfter.String()
	}
	return out
}

// Read converts the error from its wire type. Errors name a field below the path at.
func (f *Failure) Read(at string) (*mailroom.Failure, error) {
	if f == nil {
		return nil, nil
	}
	out := &mailroom.Failure{Class: f.Class, Agent: f.Agent, Err: errors.New(f.Message)}
	if out.Class == "" {
		out.Class = mailroom.ClassTransient
	}
	var err error
	out.RetryAfter, err = ReadDuration(at+".retry_after", f.RetryAfter)
	return out, err
}

// FormatRetryPolicy converts a policy to its wire type, nil if it says nothing.
func FormatRetryPolicy(p retry.Policy) *RetryPolicy {
	if p == (retry.Policy{}) {
		return nil
	}
	text := func(d time.Duration) string {
		if d == 0 {
			return ""
		}
		return setting.FormatDuration(d)
	}
	return &RetryPolicy{Attempts: p.Attempts, First: text(p.First), Factor: p.Factor, Most: text(p.Most),
		OutageMost: text(p.OutageMost), Outage: text(p.Outage)}
}

// Read returns the policy. at is its place in the request, for errors.
func (p *RetryPolicy) Read(at string) (retry.Policy, error) {
	if p == nil {
		return retry.Policy{}, nil
	}
	out := retry.Policy{Attempts: p.Attempts, Factor: p.Factor}
	for _, x := range []struct {
		name, text string
		to         *time.Duration
		least      time.Duration
	}{{"first", p.First, &out.First, retry.MinDelay}, {"most", p.Most, &out.Most, retry.MinDelay},
		{"outage_most", p.OutageMost, &out.OutageMost, retry.MinDelay},
		{"outage", p.Outage, &out.Outage, retry.MinOutage}} {
		if x.text == "" {
			continue
		}
		d, err := time.ParseDuration(x.text)
		if err != nil || d < x.least || d > retry.MaxDelay {
			least := setting.FormatDuration(x.least)
			return out, invalid(at+"."+x.name, "must be a duration such as 30s, from "+least+" to 8760h", x.text)
		}
		*x.to = d
	}
	switch {
	case p.Attempts < 0 || p.Attempts > retry.MaxAttempts:
		return out, invalid(at+".attempts", "must be between 1 and 100", p.Attempts)
	case p.Factor != 0 && (p.Factor < retry.MinFactor || p.Factor > retry.MaxFactor):
		return out, invalid(at+".factor", "must be between 1 and 10", p.Factor)
	case out.Most != 0 && out.First > out.Most:
		return out, invalid(at+".most", "must be at least first, "+p.First, p.Most)
	}
	return out, nil
}

// ReadDuration parses a duration such as 30m; "" is 0. at is the path of the field.
func ReadDuration(at, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, invalid(at, "must be a duration such as 30s", text)
	}
	return d, nil
}

// ReadWhen parses a time (RFC 3339), or a duration above 0 from now on, such as 30m; "" is neither. at is the path of
// the field.
func ReadWhen(at, text string) (when time.Time, after time.Duration, err error) {
	if text == "" {
		return time.Time{}, 0, nil
	}
	if after, err = time.ParseDuration(text); err == nil && after > 0 {
		return time.Time{}, after, nil
	}
	if when, err = time.Parse(time.RFC3339, text); err != nil || when.IsZero() {
		return time.Time{}, 0, invalid(at, "must be a time such as 2030-01-31T18:00:00Z, or a duration such as 30m", text)
	}
	return when, 0, nil
}

func formatWhen(when time.Time, after time.Duration) string {
	switch {
	case !when.IsZero():
		return when.UTC().Format(time.RFC3339Nano)
	case after > 0:
		return after.String()
	}
	return ""
}

func invalid(location, message string, value any) error {
	return &mailroom.Error{
		Code: mailroom.CodeInvalid, Message: location + ": " + message,
		Fields: []mailroom.Field{{Location: location, Message: message, Value: value}},
	}
}

// Ticket converts the ticket to the row that an agent sees.
func (k Ticket) Ticket() *mailroom.Ticket {
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	out := &mailroom.Ticket{
		ID: k.ID, Thread: k.Thread, Run: k.Run, Name: k.Name, Kind: k.Kind, Prompt: text(k.Prompt), Action: text(k.Action),
		Arguments: present(k.Arguments), Digest: k.Digest, State: k.State, ExpiresAt: k.ExpiresAt, Answer: present(k.Answer),
		Reason: text(k.Reason), DecidedBy: text(k.DecidedBy), DecidedAt: k.DecidedAt, Answers: k.Answers, Holds: k.Holds,
	}
	if k.Decision != nil {
		out.Decision = *k.Decision
	}
	if k.OpenedAt != nil {
		out.OpenedAt = *k.OpenedAt
	}
	return out
}

// present returns raw, or nil if raw is the JSON null.
func present(raw []byte) []byte {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// Mailroom converts the claimed run to the one that an agent sees, without the fields
// that only the server uses.
func (c Claim) Mailroom() *mailroom.Run {
	r := c.Run
	out := &mailroom.Run{
		ID: r.ID, Thread: r.Thread, Agent: r.Agent, Status: r.Status, Mode: r.Mode,
		Priority: r.Priority, Place: r.Place, Attempt: r.Attempt, Failures: r.Failures, Crashes: r.Crashes, Lost: c.Lost,
		MaxAttempts: r.MaxAttempts, CrashLimit: r.MaxCrashes, AvailableAt: r.AvailableAt, Origin: r.Origin,
		Options:  present(r.Options),
		Metadata: r.Metadata, Reply: r.Reply, Error: r.Error, Step: r.Steps, Progress: r.Progress,
		Checkpoint: present(c.Checkpoint), Started: true, Asked: len(c.Tickets), CreatedAt: r.CreatedAt,
	}
	if r.AgentVersion != nil {
		out.AgentVersion = *r.AgentVersion
	}
	for _, s := range []struct {
		to   *string
		from *string
	}{{&out.SubmitKey, r.Key}, {&out.Parent, r.Parent}, {&out.LimitKey, r.LimitKey}} {
		if s.from != nil {
			*s.to = *s.from
		}
	}
	for _, at := range []struct{ to, from *time.Time }{{&out.NotBefore, r.NotBefore}, {&out.Deadline, r.Deadline},
		{&out.StartedAt, r.StartedAt}} {
		if at.from != nil {
			*at.to = *at.from
		}
	}
	if r.Usage != nil {
		out.Usage = mailroom.Usage(*r.Usage)
	}
	if r.Budget != nil {
		out.Budget = r.Budget.read(out)
	}
	for _, m := range c.Messages {
		out.Inputs = append(out.Inputs, mailroom.Input{Message: m.ID, Seq: m.Seq})
	}
	out.Steers = readSteers(c.Steers)
	return out
}

func readSteers(steers []Steer) []mailroom.Steer {
	var out []mailroom.Steer
	for _, s := range steers {
		out = append(out, mailroom.Steer{Input: mailroom.Input{Message: s.Message, Seq: s.Seq}, Read: s.Read})
	}
	return out
}

// Mailroom converts the run to the one that an agent sees.
func (c ClaimedRun) Mailroom() *mailroom.Run {
	out := Claim{Run: c.Run, Steers: c.Steers}.Mailroom()
	if c.Stop != nil {
		out.Stop = *c.Stop
	}
	return out
}
