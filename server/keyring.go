package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"mailroom"
	"mailroom/internal/recovery"
)

// rereadEvery bounds how long a token that another process revoked is good here,
// and how long a use of one goes unwritten.
const rereadEvery = 500 * time.Millisecond

// quota is what the name of a token may have of one thing, which is
// others for names that have none of their own.
func (k *keyring) quota(name string, q mailroom.Quota, others int64) int64 {
	if n, ok := (*k.quotas.Load())[name][q]; ok {
		return n
	}
	return others
}

// sum is the SHA-256 of a secret.
type sum [sha256.Size]byte

// keyring knows whose secrets are good. The operator's comes with the Options;
// the others are rows, read ahead of every request: a secret that is not known
// makes nobody read anything.
type keyring struct {
	// Set by newKeyring.
	accounts Accounts
	log      *slog.Logger
	operator *grant // nil: there is none

	// reading is held while rows are read and taken over, so that what was
	// read first never replaces what was read later.
	reading sync.Mutex
	good    atomic.Pointer[map[sum]*grant] // of the rows; never changed in place
	// quotas are those of the names that have some of their own; never changed in
	// place. No grant ends when they change.
	quotas atomic.Pointer[map[string]mailroom.Quotas]
}

// grant is what one token allows, for as long as it does.
type grant struct {
	// Set by newGrant.
	sum   sum
	token *mailroom.Token // not to be changed
	ctx   context.Context // ends, saying why, when the token is revoked or its rights change
	end   context.CancelCauseFunc

	used    atomic.Int64 // the minute of its last use, in seconds since 1970; 0: never
	written int64        // owned by keyring.keep: the last of these that was handed in to be written
}

func newGrant(s sum, t *mailroom.Token) *grant {
	ctx, end := context.WithCancelCause(context.Background())
	return &grant{sum: s, token: t, ctx: ctx, end: end, written: t.UsedAt.Unix()}
}

func newKeyring(accounts Accounts, secret string, log *slog.Logger) *keyring {
	k := &keyring{accounts: accounts, log: log}
	if secret != "" {
		k.operator = newGrant(sha256.Sum256([]byte(secret)), mailroom.Acting(mailroom.Operator))
	}
	k.good.Store(&map[sum]*grant{})
	k.quotas.Store(&map[string]mailroom.Quotas{})
	return k
}

// find returns the grant of a secret, nil for a wrong one. Hashes are compared,
// in constant time, so that neither length nor content of a secret can be
// measured.
func (k *keyring) find(secret string) *grant {
	s := sum(sha256.Sum256([]byte(secret)))
	if k.operator != nil && subtle.ConstantTimeCompare(s[:], k.operator.sum[:]) == 1 {
		return k.operator
	}
	g := (*k.good.Load())[s]
	if g == nil || subtle.ConstantTimeCompare(s[:], g.sum[:]) != 1 || g.ctx.Err() != nil {
		return nil
	}
	if minute := time.Now().Truncate(time.Minute).Unix(); g.used.Load() != minute {
		g.used.Store(minute)
	}
	return g
}

// read takes over the rows as they are now. It ends the grants of tokens that
// were revoked or may do something else than before.
func (k *keyring) read(ctx context.Context) error {
	k.reading.Lock()
	defer k.reading.Unlock()
	rows, err := k.accounts.Tokens(ctx)
	if err != nil {
		return err
	}
	before := *k.good.Load()
	now := make(map[sum]*grant, len(rows))
	quotas := map[string]mailroom.Quotas{}
	for _, t := range rows {
		if len(t.Quotas) > 0 {
			quotas[t.Name] = t.Quotas
		}
		var s sum
		if n, err := hex.Decode(s[:], []byte(t.Sum)); !t.RevokedAt.IsZero() || err != nil || n != len(s) {
			continue
		}
		if now[s] = before[s]; now[s] == nil || !sameRights(now[s].token, t) {
			now[s] = newGrant(s, t)
		}
	}
	k.good.Store(&now)
	k.quotas.Store(&quotas)
	for s, g := range before {
		if now[s] != g {
			g.end(errRevoked())
		}
	}
	return nil
}

func sameRights(a, b *mailroom.Token) bool {
	return a.Key == b.Key && a.Name == b.Name && a.Namespace == b.Namespace &&
		slices.Equal(a.Scopes, b.Scopes) && slices.Equal(a.Agents, b.Agents)
}

// keep reads the rows again and again until ctx ends, and writes to them when
// their tokens were used. What cannot be read now stays as it was.
func (k *keyring) keep(ctx context.Context) {
	ticker := time.NewTicker(rereadEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := recovery.Call(k.log, "the keeper of tokens", func() error { return k.read(ctx) }); err != nil && ctx.Err() == nil {
			k.log.WarnContext(ctx, "the tokens could not be read again", "error", err)
		}
		if err := recovery.Call(k.log, "the keeper of tokens", func() error { return k.note(ctx) }); err != nil && ctx.Err() == nil {
			k.log.WarnContext(ctx, "the last use of tokens could not be written", "error", err)
		}
	}
}

// note writes when tokens were used last, to the minute.
func (k *keyring) note(ctx context.Context) error {
	used := map[string]time.Time{}
	for g := range maps.Values(*k.good.Load()) {
		if at := g.used.Load(); at != 0 && at > g.written {
			used[g.token.Sum], g.written = time.Unix(at, 0).UTC(), at
		}
	}
	if len(used) == 0 {
		return nil
	}
	return k.accounts.TokensUsed(ctx, used)
}

func errRevoked() error {
	return mailroom.Errorf(mailroom.CodeUnauthenticated, "the token was revoked")
}
