package server

import (
	"context"

	"mailroom"
	"mailroom/api"
)

// healthHandlers report whether the server works.
type healthHandlers struct {
	version string
	check   func() error // see Options.Ready
	life    *lifecycle
}

func (h *healthHandlers) alive(context.Context, *empty) (*body[api.Health], error) {
	return &body[api.Health]{api.Health{Status: "ok", Version: h.version}}, nil
}

func (h *healthHandlers) ready(context.Context, *empty) (*body[api.Health], error) {
	if h.life.closing.Err() != nil {
		return nil, errShutdown()
	}
	if err := h.check(); err != nil {
		return nil, mailroom.Errorf(mailroom.CodeUnavailable, "not ready: %v", err)
	}
	return &body[api.Health]{api.Health{Status: "ok", Version: h.version}}, nil
}
