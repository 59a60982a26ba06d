package server

import (
	"context"

	"mailroom"
	"mailroom/api"
)

// issueHandlers serve the issues of a tracker.
type issueHandlers struct {
	board func(context.Context) (api.IssueBoard, error) // nil: there is no tracker
}

func (h *issueHandlers) issues(ctx context.Context, _ *empty) (*body[api.IssueBoard], error) {
	if h.board == nil {
		return nil, mailroom.Errorf(mailroom.CodeNotFound, "this server has no tracker: add [tracker] to its configuration")
	}
	found, err := h.board(ctx)
	return &body[api.IssueBoard]{found}, err
}
