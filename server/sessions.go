package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/ledger"
	"mailroom/server/internal/request"
)

const (
	sessionLife = 30 * 24 * time.Hour
	// linkLife is how long a link to sign in is valid.
	linkLife = 5 * time.Minute
	// maxLimitedLife bounds the life of a limited token.
	maxLimitedLife = 366 * 24 * time.Hour
)

// cookieName returns the name of the cookie of sessions. Browsers send the cookies of a host to all its
// ports, so each server has a name of its own.
func cookieName(operatorSecret string) string {
	sum := sha256.Sum256([]byte("cookie\x00" + operatorSecret))
	return "mailroom_" + hex.EncodeToString(sum[:4])
}

// A browser sends a cookie to every port of its host: to each program on the machine of the server that this
// browser visits. So the cookie is only half of a session's secret. The page has the other half in the storage of
// its origin, which includes the port, and sends it as Authorization: Session HALF, or in the first frame of a
// socket. The cookie is not readable for scripts, so the half of the page is of no use elsewhere either. The row is
// found by both halves together: a cookie that another port puts in place of this one makes no session.

// schemeSession is the scheme of the header Authorization with the page's half of a session.
const schemeSession = "Session"

// sessionHash returns the hash under which a session is found. It has a domain of its own, so that neither the
// secret of another token nor that of a session of an older version can be sent as two halves.
//
// Three alternatives were rejected. A secret only in the storage of the page: a script that reads it could use it
// elsewhere, which the cookie, unreadable for scripts, prevents. A host name of its own for the pages
// (mailroom-ID.localhost): not every resolver and proxy knows such names, and a phone uses another name. A check of
// Origin or Sec-Fetch-Site: a program can send any value of these headers.
//
// The half is a scheme of the header Authorization, not a header of its own, so everything that hides that header
// hides it, and a socket sends it in its first frame as it does a token. A tab keeps the half that it began with: if
// another tab signs in as another user, its next request is refused, and not made as that user. The page of a link
// always asks before it signs in. It cannot know that the command on this machine opened the link, unless the address
// has a secret, and a sender of links could write such an address too.
func sessionHash(cookie, half string) secretHash {
	return sha256.Sum256([]byte("session\x00" + cookie + "\x00" + half))
}

// session returns the grant of a session whose page sends half, nil without a valid one. It refuses a request of a
// page of another origin. A page on another port can add a cookie of the same name for a longer path, so session tries
// all cookies of the name.
func (s *Server) session(r *http.Request, half string) (*grant, error) {
	for _, cookie := range r.CookiesNamed(s.cookie) {
		g, err := s.tokens.find(r.Context(), sessionHash(cookie.Value, half))
		switch {
		case err != nil:
			return nil, err
		case g == nil:
		case !fromOwnPage(r):
			return nil, mailroom.Errorf(mailroom.CodeForbidden,
				"a session is valid for the pages of this server only: send a token")
		default:
			return g, nil
		}
	}
	return nil, nil
}

// fromOwnPage reports whether a request comes from a page of this server, by the headers that browsers
// send (https://www.w3.org/TR/fetch-metadata/). A browser without them sends Origin with each request that
// is not a GET or HEAD, and with each WebSocket.
func fromOwnPage(r *http.Request) bool {
	site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
	if origin != "" {
		u, err := url.Parse(origin)
		if err != nil || !strings.EqualFold(u.Host, r.Host) {
			return false
		}
	}
	switch site {
	case "same-origin", "none": // none: the user entered the address
		return true
	case "":
		safe := r.Method == http.MethodGet || r.Method == http.MethodHead
		return origin != "" || safe && r.Header.Get("Upgrade") == ""
	}
	return false
}

// isBearer reports whether the secret of a token is valid in the header Authorization.
func isBearer(t *auth.Token) bool {
	return t.Terms.Kind == auth.KindToken || t.Terms.Kind == auth.KindLimited
}

// checkTerms refuses the routes that a token for some threads or one run may not use. On the other routes, each thread
// and run that such a token reads or writes is checked.
func checkTerms(who *auth.Token, route string) error {
	if !who.Limited() {
		return nil
	}
	_, path, _ := strings.Cut(route, " ")
	ofRun := strings.Contains(path, "{run}") || strings.Contains(path, "{ticket}") || path == "/v1/ws" ||
		path == "/v1/session"
	ofThread := strings.Contains(path, "{thread}") || path == "/v1/messages"
	if ofRun || who.Terms.Run == "" && ofThread {
		return nil
	}
	return mailroom.Errorf(mailroom.CodeForbidden, "this token is for some threads or one run only")
}

