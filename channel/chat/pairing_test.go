package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom"
)

// requestFor makes a request with a code derived from the user and the event.
func requestFor(user, event string) PairingRequest {
	salt := []byte(event)
	return PairingRequest{User: user, Event: event, Salt: salt, Sum: codeSum(salt, codeOf(user, event))}
}

func codeOf(user, event string) string { return strings.ToUpper((user + event + "XXXXXXXX")[:8]) }

func TestACodeHasEightUnambiguousCharacters(t *testing.T) {
	if n := len(codeLetters); n != 32 || strings.ContainsAny(codeLetters, "0O1Il") {
		t.Errorf("%d letters: %s", n, codeLetters)
	}
	for b := range 256 {
		code := newPairingCode(bytes.Repeat([]byte{byte(b)}, codeLength))
		shown := FormatPairingCode(code)
		for _, typed := range []string{code, shown, strings.ToLower(shown), " " + code[:2] + " " + code[2:] + "\n"} {
			if normalizeCode(typed) != code {
				t.Errorf("%q is read as %q, want %q", typed, normalizeCode(typed), code)
			}
		}
	}
}

func TestARequestGetsACodeWithinTheLimits(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	type step struct {
		after time.Duration // since the start
		user  string
		event string
		sent  bool
	}
	for name, steps := range map[string][]step{
		"the same event again has another code": {{0, "a", "1", true}, {time.Second, "a", "1", true}},
		"ten minutes between two codes": {{0, "a", "1", true}, {pairingRequestInterval - 1, "a", "2", false},
			{pairingRequestInterval, "a", "3", true}, {pairingRequestInterval + 1, "a", "4", false}},
		"three at once": {{0, "a", "1", true}, {0, "b", "2", true}, {0, "c", "3", true}, {0, "d", "4", false},
			{pairingCodeLifetime - 1, "d", "5", false}, {pairingCodeLifetime, "d", "6", true}},
		"a repeated request keeps its slot": {{0, "a", "1", true}, {0, "b", "2", true}, {0, "c", "3", true},
			{pairingRequestInterval, "b", "4", true}, {pairingRequestInterval, "d", "5", false}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Pairings{}
			for _, s := range steps {
				r := requestFor(s.user, s.event)
				if sent := p.AddRequest(r, "bot", start.Add(s.after)); sent != s.sent {
					t.Errorf("%s after %s: sent %v, want %v", s.user, s.after, sent, s.sent)
				}
				p.RecordSent(s.user, r.Salt, true, start.Add(s.after))
			}
			if len(p.Requests) > maxPairingRequests {
				t.Errorf("%d open requests", len(p.Requests))
			}
		})
	}
}

func TestACodeThatWasNotSentCanBeAskedForAgain(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	ask := func(p *Pairings, event string, after time.Duration) bool {
		return p.AddRequest(requestFor("a", event), "bot", start.Add(after))
	}
	p := &Pairings{}
	if !ask(p, "1", 0) || ask(p, "2", PairingSendTimeout-1) || !ask(p, "3", PairingSendTimeout) {
		t.Error("a code that is being sent must be replaced after the timeout and not before")
	}
	p.RecordSent("a", p.Requests[0].Salt, false, start.Add(PairingSendTimeout+time.Second))
	if !ask(p, "4", PairingSendTimeout+time.Second) {
		t.Error("a code that could not be sent was not replaced")
	}
	p.RecordSent("a", p.Requests[0].Salt, true, start.Add(PairingSendTimeout+2*time.Second))
	if ask(p, "5", time.Minute) || p.RecordSent("a", []byte("another"), false, start) {
		t.Error("a sent code was replaced")
	}
}

