package telegram

import (
	"maps"
	"time"
)

// albumHold says which updates are not confirmed yet because an album is incomplete: in a group, the text that
// addresses the bot may come with the last piece. After a restart, Telegram delivers the unconfirmed updates again,
// with the pieces that have come since. The alternative, to store the pieces, was rejected, because messages of a
// group that are not for the bot are not stored.
type albumHold struct {
	wait time.Duration // how long to wait for the pieces of an album, from the first piece on

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
