package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"mailroom"
)

// requestFor makes a request with a code derived from the user and the event.
func requestFor(user, event string) pairRequest {
	salt := []byte(event)
	return pairRequest{User: user, Event: event, Salt: salt, Sum: codeSum(salt, codeOf(user, event))}
}

func codeOf(user, event string) string { return strings.ToUpper((user + event + "XXXXXXXX")[:8]) }

func TestACodeHasEightUnambiguousCharacters(t *testing.T) {
	if n := len(codeLetters); n != 32 || strings.ContainsAny(codeLetters, "0O1Il") {
		t.Errorf("%d letters: %s", n, codeLetters)
	}
	for b := range 256 {
		code := newCode(bytes.Repeat([]byte{byte(b)}, codeLength))
		shown := formatCode(code)
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
		told  bool
	}
	for name, steps := range map[string][]step{
		"the same event again has another code": {{0, "a", "1", true}, {time.Second, "a", "1", true}},
		"ten minutes between two codes":         {{0, "a", "1", true}, {RequestInterval - 1, "a", "2", false}, {RequestInterval, "a", "3", true}, {RequestInterval + 1, "a", "4", false}},
		"three at once": {{0, "a", "1", true}, {0, "b", "2", true}, {0, "c", "3", true}, {0, "d", "4", false},
			{CodeLifetime - 1, "d", "5", false}, {CodeLifetime, "d", "6", true}},
		"one who asks again keeps the place": {{0, "a", "1", true}, {0, "b", "2", true}, {0, "c", "3", true}, {RequestInterval, "b", "4", true}, {RequestInterval, "d", "5", false}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &pairingState{}
			for _, s := range steps {
				r := requestFor(s.user, s.event)
				if told := p.addRequest(r, start.Add(s.after)); told != s.told {
					t.Errorf("%s after %s: told %v, want %v", s.user, s.after, told, s.told)
				}
				p.recordSent(s.user, r.Salt, true, start.Add(s.after))
			}
			if len(p.Requests) > MaxRequests {
				t.Errorf("%d requests are open", len(p.Requests))
			}
		})
	}
}

func TestACodeThatWasNotSentCanBeAskedForAgain(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	ask := func(p *pairingState, event string, after time.Duration) bool {
		return p.addRequest(requestFor("a", event), start.Add(after))
	}
	p := &pairingState{}
	if !ask(p, "1", 0) || ask(p, "2", backgroundTimeout-1) || !ask(p, "3", backgroundTimeout) {
		t.Error("a code that is being sent is replaced when that has taken too long, and not before")
	}
	p.recordSent("a", p.Requests[0].Salt, false, start.Add(backgroundTimeout+time.Second))
	if !ask(p, "4", backgroundTimeout+time.Second) {
		t.Error("a code that could not be sent is not replaced")
	}
	p.recordSent("a", p.Requests[0].Salt, true, start.Add(backgroundTimeout+2*time.Second))
	if ask(p, "5", time.Minute) || p.recordSent("a", []byte("another"), false, start) {
		t.Error("a code that was sent is replaced")
	}
}

func TestACodeIsGoodOnceAndForAnHour(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	p := &pairingState{}
	p.addRequest(requestFor("a", "1"), now)
	p.addRequest(requestFor("a", "2"), now.Add(RequestInterval))
	if _, err := p.approve(codeOf("a", "1"), false, "ann", now.Add(RequestInterval)); mailroom.CodeOf(err) != mailroom.CodeNotFound {
		t.Errorf("a code that was replaced: %v", err)
	}
	if _, err := p.approve(codeOf("a", "2"), true, "ann", now.Add(RequestInterval+CodeLifetime-1)); err != nil {
		t.Errorf("a good code: %v", err)
	}
	if one := p.findUser("a"); one == nil || one.tier() != TierAdmin || one.By != "ann" || p.Bad != 0 {
		t.Errorf("paired: %+v, %d wrong codes", one, p.Bad)
	}
	if _, err := p.approve(codeOf("a", "2"), true, "ann", now.Add(RequestInterval+CodeLifetime-1)); mailroom.CodeOf(err) != mailroom.CodeNotFound {
		t.Errorf("the same code again: %v", err)
	}
	p.addRequest(requestFor("b", "3"), now.Add(2*time.Hour))
	if _, err := p.approve(codeOf("b", "3"), false, "ann", now.Add(3*time.Hour)); mailroom.CodeOf(err) != mailroom.CodeNotFound {
		t.Errorf("a code after its hour: %v", err)
	}
	if !p.revoke("a") || p.revoke("a") || p.findUser("a") != nil {
		t.Error("a revoked user is still paired, or can be revoked twice")
	}
}

