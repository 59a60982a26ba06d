package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"maps"
	"strings"

	"mailroom/api"
	"mailroom/auth"
	"mailroom/server/internal/invalid"
	"mailroom/server/internal/view"
)

func (rt router) registerTokens() {
	s := rt.server
	creation := rt.operation(auth.PermissionAdmin, "POST /v1/tokens", "create-token", "Create a token; its secret is shown only once")
	creation.DefaultStatus = 201
	handle(rt, creation, s.createToken)
	handle(rt, rt.operation(auth.PermissionAdmin, "GET /v1/tokens", "list-tokens", "List tokens, by name, without their secrets"), s.listTokens)
	handle(rt, rt.operation(auth.PermissionAdmin, "PATCH /v1/tokens/{name}", "set-quotas", "Set the quotas of a token"), s.setQuotas)
	revocation := rt.operation(auth.PermissionAdmin, "DELETE /v1/tokens/{name}", "revoke-token", "Revoke a token")
	revocation.DefaultStatus = 204
	handle(rt, revocation, s.revokeToken)
}

type createTokenInput struct{ Body api.NewToken }

func (s *Server) createToken(ctx context.Context, in *createTokenInput) (*body[api.CreatedToken], error) {
	b := in.Body
	secret := newSecret()
	hash := sha256.Sum256([]byte(secret))
	row, err := s.options.Ledger.CreateToken(ctx, auth.Token{
		Name: b.Name, Sum: hex.EncodeToString(hash[:]), Scopes: b.Scopes, Namespace: b.Namespace, Agents: b.Agents,
		Quotas: b.Quotas,
	})
	if err != nil {
		return nil, invalid.At("body.", err)
	}
	s.refreshTokens(ctx)
	return &body[api.CreatedToken]{api.CreatedToken{Token: s.showToken(row), Secret: secret}}, nil
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

func (s *Server) listTokens(ctx context.Context, in *listTokensInput) (*body[api.Page[api.Token]], error) {
	rows, err := s.options.Ledger.Tokens(ctx)
	if err != nil {
		return nil, err
	}
	items := make([]api.Token, 0, len(rows))
	for _, t := range rows {
		items = append(items, s.showToken(t))
	}
	return pageAfter(items, in.Cursor, pageBound{len(items), s.options.MaxPage}, func(t api.Token) string { return t.Name })
}

type revokeTokenInput struct {
	Name string `path:"name" doc:"Name of a token."`
}

// revokeToken revokes a token. Its streams, waits and sockets have been cancelled when it returns.
func (s *Server) revokeToken(ctx context.Context, in *revokeTokenInput) (*empty, error) {
	if err := s.options.Ledger.RevokeToken(ctx, in.Name); err != nil {
		return nil, err
	}
	s.refreshTokens(ctx)
	return nil, nil
}

// refreshTokens applies a change of tokens at once, even if the caller has gone. After an error,
// tokenCache.run tries again.
func (s *Server) refreshTokens(ctx context.Context) {
	if err := s.tokens.refresh(context.WithoutCancel(ctx)); err != nil {
		s.log.WarnContext(ctx, "cannot refresh tokens", "error", err)
	}
}

// defaultQuotas are the quotas of tokens that set none.
func (s *Server) defaultQuotas() auth.Quotas {
	all := auth.Quotas{auth.QuotaStreams: int64(s.options.MaxStreams)}
	maps.Copy(all, s.options.Quotas)
	return all
}

// usageOf returns the quota use of a token, including its open streams on this server.
func (s *Server) usageOf(t *auth.Token) api.Used {
	return api.Used{Use: t.Used, Streams: int64(max(s.streamSlots.used(t.Name), s.socketSlots.used(t.Name)))}
}

// maxStreams is how many streams and waits a token may have open.
func (s *Server) maxStreams(name string) int64 {
	return s.tokens.quota(name, auth.QuotaStreams, int64(s.options.MaxStreams))
}

type setQuotasInput struct {
	Name string `path:"name" doc:"Name of a token."`
	Body api.TokenPatch
}

func (s *Server) setQuotas(ctx context.Context, in *setQuotasInput) (*body[api.Token], error) {
	row, err := s.options.Ledger.SetQuotas(ctx, in.Name, in.Body.Quotas)
	if err != nil {
		return nil, invalid.At("body.", err)
	}
	s.refreshTokens(ctx)
	return &body[api.Token]{s.showToken(row)}, nil
}

func (s *Server) showToken(t *auth.Token) api.Token {
	return api.Token{
		Name: t.Name, Scopes: append([]auth.Permission{}, t.Scopes...), Namespace: view.Given(t.Namespace),
		Agents: append([]string{}, t.Agents...), Quotas: t.Quotas.WithDefaults(s.defaultQuotas()), Used: s.usageOf(t), CreatedAt: t.CreatedAt, UsedAt: view.Known(t.UsedAt), RevokedAt: view.Known(t.RevokedAt),
	}
}
