package slack

import (
	"net/url"
	"strings"
	"testing"

	"mailroom/channel/markdown"
	"mailroom/channel/platformtest"
	"mailroom/channel/slack/slacktest"
	"mailroom/internal/setting"
)

func TestRenderMarkdown(t *testing.T) {
	for text, want := range map[string]string{
		"plain":                               "plain",
		"a < b && c > d":                      "a &lt; b &amp;&amp; c &gt; d",
		"**bold** and __bold__":               "*bold* and *bold*",
		"*it* and _it_":                       "_it_ and _it_",
		"***both***":                          "*_both_*",
		"**bold with *it* in it**":            "*bold with _it_ in it*",
		"~~gone~~ ~not~":                      "~gone~ ~not~",
		"2 * 3 * 4, a*b*c":                    "2 * 3 * 4, a_b_c",
		"snake_case_name and a__b__c":         "snake_case_name and a__b__c",
		"`code *x* <y>` ``a`b``":              "`code *x* &lt;y&gt;` `a`b`",
		"# Head **of** it #":                  "*Head of it*",
		"### Three":                           "*Three*",
		"- one\n* two\n  + three\n1. four":    "• one\n• two\n  • three\n1. four",
		"> said\n> **so**":                    ">said\n>*so*",
		"---":                                 "———",
		"[a page](https://x.org/a_(b)?c=1&d)": "<https://x.org/a_(b)?c=1&amp;d|a page>",
		"![a **cat**](https://x.org/c.png)":   "<https://x.org/c.png|a cat>",
		"[not](javascript:x) [x]":             "[not](javascript:x) [x]",
		"<https://x.org>":                     "<https://x.org>",
		"https://x.org/a_b_c*d*":              "https://x.org/a_b_c*d*",
		"\\*as it is\\*":                      "*as it is*",
		"```go\nif a < b {\n\t*p\n}\n```\nx":  "```\nif a &lt; b {\n\t*p\n}\n```\nx",
		"~~~\na ```\n~~~":                     "```\na ```\n```",
		"```\nnot closed":                     "```\nnot closed\n```",
		"|a|b|\n|-|-|\n|**1**|<|":             "```\n|a|b|\n|-|-|\n|**1**|&lt;|\n```",
		"| no table |":                        "| no table |",
		"<!channel> <@U1>":                    "&lt;!channel&gt; &lt;@U1&gt;",
		"**open":                              "**open",
		"**":                                  "",
		"```\n```":                            "",
		"été *là*":                            "été _là_",
	} {
		if got := render(text); got != want {
			t.Errorf("%q is\n%q, want\n%q", text, got, want)
		}
	}
}

func TestAFencedTextHasNoMarkup(t *testing.T) {
	for _, text := range platformtest.HostileTexts() {
		fenced := markdown.Fence(text)
		if got, want := render(fenced), escape(fenced); got != want {
			t.Errorf("%q is\n%q, want\n%q", text, got, want)
		}
	}
}

func TestDecodeText(t *testing.T) {
	names := func(user string) string { return map[string]string{"U1": "Ann"}[user] }
	for text, want := range map[string]string{
		"<@U1> <@U1|ann>":                        "@Ann @Ann",
		"<#C1|dev> <#C1>":                        "#dev #C1",
		"<!here> <!channel> <!subteam^S1|@team>": "@here @channel @team",
		"<!date^1^{date}|today>":                 "today",
		"<https://x.org|x.org> <https://x.org>":  "[x.org](https://x.org) https://x.org",
		"<mailto:a@x.org|a@x.org>":               "a@x.org",
		"1 &lt; 2 &amp;&amp; 3 &gt; 2, &amp;lt;": "1 < 2 && 3 > 2, &lt;",
		"<>":                                     "<>",
	} {
		if got := decodeText(text, names); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

func FuzzRender(f *testing.F) {
	for _, s := range []string{"**a** _b_ ~~c~~", "```go\nx\n```", "[a](https://x.org)", "|a|\n|-|\n", "\\", "`", "> *",
		"<@U1>", "# **", "http://", "***a**"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if escapedUnits(s) > MaxMessage {
			return // over the limit of a message
		}
		text := render(s)
		if strings.Contains(text, "\x00") && !strings.Contains(s, "\x00") {
			t.Errorf("%q has a NUL that %q has not", text, s)
		}
		if _, problem := slacktest.PlainText(text); strings.Contains(problem, "notifies") {
			t.Errorf("%q: %s", text, problem)
		}
	})
}

func TestTokenIsSentToSlackHostsOnly(t *testing.T) {
	for _, c := range []struct {
		api, to string
		want    bool
	}{
		{DefaultAPI, "https://files.slack.com/a", true},
		{DefaultAPI, "https://slack.com/a", true},
		{DefaultAPI, "https://FILES.SLACK-GOV.COM/a", true},
		{DefaultAPI, "http://files.slack.com/a", false},
		{DefaultAPI, "https://slack.com.example.org/a", false},
		{DefaultAPI, "https://notslack.com/a", false},
		{DefaultAPI, "https://slack.com@example.org/a", false},
		{DefaultAPI, "https://me@slack.com/a", false},
		{"https://proxy.example.org:8443/api", "https://proxy.example.org:8443/a", true},
		{"https://proxy.example.org:8443/api", "https://proxy.example.org/a", false},
		{"http://127.0.0.1:9/api", "http://127.0.0.1:9/a", true},
		{"http://127.0.0.1:9/api", "https://127.0.0.1:9/a", false},
		{"http://127.0.0.1:9/api", "http://127.0.0.1:8/a", false},
	} {
		base, err := setting.ParseBaseURL(c.api, DefaultAPI)
		if err != nil {
			t.Fatal(err)
		}
		to, err := url.Parse(c.to)
		if err != nil {
			t.Fatal(err)
		}
		if got := (&client{base: base}).isTrusted(to, "https", "http"); got != c.want {
			t.Errorf("with the API at %s, %s is trusted: %t", c.api, c.to, got)
		}
	}
}

func FuzzEvents(f *testing.F) {
	for _, s := range []string{
		`{"event":{"type":"message","channel":"C1","user":"U1","text":"<@U0> hi","ts":"1.000001","thread_ts":"1.000000"}}`,
		`{"event":{"type":"message","subtype":"message_changed","channel":"D1","message":{"user":"U1","text":"a","ts":"1.000001"}}}`,
		`{"event":{"type":"message","subtype":"message_deleted","channel":"D1","deleted_ts":"1.000001","previous_message":{}}}`,
		`{"type":"block_actions","container":{"channel_id":"C1","message_ts":"1.000001"},"actions":[{"type":"button","value":"v"}]}`,
		`{"event":{"type":"message","attachments":[{"is_share":true,"text":"x"}],"files":[{}]}}`,
		`{"C1":"1.000001","C1:1.000000":"2.000000"}`, `{"type":"app_rate_limited"}`, `[]`, `{"event":null}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c := &connection{bot: account{ID: "U0"}}
		if m, ok, err := parseEvent(raw); ok && err == nil {
			if e, ok := c.toEvent(m); ok && (e.Key == "" || e.Room.Chat == "" || e.Kind == "") {
				t.Errorf("an event without a key, room or kind: %+v", e)
			}
		}
		if e, ok, err := parseButtonPress(raw); ok && err == nil && e.TargetID == "" {
			t.Errorf("a press without a message: %+v", e)
		}
		if p := parseCursors(string(raw)); p != nil {
			in := &receiver{cursors: p}
			in.backfill.init()
			for at, _, ok := in.nextGap(); ok; at, _, ok = in.nextGap() {
				p.remove(at)
			}
		}
	})
}