// sessionHandlers sign browsers in and make tokens that act for the caller.
type sessionHandlers struct {
	ledger Accounts
	tokens *tokenHandlers
	find   request.Lookup
	cookie string // name
	url    string // see Options.Access.URL
	secure bool   // browsers connect with TLS
}

type createLinkInput struct{ Body *api.NewLink }

// createLink makes a link with which a browser signs in as the caller.
func (h *sessionHandlers) createLink(ctx context.Context, in *createLinkInput) (*body[api.Link], error) {
	who := requestOf(ctx).who
	scopes := []auth.Permission{}
	for _, s := range auth.Permissions() {
		if s != auth.PermissionWork && who.Has(s) {
			scopes = append(scopes, s)
		}
	}
	if in.Body != nil && len(in.Body.Scopes) > 0 {
		scopes = in.Body.Scopes
	}
	row, secret, err := h.derive(ctx, auth.Terms{Kind: auth.KindLink, Scopes: scopes, ExpiresAt: time.Now().Add(linkLife)})
	if err != nil {
		return nil, err
	}
	return &body[api.Link]{api.Link{Secret: secret, URL: request.Given(h.url), ExpiresAt: row.Terms.ExpiresAt}}, nil
}

type limitedTokenInput struct{ Body api.NewLimitedToken }

// createLimited makes a token with a part of the caller's rights.
func (h *sessionHandlers) createLimited(ctx context.Context, in *limitedTokenInput) (*body[api.CreatedToken], error) {
	b := in.Body
	if most := time.Now().Add(maxLimitedLife); b.ExpiresAt.After(most) || !b.ExpiresAt.After(time.Now()) {
		return nil, request.Invalid("body.expires_at", "must be in the future and at most 366 days away", b.ExpiresAt)
	}
	terms := auth.Terms{Kind: auth.KindLimited, Scopes: b.Scopes, Threads: b.Threads, Run: b.Run, ExpiresAt: b.ExpiresAt}
	if b.Run != "" {
		if len(b.Threads) > 0 {
			return nil, request.Invalid("body.threads", "cannot be combined with run: a run has one thread", nil)
		}
		run, err := h.find.Run(ctx, b.Run)
		if err != nil {
			return nil, err
		}
		terms.Threads = []string{run.Thread}
	}
	row, secret, err := h.derive(ctx, terms)
	if err != nil {
		return nil, err
	}
	return &body[api.CreatedToken]{api.CreatedToken{Token: h.tokens.showToken(row), Secret: secret}}, nil
}

// derive makes a token that acts for the caller, and its secret.
func (h *sessionHandlers) derive(ctx context.Context, terms auth.Terms) (*auth.Token, string, error) {
	secret := newSecret()
	row, err := h.ledger.DeriveToken(ctx, auth.Token{Sum: sumOf(secret), Terms: terms}, requestOf(ctx).who)
	if err != nil {
		return nil, "", request.Locate("body.", err)
	}
	_ = h.tokens.refreshTokens(ctx) // as above
	return row, secret, nil
}

func sumOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

type signInInput struct {
	UserAgent string `header:"User-Agent" maxLength:"2000" doc:"Names the session in lists."`
	Body      api.SignIn
}

type showLinkInput struct{ Body api.SignIn }

// showLink says whose session a link makes. It spends nothing.
func (h *sessionHandlers) showLink(ctx context.Context, in *showLinkInput) (*body[api.ShownLink], error) {
	cache := h.tokens.cache
	g := cache.lookup(in.Body.Secret)
	if g == nil { // another server may have made the link just now
		if err := cache.refresh(ctx); err != nil {
			return nil, err
		}
		g = cache.lookup(in.Body.Secret)
	}
	if g == nil || g.token.Terms.Kind != auth.KindLink {
		return nil, ledger.ErrSpentLink()
	}
	out := api.ShownLink{Token: g.token.Name, Scopes: showSession(g.token).Scopes, MadeBy: "token",
		ExpiresAt: g.token.Terms.ExpiresAt}
	if by := cache.sessionWithID(g.token.Terms.Source); by != nil {
		out.MadeBy, out.Client = "session", request.Given(by.Terms.Client)
	}
	return &body[api.ShownLink]{out}, nil
}

