package program

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"mailroom"
	"mailroom/entry"
)

// KindWarning is the kind of the entry for a [Warning]: {text}.
const KindWarning = "x.exec.warning"

const (
	// maxShown bounds the arguments and the summary of a call, in bytes.
	maxShown = 4 << 10
	// maxOutput bounds what an entry keeps of a tool's output. The log of a thread keeps it as long as the thread, so it
	// is far less than an entry may have.
	maxOutput = 32 << 10
	// maxWarnings bounds the warnings of one process.
	maxWarnings = 50
)

// Write is one output of a Fold: text to stream, or a step to append.
type Write struct {
	Text string
	Step *mailroom.Step
}

// Fold converts events to output. Only the last message of a turn is the reply. Text that stands before a tool call
// or before another message becomes an internal message.
type Fold struct {
	// Prefix makes the ids of calls unique in the run, because each process of a program numbers its calls from the
	// start.
	Prefix string
	// Redact removes secrets from text. nil removes nothing.
	Redact func(string) string

	message   string            // the program's id of the current message
	open      bool              // part of it was streamed
	complete  bool              // the last passage of the message is complete
	passage   string            // chunks of the current passage
	produced  bool              // text was streamed in this turn
	turnEnded bool              // the turn has ended
	calls     map[string]string // names of unfinished calls

	warnings int
	warned   string // last warning of the program
	notice   string // last notice of the program

	usage Usage
	total Usage // latest totals of the session
}

// Apply returns the output of an event.
func (f *Fold) Apply(event Event) []Write {
	switch x := event.(type) {
	case MessageStarted:
		return f.startMessage(x.ID)
	case Text:
		return f.onText(x.Text)
	case Passage:
		return f.onPassage(x)
	case ToolStarted:
		if _, known := f.calls[x.Call]; known {
			return nil
		}
		started := f.toolStarted(x.Call, x.Name, x.Arguments)
		if x.Helper { // the message that the program writes goes on
			return sideStep(started)
		}
		return f.internalStep(started)
	case ToolFinished:
		return f.onToolFinished(x)
	case Warning:
		return f.onWarning(x.Text)
	case Usage:
		f.addUsage(x)
	case Notice:
		f.notice = x.Text
	case End:
		f.turnEnded = true
		refusal := isFailure(x.Text) && (f.usage.OutputTokens == 0 || x.Text == f.notice) // see Judge
		if spoke := f.produced; !spoke && x.OK && x.Text != "" && !refusal {
			f.produced = false
			return f.onPassage(Passage{Message: "result", Text: x.Text})
		}
		f.produced = false
	}
	return nil
}

// startMessage starts another message. Text of the previous one becomes internal.
func (f *Fold) startMessage(id string) (w []Write) {
	if f.open {
		w = f.internalStep()
	}
	f.message, f.passage, f.complete, f.turnEnded = id, "", false, false
	return w
}

func (f *Fold) onText(text string) (w []Write) {
	if f.turnEnded {
		w = f.startMessage("")
	}
	if f.open && f.complete {
		w = append(w, f.streamText("\n\n")...)
	}
	f.complete = false
	f.passage += text
	return append(w, f.streamText(text)...)
}

func (f *Fold) onPassage(x Passage) (w []Write) {
	rest, begun := strings.CutPrefix(x.Text, f.passage)
	switch {
	case f.passage != "" && begun && !f.turnEnded:
	case f.open && f.message == x.Message && f.passage == "" && !f.turnEnded:
		w = f.streamText("\n\n")
		rest = x.Text
	default:
		w = f.startMessage(x.Message)
		rest = x.Text
	}
	f.message, f.passage, f.complete = x.Message, "", true
	return append(w, f.streamText(rest)...)
}

func (f *Fold) streamText(text string) []Write {
	text = strings.ReplaceAll(text, "\x00", "")
	if text == "" {
		return nil
	}
	f.open, f.produced = true, true
	return []Write{{Text: text}}
}

// internalStep returns a step with entries. It ends the current message, which is not the reply.
func (f *Fold) internalStep(entries ...mailroom.AgentEntry) []Write {
	step := &mailroom.Step{Entries: entries, Internal: f.open}
	f.open, f.passage, f.complete = false, "", false
	return []Write{{Step: step}}
}

// sideStep returns a step with entries that leaves the current message open.
func sideStep(entries ...mailroom.AgentEntry) []Write {
	return []Write{{Step: &mailroom.Step{Entries: entries, NoProgress: true}}}
}

func (f *Fold) toolStarted(call, name string, arguments json.RawMessage) mailroom.AgentEntry {
	if f.calls == nil {
		f.calls = map[string]string{}
	}
	f.calls[call] = name
	return newEntry(entry.KindToolStarted, map[string]any{
		"call": f.Prefix + call, "name": f.Sanitize(name), "arguments": f.Arguments(arguments, maxShown),
	})
}

func (f *Fold) toolDone(call string, ok bool, summary string) mailroom.AgentEntry {
	delete(f.calls, call)
	body := map[string]any{"call": f.Prefix + call, "ok": ok, "summary": f.Sanitize(summary)}
	if len(summary) > maxShown {
		body["output"] = f.sanitize(summary, maxOutput)
	}
	return newEntry(entry.KindToolDone, body)
}

