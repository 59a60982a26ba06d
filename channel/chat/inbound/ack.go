package inbound

import (
	"context"
	"time"

	"mailroom/channel/chat"
	"mailroom/channel/chat/limiter"
	"mailroom/internal/display"
)

// ackTimeout bounds the acknowledgement of a button press.
const ackTimeout = 10 * time.Second

// buttonAcks shows the users who press buttons what came of it.
type buttonAcks struct {
	platform chat.Platform
	caps     chat.Capabilities
	limiter  *limiter.Limiter
	work     *background
}

// show shows the result to the user who pressed a button. It is best effort.
func (a *buttonAcks) show(e *event, words string) {
	switch {
	case !a.caps.Buttons:
		return
	case e.AckInline != nil:
		e.AckInline(display.Text(words))
		return
	}
	press := e.Event
	told := a.work.try(ackTimeout, func(ctx context.Context) {
		err := a.limiter.Do(ctx, press.Room, a.caps, limiter.PriorityAck, func(ctx context.Context) error { return a.platform.AckButton(ctx, press, display.Line(words)) })
		if err != nil {
			a.work.log.Debug("could not acknowledge button press", "error", err)
		}
	})
	if !told {
		a.work.log.Debug("button press not acknowledged: too many calls in progress")
	}
}
