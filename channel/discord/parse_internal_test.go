package discord

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func FuzzWithoutMention(f *testing.F) {
	for _, text := range []string{"", "<@1> hi", "<@!1>: <@&2>, <@1>", "a <@1> b", "<@<@1>1>", "\u3000<@1>\n\n!stop",
		"<@17> <@1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := stripMention(text, account{ID: "1", Username: "bot"}, "2")
		for _, mark := range []string{"<@1>", "<@!1>", "<@&2>"} {
			if strings.Contains(got, mark) {
				t.Errorf("%q is shown as %q", text, got)
			}
		}
		if !strings.Contains(text, "<@") && got != text {
			t.Errorf("%q has no mention, and is shown as %q", text, got)
		}
		if utf16Units(truncate(text, 10)) > 10 {
			t.Errorf("%q is truncated to %q", text, truncate(text, 10))
		}
	})
}

func FuzzPosition(f *testing.F) {
	for _, at := range []string{"", "{", "{}", `{"at":"17"}`,
		`{"at":"1574043005151608832","from":"1574043005151608831","private":["1","2"]}`, `{"at":"-1"}`} {
		f.Add(at)
	}
	f.Fuzz(func(t *testing.T, at string) {
		r, err := parsePosition(at, 1<<60)
		if err != nil {
			return
		}
		if r.since > r.newest || r.saved != r.newest {
			t.Errorf("%q is read as %+v", at, r)
		}
		r.touchPrivate("99")
		if r.private[0] != "99" || len(r.private) > maxPrivate {
			t.Errorf("%q is read as %+v", at, r)
		}
		for _, awaiting := range []bool{false, true} {
			again, err := parsePosition(r.position(awaiting), 0)
			if err != nil || again.newest != r.newest || again.since != r.since || !slices.Equal(again.private, r.private) {
				t.Errorf("%q is read as %+v, then saved and read as %+v, %v", at, r, again, err)
			}
		}
	})
}

func TestRateLimitAppliesToARoute(t *testing.T) {
	for path, want := range map[string]string{
		"/channels/1/messages/2": "PATCH channels/1/messages/*", "/channels/3/messages?limit=1": "PATCH channels/3/messages",
		"/users/@me": "PATCH users/@me", "/": "PATCH ",
	} {
		if got := routeOf("PATCH", path); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	var l rateLimits
	now := time.Now()
	for i := range 3 * maxRoutes {
		l.block(routeOf("GET", "/channels/"+strings.Repeat("1", 1+i%19)+"/"+strings.Repeat("x", i)),
			now.Add(time.Duration(i)*time.Second), now.Add(time.Duration(i)*time.Second))
	}
	if n := len(l.routes); n > maxRoutes+1 {
		t.Errorf("%d routes recorded", n)
	}
}

func TestTheUserAgentHasTheDocumentedForm(t *testing.T) {
	form := regexp.MustCompile(`^DiscordBot \(https?://[^ ,()]+, [0-9]+\.[0-9]+\.[0-9]+[^ ,()]*\)$`)
	for _, about := range []string{"", "https://example.org/our-bot"} {
		if got := userAgent(about); !form.MatchString(got) || !strings.Contains(got, about) {
			t.Errorf("User-Agent with %q: %q", about, got)
		}
	}
	for _, bad := range []string{"example.org", "ftp://example.org", "https://me:pw@example.org",
		"https://example.org/a,b", "https://example.org/(x)", "https://example.org/a b"} {
		if checkAbout(bad) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestIdentifyPauseIsAsDocumented(t *testing.T) {
	for random, want := range map[float64]time.Duration{0: time.Second, 0.5: 3 * time.Second, 1: 5 * time.Second} {
		if got := identifyPause(random); got != want {
			t.Errorf("%v: %s, want %s", random, got, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		m := newSharedState()
		began := time.Now()
		if err := m.awaitIdentify(t.Context()); err != nil || time.Since(began) != 0 {
			t.Errorf("the first session waited %s, %v", time.Since(began), err)
		}
		m.invalidate(time.Now())
		if err := m.awaitIdentify(t.Context()); err != nil || time.Since(began) < time.Second ||
			time.Since(began) > 5*time.Second {
			t.Errorf("the next session waited %s, %v", time.Since(began), err)
		}
		m.invalidate(time.Now())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := m.awaitIdentify(ctx); err == nil {
			t.Error("no error after the context was cancelled")
		}
	})
}
