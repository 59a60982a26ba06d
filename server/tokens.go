package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"log/slog"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/ledger"
	"mailroom/server/internal/request"
	"mailroom/server/operate"
)

// Accounts is the part of a ledger for tokens.
type Accounts interface {
	operate.Tokens
	CreateToken(ctx context.Context, t auth.Token) (*auth.Token, error)
	Revoke(ctx context.Context, in ledger.Revocation) (ledger.Revoked, error)
	// SetQuotas replaces the quotas that a token has in place of the defaults.
	SetQuotas(ctx context.Context, name string, q auth.Quotas) (*auth.Token, error)
	RecordTokenUse(ctx context.Context, used map[string]time.Time) error
	DeriveToken(ctx context.Context, t auth.Token, by *auth.Token) (*auth.Token, error)
	// SpendLink makes a session for the link whose secret has this SHA-256, once.
	SpendLink(ctx context.Context, link string, session auth.Token) (*auth.Token, error)
	DropSession(ctx context.Context, sum string) error
	// EndReplaced drops what was derived from other tokens of the operator than the present one.
	EndReplaced(ctx context.Context, operator *auth.Token) error
	// Record records an action that changes no row in the audit log.
	Record(ctx context.Context, a ledger.Action) error
}

// tokenHandlers serve tokens.
type tokenHandlers struct {
	ledger  Accounts
	cache   *tokenCache
	push    *operate.PushHandlers
	quotas  quotas
	maxPage int // bytes
	log     *slog.Logger
}

// quotas has the default quotas, and the counts of this process that show how much of its quotas a token uses.
type quotas struct {
	defaults         auth.Quotas // quotas of tokens that set none; read-only
	streams, sockets *slots
	backlog          *request.Backlog
}

// OpenStreams implements [operate.Meters].
func (q quotas) OpenStreams() int { return q.streams.total() }

// UnreadBytes implements [operate.Meters].
func (q quotas) UnreadBytes() int64 { return q.backlog.Bytes() }

// Used implements [operate.Meters].
func (q quotas) Used(t *auth.Token) api.Used {
	return api.Used{Use: t.Used, Streams: int64(max(q.streams.used(t.Name), q.sockets.used(t.Name)))}
}

type createTokenInput struct{ Body api.NewToken }

func (h *tokenHandlers) createToken(ctx context.Context, in *createTokenInput) (*body[api.CreatedToken], error) {
	b := in.Body
	var expires time.Time
	if b.ExpiresAt != nil {
		if expires = b.ExpiresAt.UTC(); !expires.After(time.Now()) {
			return nil, request.Invalid("body.expires_at", "must be in the future", b.ExpiresAt)
		}
	}
	if err := h.checkMaker(requestOf(ctx).who, expires); err != nil {
		return nil, request.Locate("body.", err)
	}
	limits, err := readLimits(b.Budget)
	if err != nil {
		return nil, err
	}
	secret := newSecret()
	row, err := h.ledger.CreateToken(ctx, auth.Token{
		Name: b.Name, Sum: sumOf(secret), Scopes: b.Scopes, Namespace: b.Namespace, Agents: b.Agents,
		Quotas: b.Quotas, Terms: auth.Terms{ExpiresAt: expires, Via: b.Via, Budget: limits},
	})
	if err != nil {
		return nil, request.Locate("body.", err)
	}
	_ = h.refreshTokens(ctx) // as in revokeToken
	return &body[api.CreatedToken]{api.CreatedToken{Token: h.showToken(row), Secret: secret}}, nil
}

// checkMaker refuses a token that would outlive the right of the caller that makes it. A session
// belongs to a person, who signs in again for as long as the token behind it lasts, so only the end
// of that token counts.
func (h *tokenHandlers) checkMaker(who *auth.Token, expires time.Time) error {
	switch who.Terms.Kind {
	case auth.KindLimited:
		return mailroom.Errorf(mailroom.CodeForbidden, "a limited token cannot make others")
	case auth.KindSession:
		return h.cache.baseOf(who).CheckEnd(expires)
	}
	return who.CheckEnd(expires)
}

// newSecret returns 256 random bits as letters and digits, with the prefix of secrets.
func newSecret() string {
	raw := make([]byte, sha256.Size)
	_, _ = rand.Read(raw) // never fails: crypto/rand ends the process instead
	return secretPrefix + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(raw))
}

type listTokensInput struct {
	Cursor string `query:"cursor" doc:"The next of the previous page."`
}

func (h *tokenHandlers) listTokens(ctx context.Context, in *listTokensInput) (*body[api.Page[api.Token]], error) {
	rows, err := h.ledger.Tokens(ctx)
	if err != nil {
		return nil, err
	}
	who, chains := requestOf(ctx).who, auth.NewChains(rows, h.cache.operatorToken(), time.Now())
	items := make([]api.Token, 0, len(rows))
	for _, t := range rows {
		base, _ := chains.Base(t)
		switch {
		case t.Terms.Kind != auth.KindToken && base == nil: // the token has ended, and makes room for the next one
		case who.MayEnd(t), t.Name == who.Name:
			items = append(items, h.showToken(t))
		}
	}
	bound := request.PageBound{Items: len(items), Bytes: h.maxPage}
	page, err := request.PageAfter(items, in.Cursor, bound, func(t api.Token) string {
		return t.Name
	})
	return &body[api.Page[api.Token]]{page}, err
}

