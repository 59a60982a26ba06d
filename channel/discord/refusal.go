package discord

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"mailroom"
	"mailroom/channel/chat"
)

// subject is what an error of the HTTP API concerns, and so how far it reaches.
type subject int

const (
	// ofMessage: this one call will never succeed. An error that Discord does not
	// document is taken for one: an unknown code ends neither a room nor the bot.
	ofMessage subject = iota
	// ofRoom: the bot may not do this in this channel until a person changes that.
	ofRoom
	// ofAbsence: the channel takes nothing any more, or the person nothing from the bot.
	ofAbsence
	// ofToken: Discord does not accept the token, whatever is called.
	ofToken
	// ofMoment: refused now, and nothing was done.
	ofMoment
	// ofDoubt: Discord failed, and may have done what was asked.
	ofDoubt
)

// concerns classifies a refusal by the tables "HTTP Response Codes" and "JSON Error
// Codes" of https://docs.discord.com/developers/topics/opcodes-and-status-codes. The
// code of the platform goes before the status, which several meanings share.
func (e *refused) concerns() subject {
	switch e.code {
	case 10003, 10004, 10013, // unknown channel, server, user
		50001, 50007, 50278: // no access; the person takes no messages from the bot; no server in common
		return ofAbsence
	case 20009, // explicit content for this recipient
		40058, 50008, 50009, 50013, 50024, // forum; no text channel; verification level; permissions; kind of channel
		50083, 50095, 160002, 160005: // archived thread; not available in this place; replies need the history; locked thread
		return ofRoom
	case 20016, 20028, 20029, // slow mode; write limits of the channel and the server
		40002, 40003, 40004, 40006, 40062, 40333, // account to be verified; too fast; sending or the feature is off for a time; limited; blocked by Cloudflare
		110001, 130000: // not yet available; overloaded
		if e.status < http.StatusInternalServerError {
			return ofMoment
		}
	case 40001, 50014: // no valid token
		return ofToken
	}
	switch {
	case e.status == http.StatusUnauthorized:
		return ofToken
	case e.status == http.StatusTooManyRequests:
		return ofMoment
	case e.status >= http.StatusInternalServerError:
		return ofDoubt
	}
	return ofMessage
}

// refusedAs reports whether an error is a refusal that concerns something.
func refusedAs(err error, of subject) bool {
	e, ok := errors.AsType[*refused](err)
	return ok && e.concerns() == of
}

// refusedToken has a call about one channel that was told that the token is not valid
// end the connection, if the token is refused without a channel too: the gateway
// would not tell.
func (c *connection) refusedToken(ctx context.Context, err error) error {
	if refusedAs(err, ofToken) {
		if _, own := c.client.who(ctx); refusedAs(own, ofToken) {
			c.end(trouble(own))
		}
	}
	return err
}

// failure gives an error of a call that writes its class.
func failure(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*refused](err); ok {
		switch e.concerns() {
		case ofAbsence:
			return permanent(fmt.Errorf("%w: %w", chat.ErrGone, err))
		case ofToken, ofMoment:
			return limited(err)
		case ofMessage, ofRoom:
			return permanent(err)
		}
	}
	if l, ok := errors.AsType[*lost](err); ok && !l.written {
		return limited(err)
	}
	return fmt.Errorf("%w: %w", mailroom.ErrUnknown, outage(err))
}

// limited is an outage, of all rooms if the platform says so.
func limited(err error) error {
	if _, global := asked(err); global {
		err = fmt.Errorf("%w: %w", chat.ErrEverywhere, err)
	}
	return outage(err)
}

// unreadable reports whether the platform will not hand something out: it is not
// there, or not for the bot.
func unreadable(err error) bool {
	e, ok := errors.AsType[*refused](err)
	if !ok {
		return false
	}
	switch e.concerns() {
	case ofMessage, ofRoom, ofAbsence:
		return true
	}
	return false
}

func outage(err error) error {
	return &mailroom.Failure{Class: mailroom.ClassUnavailable, RetryAfter: afterOf(err), Err: err}
}

func permanent(err error) error { return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: err} }
