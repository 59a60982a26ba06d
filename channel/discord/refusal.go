package discord

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"mailroom"
	"mailroom/channel/chat"
)

// subject is what an error of the HTTP API concerns, which decides how far it reaches.
type subject int

const (
	// subjectMessage: this one call can never succeed. Undocumented errors count as this, so
	// that a new code ends neither a room nor the bot.
	subjectMessage subject = iota
	// subjectRoom: the bot may not do this in this channel until a person changes that.
	subjectRoom
	// subjectGone: the channel no longer accepts anything, or the person accepts no messages
	// from the bot.
	subjectGone
	// subjectToken: Discord rejects the token for every call.
	subjectToken
	// subjectTemporary: rejected for now; nothing was done.
	subjectTemporary
	// subjectUnknown: Discord failed, and may have carried out the call.
	subjectUnknown
)

// subject classifies an error by the tables "HTTP Response Codes" and "JSON Error Codes" of
// https://docs.discord.com/developers/topics/opcodes-and-status-codes. Discord's code takes
// precedence over the status, which several errors share.
func (e *apiError) subject() subject {
	switch e.code {
	case 10003, 10004, 10013, // unknown channel, server, user
		50001, 50007, 50278: // no access; the person takes no messages from the bot; no server in common
		return subjectGone
	case 20009, // explicit content for this recipient
		40058, 50008, 50009, 50013, 50024, // forum; no text channel; verification level; permissions; kind of channel
		50083, 50095, 160002, 160005: // archived thread; not available in this place; replies need the history; locked thread
		return subjectRoom
	case 20016, 20028, 20029, // slow mode; write limits of the channel and the server
		40002, 40003, 40004, 40006, 40062, 40333, // account to be verified; too fast; sending or the feature is off for a time; limited; blocked by Cloudflare
		110001, 130000: // not yet available; overloaded
		if e.status < http.StatusInternalServerError {
			return subjectTemporary
		}
	case 40001, 50014: // no valid token
		return subjectToken
	}
	switch {
	case e.status == http.StatusUnauthorized:
		return subjectToken
	case e.status == http.StatusTooManyRequests:
		return subjectTemporary
	case e.status >= http.StatusInternalServerError:
		return subjectUnknown
	}
	return subjectMessage
}

// isAPIError reports whether err is an apiError that concerns the subject.
func isAPIError(err error, of subject) bool {
	e, ok := errors.AsType[*apiError](err)
	return ok && e.subject() == of
}

// verifyToken returns err unchanged. If err blames the token, it checks the token with a call
// that is about no channel, and ends the connection if the token is rejected there too: the
// gateway would not notice.
func (c *connection) verifyToken(ctx context.Context, err error) error {
	if isAPIError(err, subjectToken) {
		if _, own := c.client.getBot(ctx); isAPIError(own, subjectToken) {
			c.cancel(connectionError(own))
		}
	}
	return err
}

// sendError classifies an error of a call that writes.
func sendError(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*apiError](err); ok {
		switch e.subject() {
		case subjectGone:
			return permanent(fmt.Errorf("%w: %w", chat.ErrGone, err))
		case subjectToken, subjectTemporary:
			return unavailableWithScope(err)
		case subjectMessage, subjectRoom:
			return permanent(err)
		}
	}
	if l, ok := errors.AsType[*transportError](err); ok && !l.maybeSent {
		return unavailableWithScope(err)
	}
	return fmt.Errorf("%w: %w", mailroom.ErrUnknown, unavailable(err))
}

// unavailableWithScope marks an error as unavailable, and for all rooms if its pause applies to
// all calls.
func unavailableWithScope(err error) error {
	if _, global := retryHint(err); global {
		err = fmt.Errorf("%w: %w", chat.ErrEverywhere, err)
	}
	return unavailable(err)
}

// isForbidden reports whether a resource does not exist or the bot may not see it.
func isForbidden(err error) bool {
	e, ok := errors.AsType[*apiError](err)
	if !ok {
		return false
	}
	switch e.subject() {
	case subjectMessage, subjectRoom, subjectGone:
		return true
	}
	return false
}

func unavailable(err error) error {
	return &mailroom.Failure{Class: mailroom.ClassUnavailable, RetryAfter: retryAfter(err), Err: err}
}

func permanent(err error) error { return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: err} }
