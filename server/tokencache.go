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
	"mailroom/auth"
	"mailroom/internal/recovery"
)

// refreshInterval bounds how long a token that another process revoked stays valid here, and how
// long the use of a token goes unwritten.
const refreshInterval = 500 * time.Millisecond

// quota returns the quota q of a token's name, or def if the name has none of its own.
func (c *tokenCache) quota(name string, q auth.Quota, def int64) int64 {
	if n, ok := (*c.quotas.Load())[name][q]; ok {
		return n
	}
	return def
}

// secretHash is the SHA-256 of a secret.
type secretHash [sha256.Size]byte

// tokenCache maps secrets to tokens. It holds all rows in memory, so a lookup with an unknown
// secret reads nothing from the store. The operator's token comes from Options.
type tokenCache struct {
	// Set by newTokenCache.
	accounts Accounts
	log      *slog.Logger
	operator *grant // nil: none

	// refreshMu is held from reading rows until they are stored, so that older rows never replace
	// newer ones.
	refreshMu sync.Mutex
	byHash    atomic.Pointer[map[secretHash]*grant] // grants of the rows; replaced, never modified
	// quotas has the names with quotas of their own; replaced, never modified. A change of quotas
	// revokes no grant.
	quotas atomic.Pointer[map[string]auth.Quotas]
}

// grant is the validity of one token's present rights.
type grant struct {
	// Set by newGrant.
	hash   secretHash
	token  *auth.Token     // read-only
	ctx    context.Context // ends when the token is revoked or its rights change; its cause says which
	revoke context.CancelCauseFunc

	used    atomic.Int64 // minute of the last use, in Unix seconds; 0: never
	written int64        // owned by tokenCache.run: the last value of used that was written
}

func newGrant(s secretHash, t *auth.Token) *grant {
	ctx, end := context.WithCancelCause(context.Background())
	return &grant{hash: s, token: t, ctx: ctx, revoke: end, written: t.UsedAt.Unix()}
}

func newTokenCache(accounts Accounts, secret string, log *slog.Logger) *tokenCache {
	c := &tokenCache{accounts: accounts, log: log}
	if secret != "" {
		sum := secretHash(sha256.Sum256([]byte(secret)))
		operator := auth.RunToken(auth.Operator)
		operator.Sum = hex.EncodeToString(sum[:])
		c.operator = newGrant(sum, operator)
	}
	c.byHash.Store(&map[secretHash]*grant{})
	c.quotas.Store(&map[string]auth.Quotas{})
	return c
}

// operatorToken returns the operator's token, without a secret if there is none.
func (c *tokenCache) operatorToken() *auth.Token {
	if c.operator == nil {
		return auth.RunToken(auth.Operator)
	}
	return c.operator.token
}

// baseOf returns the token that a caller acts for: itself, if it is no session, link or limited token.
func (c *tokenCache) baseOf(who *auth.Token) *auth.Token {
	if who.Name == auth.Operator {
		return c.operatorToken()
	}
	for _, g := range *c.byHash.Load() {
		if g.token.Name == who.Name && g.token.Terms.Kind == auth.KindToken {
			return g.token
		}
	}
	return who // it was revoked since the request began
}

// sessionWithID returns the session with an [auth.Token.ID], nil if there is none.
func (c *tokenCache) sessionWithID(id string) *auth.Token {
	for _, g := range *c.byHash.Load() {
		if g.token.Terms.Kind == auth.KindSession && g.token.ID() == id {
			return g.token
		}
	}
	return nil
}

// lookup returns the grant of a secret, or nil. It compares hashes in constant time, so that timing
// reveals nothing about secrets.
func (c *tokenCache) lookup(secret string) *grant {
	return c.lookupHash(sha256.Sum256([]byte(secret)))
}

func (c *tokenCache) lookupHash(s secretHash) *grant {
	if c.operator != nil && subtle.ConstantTimeCompare(s[:], c.operator.hash[:]) == 1 {
		return c.operator
	}
	g := (*c.byHash.Load())[s]
	if g == nil || subtle.ConstantTimeCompare(s[:], g.hash[:]) != 1 || g.ctx.Err() != nil {
		return nil
	}
	if minute := time.Now().Truncate(time.Minute).Unix(); g.used.Load() != minute {
		g.used.Store(minute)
	}
	return g
}

// refresh reads all token rows. It revokes the grants of tokens that were revoked or whose rights
// changed.
func (c *tokenCache) refresh(ctx context.Context) error {
	c.refreshMu.Lock()
	defer c.refreshMu.Unlock()
	rows, err := c.accounts.Tokens(ctx)
	if err != nil {
		return err
	}
	before := *c.byHash.Load()
	now := make(map[secretHash]*grant, len(rows))
	quotas := map[string]auth.Quotas{}
	for _, t := range auth.NewChains(rows, c.operatorToken(), time.Now()).Valid() {
		if len(t.Quotas) > 0 {
			quotas[t.Name] = t.Quotas
		}
		var s secretHash
		if n, err := hex.Decode(s[:], []byte(t.Sum)); err != nil || n != len(s) {
			continue
		}
		if now[s] = before[s]; now[s] == nil || !sameRights(now[s].token, t) {
			now[s] = newGrant(s, t)
		}
	}
	c.byHash.Store(&now)
	c.quotas.Store(&quotas)
	for s, g := range before {
		if now[s] != g {
			g.revoke(errRevoked())
		}
	}
	return nil
}

func sameRights(a, b *auth.Token) bool {
	return a.Key == b.Key && a.Name == b.Name && a.Namespace == b.Namespace &&
		slices.Equal(a.Scopes, b.Scopes) && slices.Equal(a.Agents, b.Agents) && sameTerms(a.Terms, b.Terms)
}

func sameTerms(a, b auth.Terms) bool {
	return a.Kind == b.Kind && a.For == b.For && a.Run == b.Run && a.Source == b.Source && a.ExpiresAt.Equal(b.ExpiresAt) &&
		slices.Equal(a.Scopes, b.Scopes) && slices.Equal(a.Threads, b.Threads)
}

// run refreshes the cache and writes the last uses of tokens until ctx ends. After an error it
// keeps what it has.
func (c *tokenCache) run(ctx context.Context) {
	ticker := time.NewTicker(refreshInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := recovery.Call(c.log, "token cache", func() error { return c.refresh(ctx) }); err != nil && ctx.Err() == nil {
			c.log.WarnContext(ctx, "cannot refresh tokens", "error", err)
		}
		if err := recovery.Call(c.log, "token cache", func() error { return c.flushUses(ctx) }); err != nil && ctx.Err() == nil {
			c.log.WarnContext(ctx, "cannot write last use of tokens", "error", err)
		}
	}
}

// flushUses writes when tokens were used last, to the minute.
func (c *tokenCache) flushUses(ctx context.Context) error {
	used := map[string]time.Time{}
	for g := range maps.Values(*c.byHash.Load()) {
		if at := g.used.Load(); at != 0 && at > g.written {
			used[g.token.Sum], g.written = time.Unix(at, 0).UTC(), at
		}
	}
	if len(used) == 0 {
		return nil
	}
	return c.accounts.RecordTokenUse(ctx, used)
}

func errRevoked() error {
	return mailroom.Errorf(mailroom.CodeUnauthenticated, "the token was revoked")
}
