package chat

import (
	"net/url"
	"strings"

	"mailroom"
	"mailroom/channel"
)

// Labels of the runs that arrive from a chat, and of the answers to commands: the way
// back. They are in the Metadata of [channel.Delivery].Origin.
const (
	labelChat  = "chat"
	labelTopic = "topic" // not there without a topic
	labelGroup = "group" // "true" in a group
	labelUser  = "user"  // id of who said it
	labelName  = "name"  // of who said it, for people
	labelReply = "message"
	// labelRedraw, of an answer alone, is the id of a message that the answer takes the
	// place of: one whose button was pressed. Its buttons go.
	labelRedraw = "redraw"
)

// labels are those of a room.
func (p Room) labels() map[string]string {
	m := map[string]string{labelChat: p.Chat}
	if p.Topic != "" {
		m[labelTopic] = p.Topic
	}
	if p.Group {
		m[labelGroup] = "true"
	}
	return m
}

// roomOf is the room that the labels of a run name.
func roomOf(labels map[string]string) (Room, bool) {
	p := Room{Chat: labels[labelChat], Topic: labels[labelTopic], Group: labels[labelGroup] == "true"}
	return p, p.Chat != ""
}

// words name a room of a bot: its delivery thread is that of the conversation
// thread with this name.
func (p Room) words(bot string) []string {
	w := []string{bot, p.Chat}
	if p.Topic != "" {
		w = append(w, p.Topic)
	}
	return w
}

// conversationWords names the conversation of a user in a room, "" for all who are there,
// since the command that began it, "" for the first one. Each word has its position,
// so that no two conversations have one name.
func (p Room) conversationWords(bot, user, since string) []string {
	w := []string{bot, p.Chat, p.Topic, user, since}
	for w[len(w)-1] == "" {
		w = w[:len(w)-1]
	}
	return w
}

// roomOfThread reads the room out of the id of a delivery thread, for what was not
// said through the channel. It fails for an id that had to be shortened. Whether it
// is a group is not in it.
func roomOfThread(channelName, bot, id string) (Room, bool) {
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
	back := channel.DeliveryThreadID(channel.ThreadID(channelName, p.words(bot)...))
	return p, p.Chat != "" && len(words) <= 2 && back == id && len(id) < mailroom.MaxThreadID
}