func TestACodeIsGoodOnceAndForAnHour(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	p := &Pairings{}
	p.AddRequest(requestFor("a", "1"), "bot", now)
	p.AddRequest(requestFor("a", "2"), "bot", now.Add(pairingRequestInterval))
	if _, err := p.approve(codeOf("a", "1"), false, "ann",
		now.Add(pairingRequestInterval)); mailroom.CodeOf(err) != mailroom.CodeNotFound {
		t.Errorf("approve a replaced code: %v", err)
	}
	if _, err := p.approve(codeOf("a", "2"), true, "ann",
		now.Add(pairingRequestInterval+pairingCodeLifetime-1)); err != nil {
		t.Errorf("approve a valid code: %v", err)
	}
	if one := p.findUser("a"); one == nil || !one.Admin || one.By != "ann" || p.Bad != 0 {
		t.Errorf("paired: %+v, %d wrong codes", one, p.Bad)
	}
	if _, err := p.approve(codeOf("a", "2"), true, "ann",
		now.Add(pairingRequestInterval+pairingCodeLifetime-1)); mailroom.CodeOf(err) != mailroom.CodeNotFound {
		t.Errorf("approve the same code again: %v", err)
	}
	p.AddRequest(requestFor("b", "3"), "bot", now.Add(2*time.Hour))
	if _, err := p.approve(codeOf("b", "3"), false, "ann",
		now.Add(3*time.Hour)); mailroom.CodeOf(err) != mailroom.CodeNotFound {
		t.Errorf("approve an expired code: %v", err)
	}
	if !p.revoke("a") || p.revoke("a") || p.findUser("a") != nil {
		t.Error("a revoked user is still paired or was revoked twice")
	}
}

func TestFiveWrongCodesLockThePairing(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	p := &Pairings{}
	p.AddRequest(requestFor("a", "1"), "bot", now)
	for i := range maxBadPairingCodes {
		if _, err := p.approve(fmt.Sprint("WRONG", i), false, "x", now); mailroom.CodeOf(err) != mailroom.CodeNotFound {
			t.Errorf("attempt %d: %v", i, err)
		}
	}
	late := now.Add(pairingLockout - 1)
	_, err := p.approve(codeOf("a", "1"), false, "x", late)
	if e := err.(*mailroom.Error); e.Code != mailroom.CodeRateLimited || e.RetryAfter != 1 {
		t.Errorf("approve the right code during the lockout: %v", err)
	}
	if p.AddRequest(requestFor("b", "2"), "bot", late) {
		t.Error("a code was made during the lockout")
	}
	if !p.AddRequest(requestFor("b", "2"), "bot", now.Add(pairingLockout)) {
		t.Error("no code was made after the lockout")
	}
	if _, err := p.approve(codeOf("b", "2"), false, "x", now.Add(pairingLockout)); err != nil {
		t.Errorf("approve after the lockout: %v", err)
	}
}

func TestOnlyTheHashOfACodeIsStored(t *testing.T) {
	p := &Pairings{}
	p.AddRequest(requestFor("a", "1"), "bot", time.Now())
	raw, err := json.Marshal(p)
	if err != nil || bytes.Contains(raw, []byte(codeOf("a", "1"))) {
		t.Errorf("%s, %v", raw, err)
	}
	back, err := decodePairings(raw)
	if err != nil || back.findRequest(codeOf("a", "1")) != 0 {
		t.Errorf("read back: %+v, %v", back, err)
	}
}

func TestEachUserHasTheTierOfPolicyAndPairing(t *testing.T) {
	private, group, other := Room{Chat: "p"}, Room{Chat: "g", Group: true}, Room{Chat: "o", Group: true}
	let := &Pairings{Paired: []pairedUser{{User: "paired"}, {User: "paired admin", Admin: true},
		{User: "user", Admin: true}}}
	talk := AccessPolicy{Admins: []string{"admin"}, Users: []string{"user", "admin"}, Chats: []string{"g"}}
	for _, tc := range []struct {
		user string
		room Room
		want Tier
	}{
		{"admin", private, TierAdmin}, {"admin", other, TierAdmin}, {"user", private, TierAdmin},
		{"paired", other, TierGuest}, {"paired admin", group, TierAdmin},
		{"unknown", private, TierStranger}, {"unknown", group, TierGuest}, {"unknown", other, TierStranger},
		{"", group, TierStranger}, {"", private, TierStranger},
		{"Admin", private, TierStranger}, {"admin ", private, TierStranger}, {"p", private, TierStranger},
	} {
		if got := let.Tier(&talk, "bot", tc.user, tc.room); got != tc.want {
			t.Errorf("%q in %+v is %s, want %s", tc.user, tc.room, got, tc.want)
		}
	}
	if got := (&Pairings{}).Tier(&AccessPolicy{}, "bot", "admin", private); got != TierStranger {
		t.Errorf("the zero policy gives tier %s", got)
	}
}

