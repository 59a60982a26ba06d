package chat

import (
	"fmt"
	"net/url"
	"strings"

	"mailroom"
	"mailroom/channel"
)

// Labels of inbound runs and of the answers to commands. They identify the room of the reply and
// are in the Metadata of [channel.Delivery].Origin.
const (
	labelChat  = "chat"
	labelTopic = "topic" // absent without a topic
	labelGroup = "group" // "true" if the room is a group
	LabelUser  = "user"  // id of the author
	LabelName  = "name"  // display name of the author
	LabelReply = "message"
	// LabelRedraw, on answers only, is the id of the message that the answer replaces. A user pressed
	// a button of this message; the answer has no buttons.
	LabelRedraw = "redraw"
)

// Labels returns the labels of a room.
func (p Room) Labels() map[string]string {
	m := map[string]string{labelChat: p.Chat}
	if p.Topic != "" {
		m[labelTopic] = p.Topic
	}
	if p.Group {
		m[labelGroup] = "true"
	}
	return m
}

// RoomOf returns the room that a run's labels name.
func RoomOf(labels map[string]string) (Room, bool) {
	p := Room{Chat: labels[labelChat], Topic: labels[labelTopic], Group: labels[labelGroup] == "true"}
	return p, p.Chat != ""
}

// Words returns the arguments of [channel.ThreadID] for the thread id whose delivery thread serves the room.
func (p Room) Words(bot string) []string {
	w := []string{bot, p.Chat}
	if p.Topic != "" {
		w = append(w, p.Topic)
	}
	return w
}

// DeliveryThread returns the delivery thread of the room.
func (p Room) DeliveryThread(channelName, bot string) string {
	return channel.DeliveryThreadID(channel.ThreadID(channelName, p.Words(bot)...))
}

// ConversationWords returns the words of a conversation's thread id. user is "" if the whole room
// shares the conversation, since is the command that started it, "" for the first one. Each word
// has a fixed position, so that no two conversations share an id.
func (p Room) ConversationWords(bot, user, since string) []string {
	w := []string{bot, p.Chat, p.Topic, user, since}
	for w[len(w)-1] == "" {
		w = w[:len(w)-1]
	}
	return w
}

// RoomOfThread parses the room from the id of a delivery thread, for a reply to a run that did
// not come through the channel. It fails for a hashed id. Whether the room is a group is not in the
// id.
func RoomOfThread(channelName, bot, id string) (Room, bool) {
	rest, ok := strings.CutPrefix(id, channel.DeliveryThreadID(channel.ThreadID(channelName, bot))+":")
	if !ok {
		return Room{}, false
	}
	var words []string
	for w := range strings.SplitSeq(rest, ":") {
		word, err := url.QueryUnescape(w)
		if err != nil {
			return Room{}, false
		}
		words = append(words, word)
	}
	p := Room{Chat: words[0]}
	if len(words) == 2 {
		p.Topic = words[1]
	}
	back := p.DeliveryThread(channelName, bot)
	return p, p.Chat != "" && len(words) <= 2 && back == id && len(id) < mailroom.MaxThreadID
}

// RoomOfConversation returns the channel of a conversation thread, and the words of its room, see
// [Room.Words]. It fails for the id of another thread, and for a hashed id.
func RoomOfConversation(id string) (channelName string, words []string, err error) {
	for w := range strings.SplitSeq(id, ":") {
		word, err := url.QueryUnescape(w)
		if err != nil {
			return "", nil, fmt.Errorf("thread %q is not a conversation of a channel: %w", id, err)
		}
		words = append(words, word)
	}
	if len(words) < 3 || words[1] == "" || words[2] == "" || channel.ThreadID(words[0], words[1:]...) != id {
		return "", nil,
			fmt.Errorf("thread %q is not a conversation of a channel, whose id has the channel, the bot and the chat", id)
	}
	room := Room{Chat: words[2]}
	if len(words) > 3 {
		room.Topic = words[3]
	}
	return words[0], room.Words(words[1]), nil
}