func TestFiveWrongCodesLockThePairing(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	p := &pairingState{}
	p.addRequest(requestFor("a", "1"), now)
	for i := range MaxBadCodes {
		if _, err := p.approve(fmt.Sprint("WRONG", i), false, "x", now); mailroom.CodeOf(err) != mailroom.CodeNotFound {
			t.Errorf("try %d: %v", i, err)
		}
	}
	late := now.Add(LockoutDuration - 1)
	_, err := p.approve(codeOf("a", "1"), false, "x", late)
	if e := err.(*mailroom.Error); e.Code != mailroom.CodeRateLimited || e.RetryAfter != 1 {
		t.Errorf("the right code while it is locked: %v", err)
	}
	if p.addRequest(requestFor("b", "2"), late) {
		t.Error("a code is given while it is locked")
	}
	if !p.addRequest(requestFor("b", "2"), now.Add(LockoutDuration)) {
		t.Error("no code is given after it was locked")
	}
	if _, err := p.approve(codeOf("b", "2"), false, "x", now.Add(LockoutDuration)); err != nil {
		t.Errorf("after it was locked: %v", err)
	}
}

func TestOnlyTheHashOfACodeIsStored(t *testing.T) {
	p := &pairingState{}
	p.addRequest(requestFor("a", "1"), time.Now())
	raw, err := json.Marshal(p)
	if err != nil || bytes.Contains(raw, []byte(codeOf("a", "1"))) {
		t.Errorf("%s, %v", raw, err)
	}
	back, err := decodePairing(raw)
	if err != nil || back.findRequest(codeOf("a", "1")) != 0 {
		t.Errorf("read back: %+v, %v", back, err)
	}
}

func TestTiers(t *testing.T) {
	private, group, other := Room{Chat: "p"}, Room{Chat: "g", Group: true}, Room{Chat: "o", Group: true}
	let := &pairingState{Paired: []pairedUser{{User: "paired"}, {User: "paired admin", Admin: true}, {User: "user", Admin: true}}}
	talk := AccessPolicy{Admins: []string{"admin"}, Users: []string{"user", "admin"}, Chats: []string{"g"}}
	for _, tc := range []struct {
		user string
		room Room
		want Tier
	}{
		{"admin", private, TierAdmin}, {"admin", other, TierAdmin}, {"user", private, TierAdmin}, {"paired", other, TierGuest}, {"paired admin", group, TierAdmin},
		{"unknown", private, TierStranger}, {"unknown", group, TierGuest}, {"unknown", other, TierStranger}, {"", group, TierStranger}, {"", private, TierStranger},
		{"Admin", private, TierStranger}, {"admin ", private, TierStranger}, {"p", private, TierStranger},
	} {
		if got := talk.tier(tc.user, tc.room, let); got != tc.want {
			t.Errorf("%q in %+v is %s, want %s", tc.user, tc.room, got, tc.want)
		}
	}
	if got := (&AccessPolicy{}).tier("admin", private, nil); got != TierStranger {
		t.Errorf("the zero policy gives tier %s", got)
	}
}

func FuzzNamesAreOneLine(f *testing.F) {
	f.Add("Ann\x1b[2J\nroot: let me in\u202e")
	f.Fuzz(func(t *testing.T, name string) {
		got := oneLine(name)
		if len([]rune(got)) > maxName+1 || strings.ContainsFunc(got, unicode.IsControl) ||
			strings.ContainsAny(got, "\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069") {
			t.Errorf("%q is shown as %q", name, got)
		}
	})
}
