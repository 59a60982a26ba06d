package outbound

import (
	"context"
	"fmt"
	"strings"

	"mailroom/channel/chat"
)

// restText returns the text that replaces messages of a reply that is too long for a chat. Such a reply would occupy
// the chat for minutes and hide what was said before. The link is the address of a page, which shows nothing without
// a sign-in.
func (x *attempt) restText(messages int) string {
	id := x.delivery.Run.ID
	where := x.command + " run show " + id
	if x.url != "" {
		where = x.url + "/#/run/" + id
	}
	return fmt.Sprintf(
		"(This reply is too long for the chat: it has %d more messages. The whole reply is on the server: %s)",
		messages, where)
}

// asFile returns the message with the whole reply as a file, nil if the platform takes none of that size. The file is
// made from the entry of the reply each time, so nothing is stored besides that entry and its retention.
func (x *attempt) asFile(text string) *chat.Message {
	content := []byte(text + "\n")
	if len(content) > x.conn.caps.MaxUpload {
		return nil
	}
	id := x.delivery.Run.ID
	return &chat.Message{
		Text: fmt.Sprintf("This reply is too long for the chat. The file has all of it: %d KB.", max(len(content)/1000, 1)),
		// the random part of the id
		File: &chat.Upload{Name: "reply-" + id[strings.LastIndex(id, "-")+1:] + ".md", Content: content},
	}
}

// sendFirst sends a message: in the form with a file, if there is one, and without the file if the platform refuses
// it. A group may forbid files, and a bot may lack the right to send them.
func (x *attempt) sendFirst(ctx context.Context, m outgoing, key string) (id string, err error) {
	if m.inFile != nil {
		if id, err = x.conn.platform.Send(ctx, x.room, *m.inFile, key); !isRefused(err) {
			return id, err
		}
		x.conn.host.ReportError(fmt.Errorf("a long reply was not sent as a file: %w", err))
	}
	return x.conn.platform.Send(ctx, x.room, m.Message, key)
}
