package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/auth"
)

func hashOf(secret string) secretHash { return sha256.Sum256([]byte(secret)) }

// TestTokenRowsOlderThanASecondAdmitNoRequest has a server that shares the store and did not run for a time, as after
// SIGSTOP.
func TestTokenRowsOlderThanASecondAdmitNoRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &fakeAccounts{list: []*auth.Token{tokenRow("ann", "hers", auth.PermissionRead)}}
		k := r.newCache(t)
		k.shared = true
		find := func(secret string) (bool, mailroom.Code) {
			g, err := k.find(t.Context(), hashOf(secret))
			return g != nil, mailroom.CodeOf(err)
		}
		if ok, _ := find("hers"); !ok || r.reads != 1 {
			t.Errorf("fresh rows: valid %t, %d reads; want true and 1", ok, r.reads)
		}
		r.set(nil, false) // another server revokes it
		<-time.After(maxAge)
		if ok, code := find("hers"); ok || code != "" || r.reads != 2 {
			t.Errorf("after the bound: valid %t, code %q, %d reads; want false, none and 2", ok, code, r.reads)
		}
		r.set([]*auth.Token{tokenRow("ann", "hers", auth.PermissionRead)}, true)
		<-time.After(maxAge)
		for _, secret := range []string{"hers", "unknown"} {
			if ok, code := find(secret); ok || code != mailroom.CodeUnavailable {
				t.Errorf("the store does not answer: valid %t, code %q, want unavailable", ok, code)
			}
		}
		if ok, _ := find("the operator's"); !ok {
			t.Error("the operator's token, which has no row, is not valid while the store does not answer")
		}
		r.set(r.list, false)
		if ok, _ := find("hers"); !ok {
			t.Error("the token is not valid after the store answers again")
		}
	})
}

// TestTheAgeOfRowsCountsFromTheBeginOfTheirRead has a read that takes longer than the bound.
func TestTheAgeOfRowsCountsFromTheBeginOfTheirRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &slowAccounts{fakeAccounts: &fakeAccounts{list: []*auth.Token{tokenRow("ann", "hers", auth.PermissionRead)}}}
		k := newTokenCache(r, "", r.newCache(t).log)
		k.shared = true
		r.takes = 2 * maxAge
		if err := k.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if k.fresh(time.Now()) {
			t.Error("rows of a read that began before the bound admit requests")
		}
	})
}

type slowAccounts struct {
	*fakeAccounts
	takes time.Duration
}

func (s *slowAccounts) Tokens(ctx context.Context) ([]*auth.Token, error) {
	list, err := s.fakeAccounts.Tokens(ctx)
	<-time.After(s.takes)
	return list, err
}

// TestOneReadServesAllRequestsThatWaitForIt also bounds how long each of them waits.
func TestOneReadServesAllRequestsThatWaitForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &slowAccounts{fakeAccounts: &fakeAccounts{list: []*auth.Token{tokenRow("ann", "hers", auth.PermissionRead)}}}
		k := newTokenCache(r, "", r.newCache(t).log)
		r.reads, r.takes = 0, maxAge/2
		var wait sync.WaitGroup
		for range 50 {
			wait.Go(func() {
				if g, err := k.find(t.Context(), hashOf("hers")); g == nil || err != nil {
					t.Errorf("valid %t, %v", g != nil, err)
				}
			})
		}
		wait.Wait()
		if r.reads != 1 {
			t.Errorf("%d reads, want 1", r.reads)
		}
		k.changed()
		r.takes = time.Hour
		go k.refresh(t.Context())
		synctest.Wait()
		begin := time.Now()
		if _, err := k.find(t.Context(), hashOf("hers")); mailroom.CodeOf(err) != mailroom.CodeUnavailable ||
			time.Since(begin) != refreshTimeout {
			t.Errorf("while a read hangs: %v after %s, want unavailable after %s", err, time.Since(begin), refreshTimeout)
		}
		<-time.After(time.Hour)
	})
}

