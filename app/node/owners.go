package node

import (
	"context"

	"mailroom"
	"mailroom/auth"
	"mailroom/internal/reserved"
	"mailroom/store"
)

// maxOwnersRead bounds the threads that are read of each prefix at the start, so that a start does not take longer
// with the number of chats. The use of a thread beyond it is refused with the same words.
const maxOwnersRead = 1000

// warnOfOwners logs the threads of the server that tokens own, from before their ids were reserved. The server
// sends nothing there, because the owner would read it.
func (n *Node) warnOfOwners(ctx context.Context) error {
	var found []*mailroom.Thread
	err := n.ledger.View(ctx, func(r store.Reader) error {
		prefixes := append([]string{reserved.Alert, reserved.Channel, reserved.Delivery}, n.conversations...)
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

// ownerOf returns the owner that the server gives one of its threads.
func ownerOf(id string) string {
	if reserved.ForServer(id) {
		return reserved.Owner(id)
	}
	return auth.Operator // the conversation of a chat
}
