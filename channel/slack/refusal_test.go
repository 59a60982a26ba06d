package slack_test

import (
	"strings"
	"testing"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/channeltest"
	"mailroom/channel/chat"
	"mailroom/channel/slack/slacktest"
)

// documentedErrors returns the errors that Slack documents for the methods used here
// (auth.test, apps.connections.open, bots.info, users.info, files.info, conversations.history,
// conversations.replies, chat.postMessage, chat.update and chat.postEphemeral;
// https://docs.slack.dev/reference/methods/), by the class of the reply. Those after "|" are
// undocumented.
func documentedErrors() map[mailroom.Class]string {
	return map[mailroom.Class]string{
		channeltest.ClassGone: `channel_not_found is_archived is_inactive not_in_channel thread_not_found user_not_found user_not_visible
			| cannot_dm_bot user_disabled users_not_found`,
		mailroom.ClassPermanent: `access_denied app_access_restricted as_user_not_supported attachment_payload_limit_exceeded block_mismatch
			blocked_file_type bot_not_found bots_not_found cannot_reply_to_message cant_broadcast_message cant_update_message
			canvas_disabled_file_team canvas_disabled_user_team canvas_globally_disabled channel_is_limited_access deprecated_endpoint
			draft_already_deleted draft_already_sent draft_has_conflict draft_not_found duplicate_channel_not_found
			duplicate_message_not_found edit_window_closed ekm_access_denied enterprise_is_restricted file_deleted file_is_deleted
			file_not_found file_share_limit_reached insecure_request invalid_arg_name invalid_array_arg invalid_attachments
			invalid_blocks invalid_blocks_format invalid_charset invalid_cursor invalid_form_data invalid_metadata_filter_keys
			invalid_metadata_format invalid_metadata_schema invalid_post_type invalid_ts_latest invalid_ts_oldest is_bot
			list_record_comment_fetch_failed markdown_text_conflict max_file_sharing_exceeded message_not_found
			messages_tab_disabled metadata_must_be_sent_from_app metadata_too_large method_deprecated
			method_not_supported_for_channel_type missing_argument missing_file_data missing_post_type msg_blocks_too_long
			msg_too_long no_dual_broadcast_content_update no_permission no_text not_visible posting_to_channel_denied
			restricted_action restricted_action_non_threadable_channel restricted_action_read_only_channel
			restricted_action_thread_locked restricted_action_thread_only_channel send_on_behalf_not_allowed
			slack_connect_blocked_file_type slack_connect_canvas_sharing_blocked slack_connect_clip_sharing_blocked
			slack_connect_file_link_sharing_blocked slack_connect_file_upload_sharing_blocked
			slack_connect_lists_sharing_blocked streaming_state_conflict team_not_found template_not_visible
			too_many_attachments too_many_contact_cards too_many_users unable_to_share_files user_not_in_channel
			| team_access_not_granted a_word_that_slack_invents_tomorrow`,
		mailroom.ClassUnavailable: `account_inactive forbidden_team invalid_auth missing_args missing_scope not_allowed_token_type not_authed
			token_expired token_revoked two_factor_setup_required
			ratelimited rate_limited message_limit_exceeded
			accesslimited external_channel_migrating org_login_required request_timeout team_added_to_org unknown_method
			| team_disabled user_removed_from_team`,
		channeltest.ClassUnknown: `fatal_error internal_error service_unavailable update_failed`,
	}
}

// TestNoErrorOfAConversationEndsTheApp answers calls about one conversation with every
// documented error, and checks the class of the reply and that the channel stays connected.
func TestNoErrorOfAConversationEndsTheApp(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann, bob := sl.Person("Ann"), sl.Person("Bob")
	fx := newRecorder(t, sl).Start()
	p := fx.AwaitConnected()
	id, err := p.Send(t.Context(), privateRoom(bob), chat.Message{Text: "before"}, "k0")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for want, words := range documentedErrors() {
		for word := range strings.FieldsSeq(words) {
			if word == "|" {
				continue
			}
			if seen[word] {
				t.Fatalf("%s is listed twice", word)
			}
			seen[word] = true
			fault := slacktest.Fault{Code: word}
			sl.Fail("chat.postMessage", fault)
			if _, err := p.Send(t.Context(), privateRoom(ann), chat.Message{Text: "x"},
				"k"); channeltest.SendClass(err) != want {
				t.Errorf("a send with %s is %s, want %s: %v", word, channeltest.SendClass(err), want, err)
			}
			sl.Fail("chat.update", fault)
			if err := p.Edit(t.Context(), privateRoom(bob), id, chat.Message{Text: "x"}); channeltest.SendClass(err) != want &&
				(channeltest.SendClass(err) != channeltest.ClassEverywhere || want != mailroom.ClassUnavailable) {
				t.Errorf("an edit with %s is %s, want %s: %v", word, channeltest.SendClass(err), want, err)
			}
			sl.Fail("conversations.history", fault)
			if _, found, err := p.Find(t.Context(), privateRoom(ann), "k", chat.Message{}); found ||
				err == nil && word != "thread_not_found" && word != "message_not_found" {
				t.Errorf("Find with %s: %t, %v", word, found, err)
			}
			sl.Fail("chat.postEphemeral", fault)
			if err := p.AckButton(t.Context(), chat.Event{Room: privateRoom(ann), User: chat.User{ID: ann.ID}},
				"x"); err == nil {
				t.Errorf("AckButton with %s returns no error", word)
			}
		}
	}
	if len(seen) < 110 {
		t.Errorf("only %d errors are listed", len(seen))
	}
	if s := fx.State(); s.Condition != channel.ConditionConnected || s.Adapter != 1 {
		t.Errorf("state %+v", s)
	}
	if _, err := p.Send(t.Context(), privateRoom(ann), chat.Message{Text: "after"}, "k2"); err != nil {
		t.Errorf("the next message: %v", err)
	}
	bob.Sends(bob.Private(), "still there?")
	fx.AwaitEvents(1)
}

// TestRejectedHistoryAffectsOnlyItsRoom checks that the histories of other rooms are read
// whatever error Slack returns for one.
func TestRejectedHistoryAffectsOnlyItsRoom(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"no_permission", "access_denied", "team_access_not_granted", "ekm_access_denied",
		"channel_is_limited_access", "a_new_word"} {
		sl := slacktest.New(t)
		ann, bob := sl.Person("Ann"), sl.Person("Bob")
		fx := newRecorder(t, sl)
		fx.SetPosition(`{"` + ann.Private().ID + `":"2.000000","` + bob.Private().ID + `":"1.000000"}`)
		ann.Sends(ann.Private(), "to a bot that may not read it")
		bob.Sends(bob.Private(), "to a bot that may")
		sl.DropPending()
		sl.Fail("conversations.history", slacktest.Fault{Code: word})
		fx.Start().AwaitConnected()
		if got := fx.AwaitEvents(1); got[0].Text != "to a bot that may" {
			t.Errorf("%s: recorded %+v", word, got)
		}
		if s := fx.State(); s.Condition != channel.ConditionConnected || s.Adapter != 1 {
			t.Errorf("%s: the channel is %+v", word, s)
		}
	}
}
