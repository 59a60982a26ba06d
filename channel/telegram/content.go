package telegram

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"mailroom/channel/chat"
	"mailroom/internal/display"
)

type location struct {
	Latitude   float64 `json:"latitude"`
	Longitude  float64 `json:"longitude"`
	LivePeriod int64   `json:"live_period"` // seconds
}

func (l *location) String() string {
	return strconv.FormatFloat(l.Latitude, 'f', -1, 64) + ", " + strconv.FormatFloat(l.Longitude, 'f', -1, 64)
}

// wordless are the kinds of content that have no text. Each becomes one line for the agent.
type wordless struct {
	Location *location `json:"location"`
	Venue    *struct {
		Location location `json:"location"`
		Title    string   `json:"title"`
		Address  string   `json:"address"`
	} `json:"venue"`
	Contact *struct {
		Phone string `json:"phone_number"`
		First string `json:"first_name"`
		Last  string `json:"last_name"`
	} `json:"contact"`
	Sticker *struct {
		Emoji string `json:"emoji"`
		Set   string `json:"set_name"`
	} `json:"sticker"`
	Poll *struct {
		Question string `json:"question"`
		Options  []struct {
			Text string `json:"text"`
		} `json:"options"`
	} `json:"poll"`
	Dice *struct {
		Emoji string `json:"emoji"`
		Value int    `json:"value"`
	} `json:"dice"`
	Checklist *struct {
		Title string `json:"title"`
		Tasks []struct {
			Text      string `json:"text"`
			Completed int64  `json:"completion_date"`
		} `json:"tasks"`
	} `json:"checklist"`
	Story *struct {
		Chat chatInfo `json:"chat"`
	} `json:"story"`
	Game *struct {
		Title string `json:"title"`
	} `json:"game"`
	Invoice *struct {
		Title string `json:"title"`
	} `json:"invoice"`
	Giveaway  json.RawMessage `json:"giveaway"`
	PaidMedia json.RawMessage `json:"paid_media"`
}

// describe returns one line about content without a text, or "". It never looks like a command.
func (m *message) describe() string {
	w := &m.wordless
	line := ""
	switch {
	case w.Venue != nil: // has a location field beside it
		line = fmt.Sprintf("shared a place: %s, %s (%s)", w.Venue.Title, w.Venue.Address, &w.Venue.Location)
	case w.Location != nil && w.Location.LivePeriod > 0:
		line = fmt.Sprintf("shared a live location: %s", w.Location)
	case w.Location != nil:
		line = fmt.Sprintf("shared a location: %s", w.Location)
	case w.Contact != nil:
		line = fmt.Sprintf("shared a contact: %s, %s", strings.TrimSpace(w.Contact.First+" "+w.Contact.Last), w.Contact.Phone)
	case w.Sticker != nil:
		line = strings.TrimSpace("sent a sticker: " + w.Sticker.Emoji + " " + w.Sticker.Set)
	case w.Poll != nil:
		var options []string
		for _, o := range w.Poll.Options {
			options = append(options, o.Text)
		}
		line = "sent a poll: " + w.Poll.Question + " – " + strings.Join(options, " / ")
	case w.Dice != nil:
		line = fmt.Sprintf("rolled %s: %d", w.Dice.Emoji, w.Dice.Value)
	case w.Checklist != nil:
		line = "sent a checklist: " + w.Checklist.Title
		for _, t := range w.Checklist.Tasks {
			done := "[ ] "
			if t.Completed != 0 {
				done = "[x] "
			}
			line += "; " + done + t.Text
		}
	case w.Story != nil:
		line = "shared a story of " + w.Story.Chat.chatUser().Name
	case w.Game != nil:
		line = "sent a game: " + w.Game.Title
	case w.Invoice != nil:
		line = "sent an invoice: " + w.Invoice.Title
	case w.Giveaway != nil:
		line = "shared a giveaway"
	case w.PaidMedia != nil:
		line = "sent paid media"
	}
	if line == "" {
		return ""
	}
	return "(" + display.Line(line) + ")"
}

// unreadable returns the event for a private message whose kind this version does not know. Events of a chat, such as
// a pinned message, are no messages. The event's key is the same for an hour, so its author gets one answer an hour.
func (m *message) unreadable(raw json.RawMessage) (e chat.Event, ok bool) {
	var outer struct {
		Message map[string]json.RawMessage `json:"message"`
	}
	if m == nil || m.Chat.Type != "private" || m.From == nil || m.From.Bot || json.Unmarshal(raw, &outer) != nil {
		return e, false
	}
	known := knownFields()
	for _, field := range slices.Sorted(maps.Keys(outer.Message)) {
		if !known[field] {
			return chat.Event{
				Kind: chat.EventUnreadable, Key: fmt.Sprintf("unreadable:%d", m.Date/3600), Room: m.room(), User: m.From.chatUser(),
				Text: "I cannot read this kind of message. Please send it as text or as a file.",
			}, true
		}
	}
	return e, false
}

// knownFields returns the fields of a message that are no content: its properties, and the events of a chat
// (Bot API, "Message").
func knownFields() map[string]bool {
	known := map[string]bool{}
	for _, f := range strings.Fields(`
		message_id message_thread_id direct_messages_topic from sender_chat sender_boost_count sender_business_bot
		business_connection_id date chat is_topic_message is_automatic_forward forward_origin forward_from forward_from_chat
		forward_from_message_id forward_signature forward_sender_name forward_date reply_to_message external_reply quote
		reply_to_story reply_to_checklist_task_id via_bot edit_date has_protected_content is_from_offline is_paid_post
		media_group_id author_signature paid_star_count text entities link_preview_options suggested_post_info effect_id
		caption caption_entities show_caption_above_media has_media_spoiler reply_markup animation audio document photo video
		video_note voice
		new_chat_members new_chat_member new_chat_participant left_chat_member left_chat_participant chat_owner_left
		chat_owner_changed new_chat_title new_chat_photo delete_chat_photo group_chat_created supergroup_chat_created
		channel_chat_created message_auto_delete_timer_changed migrate_to_chat_id migrate_from_chat_id pinned_message
		successful_payment refunded_payment users_shared chat_shared gift unique_gift gift_upgrade_sent connected_website
		write_access_allowed passport_data proximity_alert_triggered boost_added chat_background_set checklist_tasks_done
		checklist_tasks_added direct_message_price_changed forum_topic_created forum_topic_edited forum_topic_closed
		forum_topic_reopened general_forum_topic_hidden general_forum_topic_unhidden giveaway_created giveaway_completed
		paid_message_price_changed suggested_post_approved suggested_post_approval_failed suggested_post_declined
		suggested_post_paid suggested_post_refunded video_chat_scheduled video_chat_started video_chat_ended
		video_chat_participants_invited web_app_data`) {
		known[f] = true
	}
	return known
}
