package ledger

import (
	"context"
	"time"

	"mailroom"
)

// Tokens returns the rows of all accounts, by name.
func (l *Ledger) Tokens(context.Context) ([]*mailroom.Token, error) { return nil, nil }

// TokensUsed notes when tokens were used last, by the Key of their rows.
func (l *Ledger) TokensUsed(context.Context, map[int64]time.Time) error { return nil }
