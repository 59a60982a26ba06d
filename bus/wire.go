package bus

import (
	"context"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Wire carries hints between the servers on one store. A hint may arrive late, twice, out of order
// or not at all, as every notice of a bus. A hint contains no text of messages.
type Wire interface {
	// Send sends hints to the other servers soon. It never blocks: when the wire is behind, it drops
	// hints and sends [HintLook].
	Send(hints ...Hint)
	// Run connects and delivers the hints of other servers until ctx ends; then it returns nil. It
	// reconnects by itself. After each connect it delivers and sends HintLook. receive is called from
	// one goroutine and must not block.
	Run(ctx context.Context, receive func(Hint)) error
}

// Hint says what another server may want to read in the store.
type Hint struct {
	Kind HintKind
	Name string // id of a thread, name of an agent, or ""
}

// HintKind is the kind of a Hint; its comment says what Name is.
type HintKind string

const (
	HintThread HintKind = "thread" // entries or text of the thread Name reached the store
	HintDue    HintKind = "due"    // a run of the agent Name is due, and the sender did not start it
	HintFollow HintKind = "follow" // the sender has a reader of the thread Name
	HintHere   HintKind = "here"   // the sender is alive
	// HintFollowAll says that the sender has a reader of all threads, and HintEntries that entries of
	// some thread reached the store.
	HintFollowAll HintKind = "follow-all"
	HintEntries   HintKind = "entries"
	HintLook      HintKind = "look" // hints were lost
)

func (k HintKind) named() bool { return k == HintThread || k == HintDue || k == HintFollow }

// maxHintName bounds a name in bytes: an id of 200 characters fits.
const maxHintName = 1 << 10

// valid reports whether a wire can carry the hint: names have no line breaks.
func (h Hint) valid() bool {
	switch h.Kind {
	case HintHere, HintLook, HintFollowAll, HintEntries:
		return h.Name == ""
	}
	return h.Kind.named() && h.Name != "" && len(h.Name) <= maxHintName && utf8.ValidString(h.Name) &&
		strings.IndexFunc(h.Name, unicode.IsControl) < 0
}

// FormatHints returns the hints of a sender as payloads of at most size bytes, which must be 2 KiB at
// least: a line with the sender, and a line for each hint. It skips hints whose name a payload cannot
// have.
func FormatHints(sender string, hints []Hint, size int) (payloads []string) {
	var b strings.Builder
	for _, h := range hints {
		if !h.valid() {
			continue
		}
		line := "\n" + string(h.Kind)
		if h.Name != "" {
			line += " " + h.Name
		}
		if b.Len() > 0 && b.Len()+len(line) > size {
			payloads = append(payloads, b.String())
			b.Reset()
		}
		if b.Len() == 0 {
			b.WriteString(sender)
		}
		b.WriteString(line)
	}
	if b.Len() > 0 {
		payloads = append(payloads, b.String())
	}
	return payloads
}

// ParseHints reads a payload of FormatHints. Anyone with access to the wire may have sent it, so it
// skips what is not a hint, for example a kind of a newer version.
func ParseHints(payload string) (sender string, hints []Hint) {
	sender, rest, more := strings.Cut(payload, "\n")
	for more {
		var line string
		line, rest, more = strings.Cut(rest, "\n")
		kind, name, _ := strings.Cut(line, " ")
		if h := (Hint{Kind: HintKind(kind), Name: name}); h.valid() {
			hints = append(hints, h)
		}
	}
	return sender, hints
}