// TestPairingsBelongToAnAccount has users that were paired with one bot, and then another bot under the channel's name.
// Those of an older version belong to the first account that connects.
func TestPairingsBelongToAnAccount(t *testing.T) {
	policy, private := &AccessPolicy{}, Room{Chat: "p"}
	paired := func(account string) *Pairings {
		return &Pairings{Account: account, Paired: []pairedUser{{User: "a"}, {User: "b", Admin: true}},
			Requests: []PairingRequest{requestFor("c", "1")}}
	}
	for name, tc := range map[string]struct {
		was     string
		changed bool
		ended   int
	}{"the same account": {"bot", false, 0}, "an older version": {"", true, 0}, "another account": {"other", true, 2}} {
		p := paired(tc.was)
		before := p.Tier(policy, "bot", "b", private)
		changed, ended := p.Bind("bot")
		if changed != tc.changed || ended != tc.ended || p.Account != "bot" || len(p.Paired) != 2-tc.ended ||
			len(p.Requests) == 0 != (tc.ended > 0) {
			t.Errorf("%s: changed %v, %d ended: %+v", name, changed, ended, p)
		}
		want := TierAdmin
		if tc.ended > 0 {
			want = TierStranger
		}
		if after := p.Tier(policy, "bot", "b", private); before != want || after != want {
			t.Errorf("%s: the user is %s, then %s, want %s", name, before, after, want)
		}
	}
	p := paired("other")
	if p.AddRequest(requestFor("d", "2"), "bot", time.Now()); len(p.Paired) != 0 || len(p.Requests) != 1 ||
		p.Account != "bot" {
		t.Errorf("with a request at another account: %+v", p)
	}
	p = &Pairings{}
	if p.AddRequest(requestFor("a", "1"), "bot", time.Now()); p.Account != "bot" {
		t.Errorf("the first request belongs to account %q", p.Account)
	}
	if changed, _ := (&Pairings{}).Bind("bot"); changed {
		t.Error("an empty state was written")
	}
}

// TestAnUnpairedUserIsBarred: from the private chat in which the code was given, unless a policy lets the user in, the
// user is paired again, or the channel has another account.
func TestAnUnpairedUserIsBarred(t *testing.T) {
	now, private := time.Now(), Room{Chat: "p"}
	request := requestFor("a", "1")
	request.Room = private
	p := &Pairings{}
	p.AddRequest(request, "bot", now)
	approve := func() {
		if _, err := p.approve(codeOf("a", "1"), false, "ann", now); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, policy AccessPolicy, room Room, want bool) {
		t.Helper()
		if got := p.Barred(&policy, "bot", room); got != want {
			t.Errorf("%s: barred %v, want %v", what, got, want)
		}
	}
	approve()
	want("paired", AccessPolicy{}, private, false)
	p.revoke("a")
	want("unpaired", AccessPolicy{}, private, true)
	want("another chat", AccessPolicy{}, Room{Chat: "q"}, false)
	want("a group of this id", AccessPolicy{}, Room{Chat: "p", Group: true}, false)
	want("a user of the configuration", AccessPolicy{Users: []string{"a"}}, private, false)
	p.AddRequest(request, "bot", now)
	approve()
	want("paired again", AccessPolicy{}, private, false)
	p.revoke("a")
	p.Bind("other")
	want("another account", AccessPolicy{}, private, false)
	p = &Pairings{Paired: []pairedUser{{User: "b"}}}
	p.revoke("b")
	want("of an older version", AccessPolicy{}, private, false)
}
