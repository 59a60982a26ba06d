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

// refreshInterval bounds how long a token that another process revoked is good here,
// and how long a use of one goes unwritten.
const refreshInterval = 500 * time.Millisecond

// quota is what the name of a token may have of one thing, which is
// others for names that have none of their own.
func (k *tokenCache) quota(name string, q mailroom.Quota, others int64) int64 {
	if n, ok := (*k.quotas.Load())[name][q]; ok {
		return n
	}
	return others
}

// secretHash is the SHA-256 of a secret.
type secretHash [sha256.Size]byte

// tokenCache knows whose secrets are good. The operator's comes with the Options;
// the others are rows, read ahead of every request: a secret that is not known
// makes nobody read anything.
type tokenCache struct {
	// Set by newKeyring.
	accounts Accounts
	log      *slog.Logger
	operator *grant // nil: there is none

	// refreshMu is held while rows are read and taken over, so that what was
	// read first never replaces what was read later.
	refreshMu sync.Mutex
	byHash    atomic.Pointer[map[secretHash]*grant] // of the rows; never changed in place
	// quotas are those of the names that have some of their own; never changed in
	// place. No grant ends when they change.
	quotas atomic.Pointer[map[string]mailroom.Quotas]
}

// grant is what one token allows, for as long as it does.
type grant struct {
	// Set by newGrant.
	hash   secretHash
	token  *mailroom.Token // not to be changed
	ctx    context.Context // ends, saying why, when the token is revoked or its rights change
	revoke context.CancelCauseFunc

	used    atomic.Int64 // the minute of its last use, in seconds since 1970; 0: never
	written int64        // owned by keyring.keep: the last of these that was handed in to be written
}

func newGrant(s secretHash, t *mailroom.Token) *grant {
	ctx, end := context.WithCancelCause(context.Background())
	return &grant{hash: s, token: t, ctx: ctx, revoke: end, written: t.UsedAt.Unix()}
}

func newTokenCache(accounts Accounts, secret string, log *slog.Logger) *tokenCache {
	k := &tokenCache{accounts: accounts, log: log}
	if secret != "" {
		k.operator = newGrant(sha256.Sum256([]byte(secret)), mailroom.Acting(mailroom.Operator))
	}
	k.byHash.Store(&map[secretHash]*grant{})
	k.quotas.Store(&map[string]mailroom.Quotas{})
	return k
}

// lookup returns the grant of a secret, nil for a wrong one. Hashes are compared,
// in constant time, so that neither length nor content of a secret can be
// measured.
func (k *tokenCache) lookup(secret string) *grant {
	s := secretHash(sha256.Sum256([]byte(secret)))
	if k.operator != nil && subtle.ConstantTimeCompare(s[:], k.operator.hash[:]) == 1 {
		return k.operator
	}
	g := (*k.byHash.Load())[s]
	if g == nil || subtle.ConstantTimeCompare(s[:], g.hash[:]) != 1 || g.ctx.Err() != nil {
		return nil
	}
	if minute := time.Now().Truncate(time.Minute).Unix(); g.used.Load() != minute {
		g.used.Store(minute)
	}
	return g
}

// refresh takes over the rows as they are now. It ends the grants of tokens that
// were revoked or may do something else than before.
func (k *tokenCache) refresh(ctx context.Context) error {
	k.refreshMu.Lock()
	defer k.refreshMu.Unlock()
	rows, err := k.accounts.Tokens(ctx)
	if err != nil {
		return err
	}
	before := *k.byHash.Load()
	now := make(map[secretHash]*grant, len(rows))
	quotas := map[string]mailroom.Quotas{}
	for _, t := range rows {
		if len(t.Quotas) > 0 {
			quotas[t.Name] = t.Quotas
		}
		var s secretHash
		if n, err := hex.Decode(s[:], []byte(t.Sum)); !t.RevokedAt.IsZero() || err != nil || n != len(s) {
			continue
		}
		if now[s] = before[s]; now[s] == nil || !sameRights(now[s].token, t) {
			now[s] = newGrant(s, t)
		}
	}
	k.byHash.Store(&now)
	k.quotas.Store(&quotas)
	for s, g := range before {
		if now[s] != g {
			g.revoke(errRevoked())
		}
	}
	return nil
}

func sameRights(a, b *mailroom.Token) bool {
	return a.Key == b.Key && a.Name == b.Name && a.Namespace == b.Namespace &&
		slices.Equal(a.Scopes, b.Scopes) && slices.Equal(a.Agents, b.Agents)
}

// run reads the rows again and again until ctx ends, and writes to them when
// their tokens were used. What cannot be read now stays as it was.
func (k *tokenCache) run(ctx context.Context) {
	ticker := time.NewTicker(refreshInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := recovery.Call(k.log, "the keeper of tokens", func() error { return k.refresh(ctx) }); err != nil && ctx.Err() == nil {
			k.log.WarnContext(ctx, "the tokens could not be read again", "error", err)
		}
		if err := recovery.Call(k.log, "the keeper of tokens", func() error { return k.flushUses(ctx) }); err != nil && ctx.Err() == nil {
			k.log.WarnContext(ctx, "the last use of tokens could not be written", "error", err)
		}
	}
}

// flushUses writes when tokens were used last, to the minute.
func (k *tokenCache) flushUses(ctx context.Context) error {
	used := map[string]time.Time{}
	for g := range maps.Values(*k.byHash.Load()) {
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
