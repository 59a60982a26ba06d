package workers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"mailroom"
	"mailroom/api"
	"mailroom/bus"
	"mailroom/entry"
	"mailroom/server/internal/request"
	"mailroom/store"
)

type writeInput struct {
	ClaimPath
	Body api.Text
}

// Write publishes a piece of text and, unless it is live only, stores it. The stored text has no
// gaps, and a repeated piece adds nothing.
func (ops *Operations) Write(ctx context.Context, in *writeInput) (*Body[api.TextTaken], error) {
	b := in.Body
	b.Channel = cmp.Or(b.Channel, entry.ChannelText)
	b.Live = b.Live || b.Channel != entry.ChannelText
	end := b.Offset + len(b.Text)
	if b.Offset > mailroom.MaxText-len(b.Text) {
		return nil, request.TooLarge("body.text", fmt.Sprintf("exceeds the limit of %d bytes per message", mailroom.MaxText))
	}
	if (b.Channel == entry.ChannelTool) != (b.Call != "") {
		return nil, request.Invalid("body.call", "goes with the channel tool, which needs it", b.Call)
	}
	if !plainText(b.Text + b.Call + b.Name) {
		return nil, request.Invalid("body.text", "must be text without NUL", nil)
	}
	var over bool
	kept := ""
	h, err := ops.findLiveClaim(ctx, in.ClaimPath, func(rd store.Reader, h *claimState) (err error) {
		if b.Message, over, err = h.currentMessage(rd, b); err != nil || over || b.Live {
			return err
		}
		kept, err = h.storedText(rd, b.Message)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := &Body[api.TextTaken]{api.TextTaken{Orders: h.orders(), Message: b.Message, Offset: end}}
	if over || b.Text == "" {
		return out, nil
	}
	rest := b.Text
	if !b.Live {
		if rest, err = newSuffix(kept, b); err != nil {
			return nil, err
		}
	}
	ops.publish(bus.Notice{Thread: h.Thread, Delta: &entry.Delta{
		Run: h.Run, Attempt: h.Attempt, Message: b.Message, Offset: b.Offset, Channel: b.Channel,
		Call: b.Call, Name: b.Name, Text: b.Text,
	}})
	if b.Live {
		return out, nil
	}
	if rest != "" {
		err := ops.options.Attempts.Flush(ctx, h.Claim, store.Partial{Message: b.Message, Offset: len(kept), Text: rest})
		if err != nil {
			return nil, request.Locate("body.", err)
		}
	}
	ops.publish(bus.Notice{Thread: h.Thread, Flushed: &bus.Flushed{
		Run: h.Run, Attempt: h.Attempt, Message: b.Message, Upto: len(kept) + len(rest),
	}})
	return out, nil
}

func (ops *Operations) publish(n bus.Notice) {
	if ops.options.Bus != nil {
		ops.options.Bus.Publish(n)
	}
}

// currentMessage returns the id of the message that text b belongs to. over reports that this message is in the log
// already, so that the text is ignored. Live text is not checked, because readers know which messages are over.
func (h *claimState) currentMessage(rd store.Reader, b api.Text) (id string, over bool, err error) {
	n, named := h.messageNumber(b.Message)
	if b.Message != "" && !named {
		return "", false, request.Invalid("body.message", "does not belong to this attempt: leave it out", b.Message)
	}
	if named && b.Live {
		return b.Message, false, nil
	}
	written, err := h.countMessages(rd)
	switch {
	case err != nil:
		return "", false, err
	case !named:
		return h.messageID(written + 1), false, nil
	case n > written+1:
		return "", false, request.Invalid("body.message", "comes after the message being written, "+h.messageID(written+1),
			b.Message)
	}
	return b.Message, n <= written, nil
}

// storedText returns the stored text of a message.
func (h *claimState) storedText(rd store.Reader, message string) (string, error) {
	pieces, err := rd.Partials(h.Run)
	slices.SortFunc(pieces, func(a, b store.Partial) int { return cmp.Compare(a.Offset, b.Offset) })
	var text strings.Builder
	for _, p := range pieces {
		if p.Attempt == h.Attempt && p.Message == message {
			text.WriteString(p.Text)
		}
	}
	return text.String(), err
}

// newSuffix returns the part of b that follows the stored text kept; it is "" for a repeat.
func newSuffix(kept string, b api.Text) (string, error) {
	switch {
	case b.Offset > len(kept):
		return "", request.Invalid("body.offset", fmt.Sprintf("leaves a gap: %d bytes are stored", len(kept)), b.Offset)
	case b.Offset < len(kept) && !utf8.RuneStart(kept[b.Offset]):
		return "", request.Invalid("body.offset", "splits a character", b.Offset)
	}
	overlap := kept[b.Offset:]
	switch {
	case strings.HasPrefix(overlap, b.Text):
		return "", nil
	case strings.HasPrefix(b.Text, overlap):
		return b.Text[len(overlap):], nil
	}
	return "", mailroom.Errorf(mailroom.CodeConflict, "different text is stored at offset %d", b.Offset)
}

func showEffects(states map[string]*entry.EffectState) []api.Effect {
	var out []api.Effect
	for _, e := range states {
		out = append(out, api.Effect{EffectEntry: e.EffectEntry, Tries: e.Tries, Attempt: e.Attempt, Last: e.Last})
	}
	slices.SortFunc(out, func(a, b api.Effect) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