func (f *Fold) onToolFinished(x ToolFinished) []Write {
	if _, known := f.calls[x.Call]; known {
		return sideStep(f.toolDone(x.Call, x.OK, x.Summary))
	}
	if x.Name == "" {
		return nil // unknown call
	}
	started := f.toolStarted(x.Call, x.Name, x.Arguments)
	return f.internalStep(started, f.toolDone(x.Call, x.OK, x.Summary))
}

// Close returns entries that end unfinished calls after the program has exited, so that they are
// not shown as running forever.
func (f *Fold) Close(why string) (entries []mailroom.AgentEntry) {
	for _, call := range slices.Sorted(maps.Keys(f.calls)) {
		entries = append(entries, f.toolDone(call, false, why))
	}
	return entries
}

func (f *Fold) onWarning(text string) []Write {
	again := text == f.warned
	f.warned = text
	if again || f.warnings == maxWarnings {
		return nil
	}
	f.warnings++
	return sideStep(newEntry(KindWarning, map[string]any{"text": f.Sanitize(text)}))
}

// LastWarning returns the last warning, or "".
func (f *Fold) LastWarning() string { return f.warned }

func (f *Fold) addUsage(u Usage) {
	cost := u.CostUSD
	if u.TotalTokens {
		before := f.total.CostUSD
		f.total.Usage, f.total.TotalTokens = u.Usage, true
		f.total.CostUSD = before
		u.Usage = mailroom.Usage{CostUSD: cost}
	}
	if u.TotalCost {
		f.total.CostUSD, f.total.TotalCost = cost, true
		u.CostUSD = 0
	}
	f.usage.Usage = f.usage.Plus(u.Usage)
}

// UsageSince returns the usage of this turn, and the totals of the session after it. before are the totals before the
// turn. If a total is now lower than in before, the program has restarted its count.
func (f *Fold) UsageSince(before mailroom.Usage) (used, totals mailroom.Usage) {
	used, totals = f.usage.Usage, before
	if now := f.total.Usage; f.total.TotalTokens {
		now.CostUSD = before.CostUSD
		totals = now
		if before.InputTokens > now.InputTokens || before.OutputTokens > now.OutputTokens {
			before = mailroom.Usage{CostUSD: before.CostUSD}
		}
		used = used.Plus(mailroom.Usage{
			InputTokens: now.InputTokens - before.InputTokens, OutputTokens: now.OutputTokens - before.OutputTokens,
			CacheReadTokens:  max(0, now.CacheReadTokens-before.CacheReadTokens),
			CacheWriteTokens: max(0, now.CacheWriteTokens-before.CacheWriteTokens),
			ReasoningTokens:  max(0, now.ReasoningTokens-before.ReasoningTokens),
			Model:            now.Model,
		})
	}
	if f.total.TotalCost {
		totals.CostUSD = f.total.CostUSD
		if before.CostUSD > totals.CostUSD {
			before.CostUSD = 0
		}
		used.CostUSD += totals.CostUSD - before.CostUSD
	}
	return used, totals
}

func newEntry(kind string, body map[string]any) mailroom.AgentEntry {
	b, err := compact(body)
	if err != nil {
		b = []byte("{}") // cannot fail: strings and parsed JSON
	}
	return mailroom.AgentEntry{Kind: kind, Body: b}
}

// Sanitize returns text that an entry may hold: redacted and truncated. Its start and end are kept,
// because they are the most informative.
func (f *Fold) Sanitize(text string) string { return f.sanitize(text, maxShown) }

func (f *Fold) sanitize(text string, limit int) string {
	text = strings.ToValidUTF8(strings.ReplaceAll(f.redact(text), "\x00", ""), "\uFFFD")
	if len(text) <= limit {
		return text
	}
	head, tail := limit/2, len(text)-limit/2
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	return fmt.Sprintf("%s\n… %d bytes …\n%s", text[:head], tail-head, text[tail:])
}

func (f *Fold) redact(text string) string {
	if f.Redact == nil {
		return text
	}
	return f.Redact(text)
}

// Arguments returns redacted arguments as JSON of at most limit bytes. Longer arguments become an
// object with their beginning and length.
func (f *Fold) Arguments(raw json.RawMessage, limit int) json.RawMessage {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return json.RawMessage("null")
	}
	b, err := compact(f.redactJSON(v))
	if err != nil {
		return json.RawMessage("null") // cannot fail: the value was JSON
	}
	if len(b) <= limit {
		return b
	}
	const escaped = 6 // maximum size of an escaped byte
	text := string(b[:limit/escaped])
	b, err = compact(map[string]any{"begins": strings.ToValidUTF8(text, ""), "bytes": len(b)})
	if err != nil {
		return json.RawMessage("null")
	}
	return b
}

func compact(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// redactJSON redacts the strings of a decoded JSON value.
func (f *Fold) redactJSON(v any) any {
	switch v := v.(type) {
	case string:
		return strings.ReplaceAll(f.redact(v), "\x00", "")
	case []any:
		for i := range v {
			v[i] = f.redactJSON(v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[f.redact(k)] = f.redactJSON(x)
		}
		return out
	}
	return v
}
