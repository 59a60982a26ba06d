package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Session is an account that was logged in.
type Session struct {
	Homeserver string // address
	Token      string
	Bot        Bot
}

// Discover finds the homeserver of a name such as example.org; an address stays as it
// is (https://spec.matrix.org/v1.11/client-server-api/#well-known-uri).
func Discover(ctx context.Context, name string) (string, error) {
	if strings.Contains(name, "://") {
		_, err := CheckHomeserver(name)
		return strings.TrimRight(name, "/"), err
	}
	base, err := CheckHomeserver("https://" + name)
	if err != nil {
		return "", err
	}
	return fetchWellKnown(ctx, base)
}

// fetchWellKnown asks who answers for a name; by itself it does.
func fetchWellKnown(ctx context.Context, base *url.URL) (string, error) {
	c := newAnonymousClient(base)
	defer c.http.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	const what = "ask which homeserver it is"
	a, err := c.doRequest(ctx, what, http.MethodGet, "/.well-known/matrix/client", nil)
	if err != nil {
		return "", unavailable(err)
	}
	defer a.Body.Close() // it was only read
	if a.StatusCode == http.StatusNotFound {
		return base.String(), nil
	}
	var said struct {
		Home struct {
			Base string `json:"base_url"`
		} `json:"m.homeserver"`
	}
	raw, err := io.ReadAll(io.LimitReader(a.Body, maxQuote<<10))
	if err != nil || a.StatusCode != http.StatusOK || json.Unmarshal(raw, &said) != nil {
		return "", fmt.Errorf("%s: %s does not say (%d %s); give the homeserver's address, such as https://matrix.example.org", what, base.Host, a.StatusCode, http.StatusText(a.StatusCode))
	}
	found := strings.TrimRight(said.Home.Base, "/")
	if _, err := CheckHomeserver(found); err != nil {
		return "", fmt.Errorf("%s: it names %q: %w", what, found, err)
	}
	return found, nil
}

// Login logs an account in with its password, as a device of its own.
func Login(ctx context.Context, homeserver, user, password string) (Session, error) {
	base, err := CheckHomeserver(homeserver)
	if err != nil {
		return Session{}, fmt.Errorf("homeserver: %w", err)
	}
	c := newAnonymousClient(base)
	defer c.http.CloseIdleConnections()
	var got struct {
		Bot
		Token string `json:"access_token"`
	}
	err = c.call(ctx, request{op: "log in", method: http.MethodPost, path: []string{"login"}, body: map[string]any{
		"type": "m.login.password", "identifier": map[string]any{"type": "m.id.user", "user": user},
		"password": password, "initial_device_display_name": "Mailroom",
	}}, &got, callTimeout)
	if e, ok := errors.AsType[*apiError](err); ok && e.code == http.StatusForbidden {
		return Session{}, fmt.Errorf("the homeserver does not let %s in (%d %s)", user, e.code, e.description)
	}
	if err == nil && got.Token == "" {
		err = &transportError{op: "log in", reason: "the answer has no access token", maybeSent: true}
	}
	if err != nil {
		return Session{}, unavailable(err)
	}
	s := Session{Homeserver: homeserver, Token: got.Token, Bot: got.Bot}
	if s.Bot, err = s.Identify(ctx); err != nil {
		return Session{}, errors.Join(err, s.Logout(ctx))
	}
	return s, nil
}

// Identify asks the homeserver whose token it is.
func (s Session) Identify(ctx context.Context) (Bot, error) {
	c, err := newClient(s.options())
	if err != nil {
		return Bot{}, err
	}
	defer c.http.CloseIdleConnections()
	bot, err := c.getBot(ctx)
	return bot, connectionError(err)
}

func (s Session) options() Options {
	return Options{Homeserver: s.Homeserver, Token: func() (string, error) { return s.Token, nil }}
}

// Logout makes the token one that is not known any more.
func (s Session) Logout(ctx context.Context) error {
	c, err := newClient(s.options())
	if err != nil {
		return err
	}
	defer c.http.CloseIdleConnections()
	return connectionError(c.call(ctx, request{op: "log out", method: http.MethodPost, path: []string{"logout"}, body: struct{}{}}, nil, callTimeout))
}