// signedIn is a new session. One half of its secret is in a cookie, the other half in the body.
type signedIn struct {
	Cookie http.Cookie `header:"Set-Cookie"`
	Body   api.SignedIn
}

// signIn exchanges a link for a session.
func (h *sessionHandlers) signIn(ctx context.Context, in *signInInput) (*signedIn, error) {
	cookie, half := newSecret(), newSecret()
	sum := sessionHash(cookie, half)
	terms := auth.Terms{ExpiresAt: time.Now().Add(sessionLife), Client: request.BrowserOf(in.UserAgent)}
	row, err := h.ledger.SpendLink(ctx, sumOf(in.Body.Secret), auth.Token{Sum: hex.EncodeToString(sum[:]), Terms: terms})
	if err != nil {
		return nil, err
	}
	err = h.tokens.refreshTokens(ctx)
	session := row.Act(h.tokens.cache.baseOf(&auth.Token{Name: row.Terms.For}))
	switch g := h.tokens.cache.lookupHash(sum); {
	case g != nil:
		session = g.token
	case err == nil: // the token was revoked after the session began
		return nil, mailroom.Errorf(mailroom.CodeUnauthenticated, "the token %q is revoked", row.Terms.For)
	} // else the link is spent and the session exists: the browser must get it, whether or not the rows can be read
	return &signedIn{Cookie: h.newCookie(cookie, time.Until(row.Terms.ExpiresAt).Round(time.Second)),
		Body: api.SignedIn{Session: showSession(session), Half: half}}, nil
}

// newCookie returns the cookie of a session. SameSite=Lax lets links of other pages and mails open the
// console; requests of other pages are refused by their headers.
func (h *sessionHandlers) newCookie(secret string, life time.Duration) http.Cookie {
	return http.Cookie{
		Name: h.cookie, Value: secret, Path: "/", MaxAge: int(life.Seconds()), HttpOnly: true, Secure: h.secure,
		SameSite: http.SameSiteLaxMode,
	}
}

// showSelf shows the token of the caller.
func (h *sessionHandlers) showSelf(ctx context.Context, _ *empty) (*body[api.Session], error) {
	return &body[api.Session]{showSession(requestOf(ctx).who)}, nil
}

// signedOut removes the cookie of a session.
type signedOut struct {
	Cookie http.Cookie `header:"Set-Cookie"`
}

// signOut ends the session of the caller.
func (h *sessionHandlers) signOut(ctx context.Context, _ *empty) (*signedOut, error) {
	who := requestOf(ctx).who
	if who.Terms.Kind != auth.KindSession {
		return nil, mailroom.Errorf(mailroom.CodeInvalid,
			"this is a token, not a session: revoke it with DELETE /v1/tokens/NAME")
	}
	name, err := h.tokens.push.SessionOf(ctx, who)
	if err != nil {
		return nil, err
	}
	if err := h.ledger.DropSession(ctx, who.Sum); err != nil {
		return nil, err
	}
	// it logs its error; the rows that it could not read admit no request
	_ = h.tokens.refreshTokens(ctx)
	h.tokens.push.DropOf(ledger.WithCaller(context.WithoutCancel(ctx), nil), name) // of the server: the session has ended
	h.tokens.cache.waitForOthers(ctx)
	cookie := h.newCookie("", 0)
	cookie.MaxAge = -1
	return &signedOut{cookie}, nil
}

func showSession(t *auth.Token) api.Session {
	out := api.Session{
		Token: t.Name, Kind: string(t.Terms.Kind), Scopes: []auth.Permission{}, Namespace: request.Given(t.Namespace),
		Threads: t.Terms.Threads,
		Run:     request.Given(t.Terms.Run), ExpiresAt: request.Known(t.Terms.ExpiresAt),
	}
	for _, s := range auth.Permissions() {
		if t.Has(s) {
			out.Scopes = append(out.Scopes, s)
		}
	}
	if out.Kind == "" {
		out.Kind = "token"
	}
	return out
}