type revokeTokenInput struct {
	Name string `path:"name" doc:"Name of a token."`
}

func (h *tokenHandlers) revokeToken(ctx context.Context, in *revokeTokenInput) (*empty, error) {
	_, err := h.revoke(ctx, ledger.Revocation{Name: in.Name})
	return nil, err
}

type revokeInput struct {
	Name string `path:"name" doc:"Name of a token."`
	Body *api.RevokeToken
}

// revokeAndCancel revokes a token as revokeToken does, and says what becomes of its runs.
func (h *tokenHandlers) revokeAndCancel(ctx context.Context, in *revokeInput) (*body[api.RevokedToken], error) {
	r := ledger.Revocation{Name: in.Name, By: requestOf(ctx).who.Name, Cancel: in.Body != nil && in.Body.Cancel}
	out, err := h.revoke(ctx, r)
	return &body[api.RevokedToken]{api.RevokedToken{Cancelled: out.Cancelled, OpenRuns: out.Open}}, err
}

// revoke revokes a token. Its streams, waits and sockets have been cancelled when it returns.
func (h *tokenHandlers) revoke(ctx context.Context, in ledger.Revocation) (out ledger.Revoked, err error) {
	if who := requestOf(ctx).who; !who.Has(auth.PermissionAdmin) {
		if err := h.checkEnds(ctx, who, in.Name); err != nil {
			return out, err
		}
	}
	if out, err = h.ledger.Revoke(ctx, in); err != nil {
		_ = h.refreshTokens(ctx) // its row may have ended, and only what follows from that failed
		return out, err
	}
	// it logs its error; the rows that it could not read admit no request
	_ = h.refreshTokens(ctx)
	// of the server: the caller may have ended itself
	h.push.DropOf(ledger.WithCaller(context.WithoutCancel(ctx), nil), in.Name)
	h.cache.waitForOthers(ctx)
	return out, nil
}

// checkEnds returns an error unless the token who may end the token of this name. It reports a token that who may not
// know as not found.
func (h *tokenHandlers) checkEnds(ctx context.Context, who *auth.Token, name string) error {
	rows, err := h.ledger.Tokens(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(rows, func(t *auth.Token) bool { return t.Name == name })
	switch {
	case i >= 0 && who.MayEnd(rows[i]):
		return nil
	case i >= 0 && rows[i].Name == who.Name && who.Terms.Kind == auth.KindToken:
		return mailroom.Errorf(mailroom.CodeForbidden,
			"only an admin revokes a token with a name of its own; you may revoke its sessions, links and limited tokens")
	}
	return mailroom.Errorf(mailroom.CodeNotFound, "no token %q", request.Truncate(name))
}

// refreshTokens applies a change of tokens at once, even if the caller has gone. It logs an error; the next request
// then reads the rows again, or is refused.
func (h *tokenHandlers) refreshTokens(ctx context.Context) error {
	h.cache.changed()
	err := h.cache.refresh(context.WithoutCancel(ctx))
	if err != nil {
		h.log.WarnContext(ctx, "cannot refresh tokens", "error", err)
	}
	return err
}

type setQuotasInput struct {
	Name string `path:"name" doc:"Name of a token."`
	Body api.TokenPatch
}

func (h *tokenHandlers) setQuotas(ctx context.Context, in *setQuotasInput) (*body[api.Token], error) {
	row, err := h.ledger.SetQuotas(ctx, in.Name, in.Body.Quotas)
	if err != nil {
		return nil, request.Locate("body.", err)
	}
	_ = h.refreshTokens(ctx) // as in revokeToken
	return &body[api.Token]{h.showToken(row)}, nil
}

func (h *tokenHandlers) showToken(t *auth.Token) api.Token {
	kind, scopes := "token", append([]auth.Permission{}, t.Scopes...)
	if t.Terms.Kind != auth.KindToken {
		kind, scopes = string(t.Terms.Kind), append(scopes, t.Terms.Scopes...)
	}
	return api.Token{
		Name: t.Name, Scopes: scopes, Namespace: request.Given(t.Namespace),
		Agents: append([]string{}, t.Agents...), Quotas: t.Quotas.WithDefaults(h.quotas.defaults), Used: h.quotas.Used(t),
		CreatedAt: t.CreatedAt, UsedAt: request.Known(t.UsedAt), RevokedAt: request.Known(t.RevokedAt),
		Kind: kind, Via: request.Given(t.Terms.Via), Client: request.Given(t.Terms.Client), For: request.Given(t.Terms.For),
		Threads: t.Terms.Threads, Run: request.Given(t.Terms.Run), ExpiresAt: request.Known(t.Terms.ExpiresAt),
		Budget: t.Terms.Budget.Texts(),
	}
}
