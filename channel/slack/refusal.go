package slack

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
)

// subject is what an error of the Web API concerns, and so how far it reaches.
type subject int

const (
	// subjectMessage: this one call will never succeed. An error that Slack does not
	// document is taken for one: an unknown word ends neither a room nor the app.
	subjectMessage subject = iota
	// subjectRoom: the app may not do this in this conversation until a person changes
	// that. Other conversations are not affected.
	subjectRoom
	// subjectGone: the conversation takes nothing any more.
	subjectGone
	// subjectToken: Slack does not accept the token, whatever is called.
	subjectToken
	// subjectScope: the token lacks a scope that this method needs.
	subjectScope
	// subjectRateLimit: a limit of calls in a time.
	subjectRateLimit
	// subjectTemporary: refused now, and nothing was done.
	subjectTemporary
	// subjectUnknown: Slack failed, and may have done what was asked.
	subjectUnknown
)

// subjectOf classifies the errors that Slack documents for the methods which this
// package calls, under "Errors" of each method's page
// (https://docs.slack.dev/reference/methods/chat.postMessage and its siblings). The
// class follows the description there, not the sound of the word: no_permission and
// access_denied are about a resource ("make sure your app is a member of the
// conversation").
func subjectOf(code string) subject {
	switch code {
	case "account_inactive", "invalid_auth", "missing_args", "not_allowed_token_type", "not_authed", "token_expired", "token_revoked",
		"two_factor_setup_required", "forbidden_team", "team_disabled", "user_removed_from_team":
		return subjectToken
	case "missing_scope":
		return subjectScope
	case "ratelimited", "rate_limited", "message_limit_exceeded":
		return subjectRateLimit
	case "accesslimited", "external_channel_migrating", "org_login_required", "request_timeout", "team_added_to_org", "unknown_method":
		return subjectTemporary
	case "fatal_error", "internal_error", "service_unavailable", "update_failed":
		return subjectUnknown
	case "channel_not_found", "is_archived", "is_inactive", "not_in_channel", "thread_not_found",
		"cannot_dm_bot", "user_disabled", "user_not_found", "user_not_visible", "users_not_found":
		return subjectGone
	case "access_denied", "app_access_restricted", "channel_is_limited_access", "ekm_access_denied", "messages_tab_disabled",
		"method_not_supported_for_channel_type", "no_permission", "posting_to_channel_denied",
		"restricted_action", "restricted_action_non_threadable_channel", "restricted_action_read_only_channel",
		"restricted_action_thread_locked", "restricted_action_thread_only_channel", "team_access_not_granted", "team_not_found":
		return subjectRoom
	}
	return subjectMessage
}

// isAbout reports whether the refusal concerns one of some subjects.
func (e *apiError) isAbout(some ...subject) bool { return slices.Contains(some, subjectOf(e.code)) }

// isAPIError reports whether an error is a refusal that concerns one of some subjects.
func isAPIError(err error, some ...subject) bool {
	e, ok := errors.AsType[*apiError](err)
	return ok && e.isAbout(some...)
}

// checkedSendError gives an error of a call about a conversation its class. Such a call ends the
// connection only if the token is refused without a conversation too: then the
// socket, which the app's token opened, would not tell.
func (c *connection) checkedSendError(ctx context.Context, err error) error {
	if isAPIError(err, subjectToken, subjectScope) {
		c.verifyToken(ctx)
	}
	return sendError(err)
}

// verifyToken asks auth.test, which is about the token alone, and ends the connection
// if the token is refused there or may not write any more.
func (c *connection) verifyToken(ctx context.Context) {
	bot, err := c.client.getBot(ctx)
	if err == nil {
		err = bot.checkWriteScope()
	}
	if isAPIError(err, subjectToken, subjectScope) {
		c.cancel(connectionError(err))
	}
}

// sendError gives an error of a call that writes its class. A reply that waits for a
// token or a scope to be mended is kept; one that its conversation refuses is not.
func sendError(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*apiError](err); ok {
		switch subjectOf(e.code) {
		case subjectGone:
			return permanent(fmt.Errorf("%w: %w", chat.ErrGone, err))
		case subjectToken, subjectScope, subjectRateLimit, subjectTemporary:
			return unavailable(err)
		case subjectMessage, subjectRoom:
			return permanent(err)
		}
	}
	if l, ok := errors.AsType[*transportError](err); ok && !l.maybeSent {
		return unavailable(err)
	}
	return fmt.Errorf("%w: %w", mailroom.ErrUnknown, unavailable(err))
}

// connectionError gives an error of connecting or receiving the meaning that it has for the
// channel. Only a refused token and a missing scope are the end.
func connectionError(err error) error {
	switch {
	case err == nil:
		return nil
	case isAPIError(err, subjectToken, subjectScope):
		return channel.Fatal(fmt.Errorf("%w: get the present tokens at https://api.slack.com/apps", err))
	}
	return unavailable(err)
}

func unavailable(err error) error {
	return &mailroom.Failure{Class: mailroom.ClassUnavailable, RetryAfter: retryAfter(err), Err: err}
}

func permanent(err error) error { return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: err} }
