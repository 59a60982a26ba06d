package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/internal/recovery"
	"mailroom/ledger"
	"mailroom/server/internal/request"
)

const (
	// refreshInterval is how often the rows are read, so that the streams and sockets of a token that another
	// process revoked end, and how long the use of a token goes unwritten.
	refreshInterval = 500 * time.Millisecond
	// maxAge bounds the age of the rows that admit a request if other servers change them too. So once a revocation
	// is this old, no server admits its token, not even one that was stopped for a time and goes on with old rows.
	maxAge = time.Second
	// refreshTimeout bounds how long a request waits for fresh rows.
	refreshTimeout = 5 * time.Second
)

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
	operator *grant // grant of the operator's token; nil: the server has no such token
	shared   bool   // other servers change the rows of tokens too

	// refreshing is held from reading rows until they are stored, so that older rows never replace newer ones. It has
	// room for one.
	refreshing chan struct{}
	// readAt is when the read of the present rows began, changedAt when this server last changed some. Rows that are
	// older than the change admit no request: the change must hold even if reading them again fails.
	readAt, changedAt atomic.Pointer[time.Time]

	byHash atomic.Pointer[map[secretHash]*grant] // grants of the rows; replaced, never modified
	// quotas has the names with quotas of their own; replaced, never modified. A change of quotas
	// revokes no grant.
	quotas atomic.Pointer[map[string]auth.Quotas]
}

// grant is the validity of one token's present rights.
type grant struct {
	// Set by newGrant.
	hash   secretHash
	token  *auth.Token     // read-only
	row    ledger.Caller   // row of the token; zero: the token has no row
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
	c := &tokenCache{accounts: accounts, log: log, refreshing: make(chan struct{}, 1)}
	if secret != "" {
		c.operator = newGrant(sha256.Sum256([]byte(secret)), auth.NewOperator(secret))
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
	return who // the token was revoked since the request began
}

// sessionWithID returns the session whose [auth.Token.ID] is id, or nil.
func (c *tokenCache) sessionWithID(id string) *auth.Token {
	for _, g := range *c.byHash.Load() {
		if g.token.Terms.Kind == auth.KindSession && g.token.ID() == id {
			return g.token
		}
	}
	return nil
}

// find returns the grant of the secret with the hash s, from rows that are fresh enough to admit a request. It returns
// CodeUnavailable if it has to read the rows and cannot.
func (c *tokenCache) find(ctx context.Context, s secretHash) (*grant, error) {
	if c.operator == nil || s != c.operator.hash { // the operator's token has no row
		if err := c.ensureFresh(ctx); err != nil {
			return nil, err
		}
	}
	return c.lookupHash(s), nil
}

// ensureFresh reads the rows if they are too old to admit a request.
func (c *tokenCache) ensureFresh(ctx context.Context) error {
	if c.fresh(time.Now()) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	err := c.exclusively(ctx, func() error {
		if c.fresh(time.Now()) { // another request has read the rows
			return nil
		}
		return c.read(ctx)
	})
	if err != nil {
		return &mailroom.Error{Code: mailroom.CodeUnavailable,
			Message: "the server cannot check tokens now: the store does not answer", Cause: err}
	}
	return nil
}

// fresh reports whether the rows may admit a request at now. Their age is the larger one of two clocks: the
// monotonic one of a machine that was suspended may have stood still, and the other one can be set.
func (c *tokenCache) fresh(now time.Time) bool {
	read, changed := c.readAt.Load(), c.changedAt.Load()
	switch {
	case read == nil || changed != nil && !read.After(*changed):
		return false
	case !c.shared:
		return true
	}
	return max(now.Sub(*read), now.Round(0).Sub(read.Round(0))) < maxAge
}

// changed records that this server changed rows. Those that it has admit no request any more.
func (c *tokenCache) changed() {
	now := time.Now()
	c.changedAt.Store(&now)
}

// waitForOthers returns when no other server can admit a request by rows that it read before now.
func (c *tokenCache) waitForOthers(ctx context.Context) {
	if !c.shared {
		return
	}
	select {
	case <-time.After(maxAge):
	case <-ctx.Done():
	}
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
	now := time.Now()
	if g.token.Expired(now) { // the machine may have slept since the rows were read
		return nil
	}
	if minute := now.Truncate(time.Minute).Unix(); g.used.Load() != minute {
		g.used.Store(minute)
	}
	return g
}

// refresh reads all token rows. It revokes the grants of tokens that were revoked or whose rights
// changed.
func (c *tokenCache) refresh(ctx context.Context) error {
	return c.exclusively(ctx, func() error { return c.read(ctx) })
}

// exclusively calls f while no other read is under way.
func (c *tokenCache) exclusively(ctx context.Context, f func() error) error {
	select {
	case c.refreshing <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-c.refreshing }()
	return f()
}

// read does what refresh does. The caller holds c.refreshing.
func (c *tokenCache) read(ctx context.Context) error {
	began := time.Now()
	rows, err := c.accounts.Tokens(ctx)
	if err != nil {
		return err
	}
	before := *c.byHash.Load()
	now := make(map[secretHash]*grant, len(rows))
	quotas := map[string]auth.Quotas{}
	rowOf := map[int64]*auth.Token{} // rows by key: a token that acts for another has the name of the other in Valid
	for _, t := range rows {
		rowOf[t.Key] = t
	}
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
			if row := rowOf[t.Key]; row != nil {
				now[s].row = ledger.RowOf(row)
			}
			if before[s] != nil {
				now[s].used.Store(before[s].used.Load()) // the store may not have this last use yet
			}
		}
	}
	c.byHash.Store(&now)
	c.quotas.Store(&quotas)
	c.readAt.Store(&began)
	for s, g := range before {
		if now[s] != g {
			g.revoke(request.ErrRevoked())
		}
	}
	return nil
}

