package inbound

import (
	"context"
	"fmt"
	"time"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/internal/digest"
)

// strangers handles the events of unauthorized users. Who writes in private gets a code for pairing.
type strangers struct {
	host     *channel.Host
	platform chat.Platform
	caps     chat.Capabilities
	limiter  *chat.Limiter
	pairing  bool   // codes are given
	command  string // how the operator calls this program
	answers  *answers
	acks     *buttonAcks
	work     *background
}

// handle handles an event of an unauthorized user. A private message may create a pairing
// request; anything else is dropped.
func (s *strangers) handle(ctx context.Context, e *event) error {
	if e.Kind == chat.EventButton { // the platform shows a spinner until it gets an answer
		s.acks.show(e, "You may not decide this.")
	}
	if e.Kind != chat.EventMessage || e.Room.Group || e.User.ID == "" || !s.pairing {
		return s.answers.skip(ctx, e, "unauthorized user")
	}
	request, code := chat.PairingRequest{
		User: e.User.ID, Name: e.User.Name, Room: e.Room, Bot: s.caps.BotID,
		Help: chat.CommandText(s.caps, chat.CommandHelp), Event: e.Key,
	}.WithCode()
	made := false
	err := chat.UpdatePairings(ctx, s.host.UpdateValue, func(p *chat.Pairings, now time.Time) bool {
		made = p.AddRequest(request, s.caps.Account(), now)
		return made
	})
	if err != nil {
		return err
	}
	if made {
		to := *e
		if !s.work.try(chat.PairingSendTimeout, func(ctx context.Context) { s.sendCode(ctx, &to, code, request.Salt) }) {
			s.recordCodeSent(ctx, e, request.Salt, false)
		}
	}
	return s.answers.skip(ctx, e, "pairing pending")
}

// sendCode sends a pairing code without storing it. If it may not have arrived, the user can
// request another one at once.
func (s *strangers) sendCode(ctx context.Context, e *event, code string, salt []byte) {
	text := fmt.Sprintf(
		"I do not know you. To give you access, the operator runs this on the server:\n%s pair approve %s\nThe code is valid for %s.",
		s.command, chat.FormatPairingCode(code), "one hour")
	err := s.limiter.Do(ctx, e.Room, s.caps, chat.PriorityQuestion, func(ctx context.Context) error {
		_, err := s.platform.Send(ctx, e.Room, chat.Message{Text: text, Notice: true},
			digest.ID("pair", s.host.Name(), e.Key, code))
		return err
	})
	if err != nil {
		s.host.Log().Warn("pairing code could not be sent; the user can request another one", "key", e.Key, "error", err)
	} else {
		s.host.Sent()
	}
	s.recordCodeSent(context.WithoutCancel(ctx), e, salt, err == nil)
}

// recordCodeSent records whether a code was sent. Without the record it counts as not sent.
func (s *strangers) recordCodeSent(ctx context.Context, e *event, salt []byte, sent bool) {
	ctx, cancel := context.WithTimeout(ctx, chat.PairingSendTimeout)
	defer cancel()
	err := chat.UpdatePairings(ctx, s.host.UpdateValue, func(p *chat.Pairings, now time.Time) bool {
		return p.RecordSent(e.User.ID, salt, sent, now)
	})
	if err != nil {
		s.host.Log().Debug("could not record that a pairing code was sent", "key", e.Key, "error", err)
	}
}
