package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"mailroom/channel/httpcall"
	"mailroom/internal/setting"
)

// session is a logged-in account.
type session struct {
	Homeserver string // base URL
	Token      string
	Bot        account
}

// discover returns the homeserver's base URL for a server name such as example.org. A URL is
// returned unchanged (https://spec.matrix.org/v1.11/client-server-api/#well-known-uri).
func discover(ctx context.Context, name string) (string, error) {
	if strings.Contains(name, "://") {
		_, err := setting.ParseBaseURL(name, exampleHomeserver)
		return strings.TrimRight(name, "/"), err
	}
	base, err := setting.ParseBaseURL("https://"+name, exampleHomeserver)
	if err != nil {
		return "", err
	}
	return fetchWellKnown(ctx, base)
}

// fetchWellKnown reads the server's .well-known file. Without one, the server itself is the
// homeserver.
func fetchWellKnown(ctx context.Context, base *url.URL) (string, error) {
	c := newAnonymousClient(base)
	defer c.http.CloseIdleConnections()
	const op = "discover homeserver"
	a, err := c.http.Do(ctx, httpcall.Request{Op: op, URL: "/.well-known/matrix/client", Timeout: callTimeout})
	if err != nil {
		return "", httpcall.Unavailable(err)
	}
	if a.Status == http.StatusNotFound {
		return base.String(), nil
	}
	var body struct {
		Home struct {
			Base string `json:"base_url"`
		} `json:"m.homeserver"`
	}
	if a.TooLarge || a.Status != http.StatusOK || json.Unmarshal(a.Body, &body) != nil {
		return "",
			fmt.Errorf(
				"%s: %s has no valid .well-known file (%d %s); use the homeserver's URL, such as https://matrix.example.org", op,
				base.Host, a.Status, http.StatusText(a.Status))
	}
	found := strings.TrimRight(body.Home.Base, "/")
	if _, err := setting.ParseBaseURL(found, exampleHomeserver); err != nil {
		return "", fmt.Errorf("%s: invalid base_url %q: %w", op, found, err)
	}
	return found, nil
}

// logIn logs in with a password as a new device.
func logIn(ctx context.Context, homeserver, user, password string) (session, error) {
	base, err := setting.ParseBaseURL(homeserver, exampleHomeserver)
	if err != nil {
		return session{}, fmt.Errorf("homeserver: %w", err)
	}
	c := newAnonymousClient(base)
	defer c.http.CloseIdleConnections()
	var got struct {
		account
		Token string `json:"access_token"`
	}
	err = c.call(ctx, request{op: "log in", method: http.MethodPost, path: []string{"login"}, body: map[string]any{
		"type": "m.login.password", "identifier": map[string]any{"type": "m.id.user", "user": user},
		"password": password, "initial_device_display_name": "Mailroom",
	}}, &got, callTimeout)
	if e, ok := errors.AsType[*httpcall.Refusal](err); ok && e.Status == http.StatusForbidden {
		return session{}, fmt.Errorf("the homeserver rejected the login of %s (%d %s)", user, e.Status, e.Text)
	}
	if err == nil && got.Token == "" {
		err = &httpcall.TransportError{Op: "log in", Reason: "response contains no access token", MaybeSent: true}
	}
	if err != nil {
		return session{}, httpcall.Unavailable(err)
	}
	s := session{Homeserver: homeserver, Token: got.Token, Bot: got.account}
	if s.Bot, err = s.identify(ctx); err != nil {
		return session{}, errors.Join(err, s.logOut(ctx))
	}
	return s, nil
}

// identify returns the account that the token belongs to.
func (s session) identify(ctx context.Context) (account, error) {
	c, err := newClient(s.options())
	if err != nil {
		return account{}, err
	}
	defer c.http.CloseIdleConnections()
	bot, err := c.getBot(ctx)
	return bot, connectionError(err)
}

func (s session) options() Options {
	return Options{Homeserver: s.Homeserver, Token: func() (string, error) { return s.Token, nil }}
}

// logOut revokes the token.
func (s session) logOut(ctx context.Context) error {
	c, err := newClient(s.options())
	if err != nil {
		return err
	}
	defer c.http.CloseIdleConnections()
	return connectionError(c.call(ctx, request{op: "log out", method: http.MethodPost, path: []string{"logout"},
		body: struct{}{}}, nil, callTimeout))
}
