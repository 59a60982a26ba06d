package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/auth"
)

// fakeAccounts are the accounts that a tokenCache reads.
type fakeAccounts struct {
	Accounts

	mu     sync.Mutex // guards the fields below
	list   []*auth.Token
	reads  int
	writes []map[string]time.Time
	fails  bool
}

// set changes the next result of Tokens.
func (r *fakeAccounts) set(list []*auth.Token, fails bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list, r.fails = list, fails
}

func (r *fakeAccounts) Tokens(context.Context) ([]*auth.Token, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads++
	if r.fails {
		return nil, errors.New("the disk is gone")
	}
	return r.list, nil
}

func (r *fakeAccounts) RecordTokenUse(_ context.Context, used map[string]time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes = append(r.writes, maps.Clone(used))
	return nil
}

func tokenRow(name, secret string, scopes ...auth.Permission) *auth.Token {
	hash := sha256.Sum256([]byte(secret))
	return &auth.Token{Key: 1, Name: name, Sum: hex.EncodeToString(hash[:]), Scopes: scopes}
}

func (r *fakeAccounts) newCache(t *testing.T) *tokenCache {
	t.Helper()
	k := newTokenCache(r, "the operator's", slog.New(slog.DiscardHandler))
	if err := k.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return k
}

func TestAnUnknownSecretReadsNoRows(t *testing.T) {
	r := &fakeAccounts{list: []*auth.Token{tokenRow("ann", "hers", auth.PermissionRead)}}
	k := r.newCache(t)
	for _, secret := range []string{"", "wrong", "hers ", "the operator's ", r.list[0].Sum} {
		if g := k.lookup(secret); g != nil {
			t.Errorf("secret %q belongs to %q", secret, g.token.Name)
		}
	}
	for secret, want := range map[string]string{"hers": "ann", "the operator's": auth.Operator} {
		if g := k.lookup(secret); g == nil || g.token.Name != want {
			t.Errorf("%q is not %s's", secret, want)
		}
	}
	if r.reads != 1 {
		t.Errorf("the rows were read %d times, want once", r.reads)
	}
	if none := newTokenCache(r, "", k.log); none.lookup("") != nil {
		t.Error("the empty secret is valid without an operator's secret")
	}
}

func TestAGrantEndsWhenItsTokenIsRevokedOrChanged(t *testing.T) {
	for name, change := range map[string]struct {
		to   func(t *auth.Token) *auth.Token
		ends bool
		good bool
	}{
		"nothing":   {func(t *auth.Token) *auth.Token { return t }, false, true},
		"used":      {func(t *auth.Token) *auth.Token { t.UsedAt = time.Now(); return t }, false, true},
		"revoked":   {func(t *auth.Token) *auth.Token { t.RevokedAt = time.Now(); return t }, true, false},
		"gone":      {func(*auth.Token) *auth.Token { return tokenRow("bob", "his") }, true, false},
		"scopes":    {func(t *auth.Token) *auth.Token { t.Scopes = nil; return t }, true, true},
		"namespace": {func(t *auth.Token) *auth.Token { t.Namespace = "x"; return t }, true, true},
		"agents":    {func(t *auth.Token) *auth.Token { t.Agents = []string{"x"}; return t }, true, true},
		"name":      {func(t *auth.Token) *auth.Token { t.Name = "x"; return t }, true, true},
	} {
		r := &fakeAccounts{list: []*auth.Token{tokenRow("ann", "hers", auth.PermissionRead)}}
		k := r.newCache(t)
		g := k.lookup("hers")
		changed := *r.list[0]
		r.list = []*auth.Token{change.to(&changed)}
		if err := k.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if ended := g.ctx.Err() != nil; ended != change.ends ||
			ended && mailroom.CodeOf(context.Cause(g.ctx)) != mailroom.CodeUnauthenticated {
			t.Errorf("%s: the grant has ended: %t (%v), want %t", name, ended, context.Cause(g.ctx), change.ends)
		}
		if good := k.lookup("hers") != nil; good != change.good {
			t.Errorf("%s: the secret is valid: %t, want %t", name, good, change.good)
		}
	}
}

func TestTokensAreRefreshedAndKeptAfterAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &fakeAccounts{list: []*auth.Token{tokenRow("ann", "hers", auth.PermissionRead)}}
		k := r.newCache(t)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			k.run(ctx)
		}()
		g := k.lookup("hers")
		r.set(nil, true)
		<-time.After(10 * refreshInterval)
		synctest.Wait()
		if k.lookup("hers") != g {
			t.Error("a failed refresh invalidated a token")
		}
		r.set(nil, false)
		<-time.After(refreshInterval)
		synctest.Wait()
		if g.ctx.Err() == nil || k.lookup("hers") != nil {
			t.Error("a removed token is valid after a refresh")
		}
		stop()
		<-ended
	})
}

// TestAGrantEndsWhenItsTokenExpires has a token with an end, and a session of it with a later one, while the rows can
// be read and while they cannot.
func TestAGrantEndsWhenItsTokenExpires(t *testing.T) {
	for _, fails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			end := time.Now().Add(time.Hour)
			ann, session := tokenRow("ann", "hers", auth.PermissionRead), tokenRow("ann~1", "session")
			ann.Terms.ExpiresAt = end
			session.Key, session.Terms = 2, auth.Terms{Kind: auth.KindSession, For: "ann", Source: ann.ID(),
				ExpiresAt: end.Add(24 * time.Hour)}
			r := &fakeAccounts{list: []*auth.Token{ann, session}}
			k := r.newCache(t)
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				k.run(ctx)
			}()
			r.set(r.list, fails)
			for _, secret := range []string{"hers", "session"} {
				g := k.lookup(secret)
				if g == nil {
					t.Fatalf("no grant of %q", secret)
				}
				<-time.After(time.Until(end) - time.Second)
				if g.ctx.Err() != nil {
					t.Errorf("%s, reads fail %t: ended before its end", secret, fails)
				}
				defer func() {
					if g.ctx.Err() == nil {
						t.Errorf("%s, reads fail %t: open streams go on after its end", secret, fails)
					}
				}()
			}
			<-time.After(time.Second + 2*refreshInterval)
			synctest.Wait()
			stop()
			<-ended
		})
	}
}

func TestAUseIsWrittenOncePerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &fakeAccounts{list: []*auth.Token{tokenRow("ann", "hers", auth.PermissionRead),
			tokenRow("bob", "his", auth.PermissionRead)}}
		k := r.newCache(t)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			k.run(ctx)
		}()
		start := time.Now().Truncate(time.Minute)
		for range 3*60*2 - 1 { // three minutes, less half a second
			k.lookup("hers")
			<-time.After(500 * time.Millisecond)
			synctest.Wait()
		}
		stop()
		<-ended
		if len(r.writes) != 3 {
			t.Fatalf("%d writes in three minutes, want 3: %v", len(r.writes), r.writes)
		}
		for i, used := range r.writes {
			if at := used[r.list[0].Sum]; len(used) != 1 || !at.Equal(start.Add(time.Duration(i)*time.Minute)) {
				t.Errorf("write %d: %v, want ann's at %s", i, used, start.Add(time.Duration(i)*time.Minute))
			}
		}
	})
}
