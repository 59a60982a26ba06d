package inbound

import (
	"context"

	"mailroom/internal/digest"
)

// albums addresses the pieces of an album in a group to the bot if one of them does. A platform sends an album as a
// message for each file, and only one of them has the text: the first one, or of documents the last one.
type albums struct {
	// Set by newDispatcher.
	conversations *conversations

	// Owned by the handler of the connection's events: pieces of the last album, as long as none has addressed the bot. They
	// are in memory only, because nothing of a group is stored that is not for the bot.
	album string
	held  []*event
}

const maxAlbum = 10 // pieces

// address handles the addressing of a piece. If it makes the album one for the bot, it returns the pieces before it.
func (a *albums) address(ctx context.Context, e *event, addressed bool) (earlier []*event, err error) {
	album := digest.ID("album", a.conversations.thread(&e.Event, ""), e.User.ID, e.Album)
	if a.album != album {
		a.album, a.held = album, nil
	}
	if !addressed {
		c, err := a.conversations.load(ctx, &e.Event)
		switch {
		case err != nil:
			return nil, err
		case c.Album == album:
			e.Addressed = true
		case len(a.held) < maxAlbum:
			held := *e
			held.Addressed, held.passed = true, true
			a.held = append(a.held, &held)
		}
		return nil, nil
	}
	err = a.conversations.update(ctx, &e.Event, func(c *conversation) bool {
		changed := c.Album != album
		c.Album = album
		return changed
	})
	earlier, a.held = a.held, nil
	return earlier, err
}