// TestAChangeOfTokensTakesEffectEvenIfReadingTheRowsFails has a server of its own store. The token was revoked here.
func TestAChangeOfTokensTakesEffectEvenIfReadingTheRowsFails(t *testing.T) {
	r := &fakeAccounts{list: []*auth.Token{tokenRow("ann", "hers", auth.PermissionRead)}}
	k := r.newCache(t)
	h := &tokenHandlers{cache: k, log: k.log}
	r.set(nil, true)
	if err := h.refreshTokens(t.Context()); err == nil {
		t.Fatal("the rows were read")
	}
	if g, err := k.find(t.Context(), hashOf("hers")); g != nil || mailroom.CodeOf(err) != mailroom.CodeUnavailable {
		t.Errorf("valid %t, %v; want unavailable", g != nil, err)
	}
	r.set(nil, false)
	if g, err := k.find(t.Context(), hashOf("hers")); g != nil || err != nil {
		t.Errorf("valid %t, %v; want neither", g != nil, err)
	}
}

// TestARevocationIsAnsweredOnceNoServerAdmitsTheToken has a server that shares its store, which waits for the other
// servers, and a server with a store of its own, which does not wait.
func TestARevocationIsAnsweredOnceNoServerAdmitsTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for shared, want := range map[bool]time.Duration{true: maxAge, false: 0} {
			k := (&fakeAccounts{}).newCache(t)
			k.shared = shared
			begin := time.Now()
			k.waitForOthers(t.Context())
			if got := time.Since(begin); got != want {
				t.Errorf("shared %t: waits %s, want %s", shared, got, want)
			}
		}
	})
}

func TestTheLastUseIsWrittenOnceAfterAnErrorAndAChangeOfRights(t *testing.T) {
	r := &failingUses{fakeAccounts: &fakeAccounts{list: []*auth.Token{tokenRow("ann", "hers", auth.PermissionRead)}}}
	k := newTokenCache(r, "", r.newCache(t).log)
	if err := k.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	k.lookup("hers")
	r.err = errors.New("the disk is gone")
	if err := k.flushUses(t.Context()); err == nil {
		t.Fatal("the uses were written")
	}
	r.set([]*auth.Token{tokenRow("ann", "hers", auth.PermissionRead, auth.PermissionSubmit)}, false)
	if err := k.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.err = nil
	for range 2 {
		if err := k.flushUses(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.writes) != 1 || len(r.writes[0]) != 1 {
		t.Errorf("written were %v, want one use, once", r.writes)
	}
}

type failingUses struct {
	*fakeAccounts
	err error
}

func (f *failingUses) RecordTokenUse(ctx context.Context, used map[string]time.Time) error {
	if f.err != nil {
		return f.err
	}
	return f.fakeAccounts.RecordTokenUse(ctx, used)
}

// signInAccounts fails to read rows after it has spent a link.
type signInAccounts struct{ *fakeAccounts }

func (s signInAccounts) SpendLink(_ context.Context, _ string, in auth.Token) (*auth.Token, error) {
	s.set(nil, true)
	in.Terms.Kind, in.Terms.For, in.Terms.Scopes = auth.KindSession, auth.Operator, []auth.Permission{auth.PermissionRead}
	return &in, nil
}

// TestASignInThatCannotReadTheRowsStillAnswersTheSession: the link is spent.
func TestASignInThatCannotReadTheRowsStillAnswersTheSession(t *testing.T) {
	r := &fakeAccounts{}
	k := r.newCache(t)
	h := &sessionHandlers{ledger: signInAccounts{r}, tokens: &tokenHandlers{cache: k, log: k.log}, cookie: "c"}
	out, err := h.signIn(context.WithValue(t.Context(), requestKey{},
		requestOf(httptest.NewRequest(http.MethodPost, "/", nil).Context())), &signInInput{})
	if err != nil {
		t.Fatal(err)
	}
	if out.Cookie.Value == "" || out.Body.Half == "" || out.Body.Token != auth.Operator || out.Body.Kind != "session" ||
		len(out.Body.Scopes) != 1 {
		t.Errorf("got the cookie %q and %+v", out.Cookie.Value, out.Body)
	}
}
