package discord

import (
	"context"
	"errors"
	"net/http"

	"mailroom/channel/httpcall"
)

// subject says what an error of the HTTP API concerns, and so which work has to stop.
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

// subjectOf classifies a refusal by the tables "HTTP Response Codes" and "JSON Error Codes" of
// https://docs.discord.com/developers/topics/opcodes-and-status-codes. Discord's code takes
// precedence over the status, which several errors share.
func subjectOf(e *httpcall.Refusal) subject {
	switch e.Code {
	case "10003", "10004", "10013", // unknown channel, server, user
		"50001", "50007", "50278": // no access; the person takes no messages from the bot; no server in common
		return subjectGone
	case "20009", // explicit content for this recipient
		// a forum; not a text channel; the verification level is too high; missing permissions; wrong kind of channel
		"40058", "50008", "50009", "50013", "50024",
		// an archived thread; not available in this place; replies need the right to read the history; a locked thread
		"50083", "50095", "160002", "160005":
		return subjectRoom
	case "20016", "20028", "20029", // slow mode; write limits of the channel and the server
		// the account must be verified; too fast; sending or the feature is off for a time; limited; blocked by Cloudflare
		"40002", "40003", "40004", "40006", "40062", "40333",
		"110001", "130000": // not yet available; overloaded
		if e.Status < http.StatusInternalServerError {
			return subjectTemporary
		}
	case "40001", "50014": // no valid token
		return subjectToken
	}
	switch {
	case e.Status == http.StatusUnauthorized:
		return subjectToken
	case e.Status == http.StatusTooManyRequests:
		return subjectTemporary
	case e.Status >= http.StatusInternalServerError:
		return subjectUnknown
	}
	return subjectMessage
}

// isAPIError reports whether err is a refusal that concerns the subject.
func isAPIError(err error, of subject) bool {
	e, ok := errors.AsType[*httpcall.Refusal](err)
	return ok && subjectOf(e) == of
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
	return httpcall.SendError(err, func(e *httpcall.Refusal) httpcall.Class {
		switch subjectOf(e) {
		case subjectGone:
			return httpcall.ClassGone
		case subjectToken, subjectTemporary:
			return httpcall.ClassUnavailable
		case subjectUnknown:
			return httpcall.ClassUnknown
		}
		return httpcall.ClassPermanent
	})
}

// isForbidden reports whether a resource does not exist or the bot may not see it.
func isForbidden(err error) bool {
	e, ok := errors.AsType[*httpcall.Refusal](err)
	if !ok {
		return false
	}
	switch subjectOf(e) {
	case subjectMessage, subjectRoom, subjectGone:
		return true
	}
	return false
}
