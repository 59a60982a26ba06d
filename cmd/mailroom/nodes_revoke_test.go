package main

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"mailroom/api"
	"mailroom/auth"
	"mailroom/channel/platformtest"
	"mailroom/client"
)

// TestNoServerAdmitsATokenOnceItsRevocationIsAnswered revokes tokens at one server while another one works, and while
// another one is frozen and goes on with the rows that it had.
func TestNoServerAdmitsATokenOnceItsRevocationIsAnswered(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "")
	h.configure("[agents.echo]\nkind = \"echo\"\n")
	c := newNodes(h, 2)
	for _, n := range c.all {
		n.serve()
	}
	first, second := c.all[0], c.all[1]
	create := func(name string) (secrets []string) {
		made, err := first.client().Accounts().CreateToken(t.Context(),
			api.NewToken{Name: name, Scopes: []auth.Permission{auth.PermissionRead, auth.PermissionSubmit}})
		if err != nil {
			t.Fatal(err)
		}
		own := first.as(made.Secret)
		limited, err := own.Accounts().CreateLimitedToken(t.Context(),
			api.NewLimitedToken{Scopes: []auth.Permission{auth.PermissionRead, auth.PermissionSubmit},
				ExpiresAt: time.Now().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		return []string{made.Secret, limited.Secret}
	}
	submit := func(at *fixture, secret string) (status int) {
		url, err := at.dir.Address()
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url.URL+"/v1/messages",
			strings.NewReader(`{"text":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+secret)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close() // only its status counts
		return resp.StatusCode
	}
	for i, frozen := range []bool{false, true, false} {
		secrets := create(fmt.Sprint("ann", i))
		for _, secret := range secrets {
			platformtest.WaitFor(t, "the other server to know the token", func() bool {
				return submit(second, secret) == http.StatusAccepted
			})
		}
		if frozen {
			sendSignal(t, second, syscall.SIGSTOP)
		}
		if err := first.client().Accounts().RevokeToken(t.Context(), fmt.Sprint("ann", i)); err != nil {
			t.Fatal(err)
		}
		if frozen {
			sendSignal(t, second, syscall.SIGCONT)
		}
		for range 20 {
			for _, secret := range secrets {
				if got := submit(second, secret); got != http.StatusUnauthorized {
					t.Errorf("frozen %t: after the revocation was answered: status %d, want 401", frozen, got)
				}
			}
		}
	}
}

// as returns a client of the server with another token.
func (h *fixture) as(secret string) *client.Client {
	h.t.Helper()
	at, err := h.dir.Address()
	if err != nil {
		h.t.Fatal(err)
	}
	return client.New(at.URL, secret)
}
