package inbound

import (
	"context"
	"slices"

	"mailroom/internal/digest"
)

// albums takes all pieces of an album in a group as addressed to the bot if one of them is. A platform sends an album
// as a message for each file, and only one of them has the text: the first one, or of documents the last one.
type albums struct {
	// Set by newDispatcher.
	conversations *conversations

	// Owned by the handler of the connection's events: pieces of albums that have not addressed the bot yet, the newest
	// album last. They are in memory only, because nothing of a group is stored that is not for the bot. A platform with
	// albums delivers their pieces again after a restart.
	held []heldAlbum
}

// heldAlbum is an album that may turn out to be for the bot.
type heldAlbum struct {
	id     string
	pieces []*event
}

const (
	maxAlbum = 10 // pieces
	maxHeld  = 32 // albums that people send at the same time, in all groups
)

// address records whether a piece of an album addresses the bot. For the first piece that does, it returns the pieces
// before it, which now count as addressed too.
func (a *albums) address(ctx context.Context, e *event, addressed bool) (earlier []*event, err error) {
	album := digest.ID("album", a.conversations.thread(&e.Event, ""), e.User.ID, e.Album)
	at := slices.IndexFunc(a.held, func(h heldAlbum) bool { return h.id == album })
	if !addressed {
		c, err := a.conversations.load(ctx, &e.Event)
		switch {
		case err != nil:
			return nil, err
		case c.Album == album:
			e.Addressed = true
		default:
			held := *e
			held.Addressed, held.passed = true, true
			a.hold(at, album, &held)
		}
		return nil, nil
	}
	err = a.conversations.update(ctx, &e.Event, func(c *conversation) bool {
		changed := c.Album != album
		c.Album = album
		return changed
	})
	if at >= 0 {
		earlier = a.held[at].pieces
		a.held = slices.Delete(a.held, at, at+1)
	}
	return earlier, err
}

// hold keeps a piece of the album at this index, -1 for a new one.
func (a *albums) hold(at int, album string, piece *event) {
	if at < 0 {
		a.held = append(a.held[max(len(a.held)-maxHeld+1, 0):], heldAlbum{id: album})
		at = len(a.held) - 1
	}
	h := &a.held[at]
	again := slices.ContainsFunc(h.pieces, func(p *event) bool { return p.Key == piece.Key }) // sent again
	if !again && len(h.pieces) < maxAlbum {
		h.pieces = append(h.pieces, piece)
	}
}
