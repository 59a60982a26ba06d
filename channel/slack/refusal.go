package slack

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"mailroom/channel"
	"mailroom/channel/httpcall"
)

// subject says what an error of the Web API concerns, and so which work has to stop.
type subject int

const (
	// subjectMessage: this one call can never succeed. Undocumented errors count as this, so
	// that a new code ends neither a room nor the app.
	subjectMessage subject = iota
	// subjectRoom: the app may not do this in this conversation until a person changes that.
	// Other conversations are not affected.
	subjectRoom
	// subjectGone: the conversation no longer accepts anything.
	subjectGone
	// subjectToken: Slack rejects the token for every method.
	subjectToken
	// subjectScope: the token lacks a scope that this method needs.
	subjectScope
	// subjectRateLimit: a rate limit.
	subjectRateLimit
	// subjectTemporary: rejected for now; nothing was done.
	subjectTemporary
	// subjectUnknown: Slack failed, and may have carried out the call.
	subjectUnknown
)

// subjectOf classifies the errors that Slack documents for the methods used here, under
// "Errors" of each method's page (https://docs.slack.dev/reference/methods/chat.postMessage and
// its siblings). The class follows the description there, not the code's name: no_permission
// and access_denied are about a resource ("make sure your app is a member of the
// conversation").
func subjectOf(code string) subject {
	switch code {
	case "account_inactive", "invalid_auth", "missing_args", "not_allowed_token_type", "not_authed", "token_expired",
		"token_revoked",
		"two_factor_setup_required", "forbidden_team", "team_disabled", "user_removed_from_team":
		return subjectToken
	case "missing_scope":
		return subjectScope
	case "ratelimited", "rate_limited", "message_limit_exceeded":
		return subjectRateLimit
	case "accesslimited", "external_channel_migrating", "org_login_required", "request_timeout", "team_added_to_org",
		"unknown_method":
		return subjectTemporary
	case "fatal_error", "internal_error", "service_unavailable", "update_failed":
		return subjectUnknown
	case "channel_not_found", "is_archived", "is_inactive", "not_in_channel", "thread_not_found",
		"cannot_dm_bot", "user_disabled", "user_not_found", "user_not_visible", "users_not_found":
		return subjectGone
	case "access_denied", "app_access_restricted", "channel_is_limited_access", "ekm_access_denied",
		"messages_tab_disabled",
		"method_not_supported_for_channel_type", "no_permission", "posting_to_channel_denied",
		"restricted_action", "restricted_action_non_threadable_channel", "restricted_action_read_only_channel",
		"restricted_action_thread_locked", "restricted_action_thread_only_channel", "team_access_not_granted", "team_not_found":
		return subjectRoom
	}
	return subjectMessage
}

// isAbout reports whether a refusal concerns one of the subjects.
func isAbout(e *httpcall.Refusal, some ...subject) bool {
	return slices.Contains(some, subjectOf(e.Code))
}

// isAPIError reports whether err is a refusal that concerns one of the subjects.
func isAPIError(err error, some ...subject) bool {
	e, ok := errors.AsType[*httpcall.Refusal](err)
	return ok && isAbout(e, some...)
}

// checkedSendError classifies an error of a call about a conversation. If the error blames the
// token, it verifies the token: the socket, which the app's token opened, would not notice a
// revoked bot token.
func (c *connection) checkedSendError(ctx context.Context, err error) error {
	if isAPIError(err, subjectToken, subjectScope) {
		c.verifyToken(ctx)
	}
	return sendError(err)
}

// verifyToken calls auth.test, which is about the token alone, and ends the connection if the
// token is rejected there or has lost chat:write.
func (c *connection) verifyToken(ctx context.Context) {
	bot, err := c.client.getBot(ctx)
	if err == nil {
		err = bot.checkWriteScope()
	}
	if isAPIError(err, subjectToken, subjectScope) {
		c.cancel(connectionError(err))
	}
}

// sendError classifies an error of a call that writes. A reply waits for a corrected token or
// scope, but not for a conversation that refuses it.
func sendError(err error) error {
	return httpcall.SendError(err, func(e *httpcall.Refusal) httpcall.Class {
		switch subjectOf(e.Code) {
		case subjectGone:
			return httpcall.ClassGone
		case subjectToken, subjectScope, subjectRateLimit, subjectTemporary:
			return httpcall.ClassUnavailable
		case subjectUnknown:
			return httpcall.ClassUnknown
		}
		return httpcall.ClassPermanent
	})
}

// connectionError classifies an error of connecting or receiving: a rejected token and a
// missing scope are fatal, and anything else is retried.
func connectionError(err error) error {
	switch {
	case err == nil:
		return nil
	case isAPIError(err, subjectToken, subjectScope):
		return channel.Fatal(fmt.Errorf("%w: get the current tokens at https://api.slack.com/apps", err))
	}
	return httpcall.Unavailable(err)
}
