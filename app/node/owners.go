package node

import (
	"context"

	"mailroom"
	"mailroom/auth"
	"mailroom/internal/reserved"
	"mailroom/store"
)

// maxOwnersRead bounds how many threads of each prefix the server reads at its start, so that the number of chats
// does not lengthen the start. The server refuses to use a wrongly owned thread beyond the bound later, with the same
// words.
const maxOwnersRead = 1000

// warnOfOwners logs the threads with ids reserved for the server that a token owns, because the token created them
// before their ids were reserved. The server sends nothing to such a thread, because the token's holder would read
// it.
func (n *Node) warnOfOwners(ctx context.Context) error {
	var found []*mailroom.Thread
	err := n.ledger.View(ctx, func(r store.Reader) error {
		prefixes := append([]string{reserved.Alert, reserved.Channel, reserved.Delivery, reserved.Audit}, n.conversations...)
		for _, prefix := range prefixes {
			rows, err := r.Threads(store.ThreadQuery{Prefix: prefix, Limit: maxOwnersRead})
			if err != nil {
				return err
			}
			for _, t := range rows {
				if owner := ownerOf(t.ID); t.Owner != "" && t.Owner != owner {
					found = append(found, t)
				}
			}
		}
		return nil
	})
	for _, t := range found {
		n.log.Warn("a thread of the server belongs to a token; nothing is sent there until it is deleted", "thread", t.ID,
			"owner", t.Owner,
			"mend", "mailroom interrupt "+t.ID+"; mailroom threads delete "+t.ID)
	}
	return err
}

// ownerOf returns the name that owns a thread of the server with this id.
func ownerOf(id string) string {
	if reserved.ForServer(id) {
		return reserved.Owner(id)
	}
	return auth.Operator // the conversation of a chat
}
