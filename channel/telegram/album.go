package telegram

import (
	"maps"
	"time"
)

// albumHold says which updates are not confirmed yet because an album is incomplete: in a group, the text that
// addresses the bot may come with the last piece. What is not confirmed comes again after a restart, with the pieces
// that have come since. Rejected: to store the pieces, because nothing of a group is stored that is not for the bot.
type albumHold struct {
	wait time.Duration // for the pieces of an album, from the first one

	seen map[string]time.Time // when the first piece of an album came
}

// albumWait is how long the pieces of an album are not confirmed. Telegram delivers them in one go, but a poll may end
// between two of them.
const albumWait = time.Second

// isOpen reports whether more pieces of the album of a message may come.
func (h *albumHold) isOpen(m *message, now time.Time) bool {
	if m == nil || m.Album == "" || m.Chat.Type == "private" {
		return false
	}
	first, known := h.seen[m.Album]
	if !known {
		maps.DeleteFunc(h.seen, func(_ string, at time.Time) bool { return now.Sub(at) > 10*h.wait })
		h.seen[m.Album], first = now, now
	}
	return now.Sub(first) < h.wait
}
