package node

import (
	"log/slog"
	"testing"

	"mailroom/channel/webhook"
	"mailroom/internal/reserved"
)

func TestNoTokenHasTheNameOfAProtocol(t *testing.T) {
	for pattern, p := range protocols(webhook.NewHooks(), slog.New(slog.DiscardHandler)) {
		if !reserved.IsVia(p.Via) {
			t.Errorf("%s: a token could label its runs %q, as if they came over this protocol", pattern, p.Via)
		}
	}
}