func sameRights(a, b *auth.Token) bool {
	return a.Key == b.Key && a.Name == b.Name && a.Namespace == b.Namespace &&
		slices.Equal(a.Scopes, b.Scopes) && slices.Equal(a.Agents, b.Agents) && sameTerms(a.Terms, b.Terms)
}

func sameTerms(a, b auth.Terms) bool {
	return a.Kind == b.Kind && a.For == b.For && a.Run == b.Run && a.Source == b.Source &&
		a.ExpiresAt.Equal(b.ExpiresAt) &&
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
		if err := recovery.Call(c.log, "token cache", func() error {
			return c.refresh(ctx)
		}); err != nil && ctx.Err() == nil {
			c.log.WarnContext(ctx, "cannot refresh tokens", "error", err)
			c.endExpired(time.Now())
		}
		if err := recovery.Call(c.log, "token cache", func() error {
			return c.flushUses(ctx)
		}); err != nil && ctx.Err() == nil {
			c.log.WarnContext(ctx, "cannot write last use of tokens", "error", err)
		}
	}
}

// endExpired revokes the grants whose end has passed, which a refresh does too, if it can read the rows.
func (c *tokenCache) endExpired(now time.Time) {
	for _, g := range *c.byHash.Load() {
		if g.token.Expired(now) {
			g.revoke(request.ErrRevoked())
		}
	}
}

// flushUses writes when tokens were used last, to the minute.
func (c *tokenCache) flushUses(ctx context.Context) error {
	used := map[string]time.Time{}
	written := map[*grant]int64{}
	for g := range maps.Values(*c.byHash.Load()) {
		if at := g.used.Load(); at != 0 && at > g.written {
			used[g.token.Sum], written[g] = time.Unix(at, 0).UTC(), at
		}
	}
	if len(used) == 0 {
		return nil
	}
	if err := c.accounts.RecordTokenUse(ctx, used); err != nil {
		return err
	}
	for g, at := range written {
		g.written = at
	}
	return nil
}
