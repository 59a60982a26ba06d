package webhook_test

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/channeltest"
	"mailroom/channel/chat/outbound"
	"mailroom/channel/platformtest"
	"mailroom/channel/webhook"
	"mailroom/entry"
	"mailroom/internal/machinetest"
	"mailroom/internal/netguard"
	"mailroom/store"
)

// deadLetters counts the dead letters of the delivery thread of room r.
func (o *fixture) deadLetters() int {
	return o.countRuns(store.RunQuery{Thread: "out:ops:webhook:r", Statuses: []mailroom.Status{mailroom.StatusFailed}})
}

// TestReceiverResponsesDecideTheRetry fails the first request and accepts the following ones.
func TestReceiverResponsesDecideTheRetry(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault   platformtest.Fault
		tries   int // requests that reach the receiver
		dead    bool
		trouble string
	}{
		"yes": {platformtest.Fault{}, 1, false, ""},
		"an error of its own": {platformtest.Fault{Status: 500, Message: "oh " + platformtest.WebhookSecret + " or " +
			platformtest.WebhookKey}, 2, false, "the receiver answered 500 Internal Server Error: oh "},
		"a bad gateway":            {platformtest.Fault{Status: 502}, 2, false, "the receiver answered 502"},
		"not now":                  {platformtest.Fault{Status: 503}, 2, false, "the receiver answered 503"},
		"too many, without a time": {platformtest.Fault{Status: 429}, 2, false, "the receiver answered 429"},
		"too slow":                 {platformtest.Fault{Status: 408}, 2, false, "the receiver answered 408"},
		"a connection cut":         {platformtest.Fault{Lose: true}, 2, false, "EOF"},
		"no": {platformtest.Fault{Status: 400, Message: "no such\nroom"}, 2, false,
			"the receiver answered 400 Bad Request: no such room"},
		"401":      {platformtest.Fault{Status: 401}, 2, false, "the receiver answered 401"},
		"not here": {platformtest.Fault{Status: 404}, 2, false, "the receiver answered 404"},
		"over there": {platformtest.Fault{Status: 307, Header: "Location: /there"}, 2, false,
			"redirects are not followed"},
		"no, for long":       {platformtest.Fault{Status: 400}, 2, true, "the receiver answered 400"},
		"not here, for long": {platformtest.Fault{Status: 404}, 2, true, "the receiver answered 404"},
		"over there, for long": {platformtest.Fault{Status: 307, Header: "Location: /there"}, 2, true,
			"redirects are not followed"},
		"gone": {platformtest.Fault{Status: 410}, 1, true, "the recipient is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newFixture(t)
			o.Fail(c.fault)
			if c.dead && c.tries > 1 { // exceeds the retry period
				o.options.RetryRefusedFor = time.Nanosecond
				o.Fail(c.fault)
			}
			o.start()
			o.postMessage("1", "r", "one")
			o.WaitFor(t, "the request", func() bool { return len(o.Posts()) >= c.tries })
			if c.dead {
				o.WaitFor(t, "the dead letter", func() bool { return o.deadLetters() == 1 })
			} else {
				o.waitTexts("one")
			}
			posts := o.Posts()
			if len(posts) != c.tries || posts[len(posts)-1].ID != posts[0].ID || o.deadLetters() > 0 != c.dead {
				t.Errorf("received %+v", posts)
			}
			o.waitError(c.trouble)
			if s := o.runner.State(); c.trouble == "" && s.LastError != "" || s.Condition != channel.ConditionConnected {
				t.Errorf("the error is %q", s.LastError)
			}
			unsure := c.fault.Lose || c.fault.Status == 500 || c.fault.Status == 502
			if n := len(o.entries("out:ops:webhook:r", entry.KindEffectUnknown)); unsure != (n > 0) {
				t.Errorf("%d unknown outcomes", n)
			}
			if n := len(o.entries("out:ops:webhook:r", outbound.KindRepeated)); n != 0 {
				t.Errorf("%d messages marked as duplicates", n)
			}
		})
	}
}

func TestARequestToAHangingReceiverIsRetried(t *testing.T) {
	t.Parallel()
	o := newFixture(t)
	o.options.Timeout = 100 * time.Millisecond
	o.Fail(platformtest.Fault{Hang: true}, platformtest.Fault{Hang: true})
	o.start()
	o.postMessage("1", "r", "one")
	o.WaitFor(t, "three tries", func() bool { return len(o.Posts()) >= 3 })
	o.WaitFor(t, "the text", func() bool { return strings.Join(o.Texts(), "|") == "one" })
	for _, p := range o.Posts() {
		if p.ID != o.Posts()[0].ID {
			t.Errorf("received %+v", o.Posts())
		}
	}
	o.waitError("request timed out")
}

// TestRetryAfterHoldsForAllRooms checks that the limit counts for the receiver as a whole.
func TestRetryAfterHoldsForAllRooms(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]platformtest.Fault{
		"too many": {Status: 429, RetryAfter: 2}, "not now": {Status: 503, RetryAfter: 2},
		"until a date": {Status: 503, Header: "Retry-After: 3 s from now"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newFixture(t)
			if o.start(); name == "until a date" {
				fault.Header = "Retry-After: " + time.Now().Add(3*time.Second).UTC().Format(http.TimeFormat)
			}
			o.Fail(fault)
			o.postMessage("1", "r", "one")
			o.WaitFor(t, "the refusal", func() bool { return len(o.entries("out:ops:webhook:r", entry.KindRescheduled)) == 1 })
			o.postMessage("2", "s", "two")
			o.WaitFor(t, "both", func() bool { return len(o.Texts()) == 2 })
			posts := o.Posts()
			for _, p := range posts[1:] {
				if waited := p.At.Sub(posts[0].At); waited < 1500*time.Millisecond {
					t.Errorf("%q arrived %s after the refusal", p.Body.Text, waited)
				}
			}
			if len(posts) != 3 {
				t.Errorf("%d requests", len(posts))
			}
		})
	}
}

func TestSendingToAGoneReceiverPausesUntilTheNextMessage(t *testing.T) {
	t.Parallel()
	o := newFixture(t)
	o.Fail(platformtest.Fault{Status: 410})
	o.start()
	o.postMessage("1", "r", "one")
	o.WaitFor(t, "the dead letter", func() bool { return o.deadLetters() == 1 })
	o.postMessage("2", "r", "two")
	o.waitTexts("two")
}

func TestForbiddenAddressesAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(o *webhook.Options)
		want   string
	}{
		"this machine": {func(o *webhook.Options) { o.Policy = netguard.Policy{} }, "127.0.0.1 is a loopback address"},
		"localhost": {func(o *webhook.Options) {
			o.Policy, o.URL = netguard.Policy{}, "http://localhost:1/"
		}, "a loopback address"},
		"a private one": {func(o *webhook.Options) { o.URL = "https://10.0.0.1/" }, "10.0.0.1 is in a private network"},
		"metadata":      {func(o *webhook.Options) { o.URL = "https://169.254.169.254/latest" }, "link-local"},
		"in other clothes": {func(o *webhook.Options) {
			o.Policy, o.URL = netguard.Policy{}, "https://[::ffff:127.0.0.1]/"
		}, "a loopback address"},
		"without TLS": {func(o *webhook.Options) { o.URL = "http://example.org/hush" }, "it is not https"},
		"no address":  {func(o *webhook.Options) { o.URL = "example.org/hush" }, "it is not a URL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newFixture(t)
			c.change(&o.options)
			o.startServer()
			o.waitCondition(channel.ConditionFailed)
			if s := o.runner.State(); !strings.Contains(s.Reason, c.want) || len(o.Posts()) > 0 {
				t.Errorf("the reason is %q", s.Reason)
			}
		})
	}
}

func TestWithoutAURLRepliesStayInTheLog(t *testing.T) {
	t.Parallel()
	o := newFixture(t)
	o.options.URL = ""
	o.start()
	o.postMessage("1", "r", "one")
	const out = "out:ops:webhook:r"
	o.WaitFor(t, "the end of the delivery", func() bool { return len(o.entries(out, entry.KindCompleted)) == 1 })
	notes := o.entries(out, outbound.KindUnsent)
	if len(notes) != 1 || !strings.Contains(string(notes[0].Body), "no url") || o.deadLetters() != 0 {
		t.Errorf("entries %+v", notes)
	}
}

// TestEditsUseTheReceiversMessageID has receivers with and without ids of their own.
func TestEditsUseTheReceiversMessageID(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ answer, id string }{
		"an id":   {`{"id":"row-7","more":[1]}`, "row-7"},
		"none":    {``, ""},
		"no text": {`{"id":7}`, ""},
		"a page":  {`<html>`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newFixture(t)
			o.options.Edits = true
			o.access.Admins = []string{"ann"}
			o.agent = channeltest.Ask
			o.Fail(platformtest.Fault{Raw: c.answer})
			o.start()
			o.postMessage("1", "r", "clean up")
			o.WaitFor(t, "the question", func() bool { return len(o.Posts()) >= 1 })
			q := o.Posts()[0]
			if len(q.Body.Buttons) != 2 || !strings.Contains(q.Body.Text, "rm -r build") {
				t.Fatalf("the question is %+v", q)
			}
			of := c.id
			if of == "" {
				of = q.ID
			}
			tap := func(id, user string) string {
				return o.post(id, requestBody(t, map[string]any{
					"kind": "tap", "room": "r", "user": map[string]string{"id": user, "name": "Ann"}, "of": of,
					"data": q.Body.Buttons[0]["data"],
				}), 202).Body
			}
			if a := tap("t0", "bob"); !strings.Contains(a, "Only an admin") {
				t.Errorf("response to Bob's tap: %s", a)
			}
			if a := tap("t1", "ann"); !strings.Contains(a, `"answer":"Approved by Ann`) {
				t.Errorf("response to the tap: %s", a)
			}
			o.WaitFor(t, "the result", func() bool {
				return strings.Contains(strings.Join(o.Texts(), "|"), "Decision: approve.")
			})
			o.WaitFor(t, "the question redrawn", func() bool {
				return slices.ContainsFunc(o.Posts(), func(p platformtest.WebhookPost) bool {
					return p.Body.Kind == "edit" && p.Body.Of == of && strings.HasPrefix(p.Body.Text, "Approved by ")
				})
			})
			if a := tap("t2", "ann"); !strings.Contains(a, `"answer":"Approved by `) {
				t.Errorf("response to the late tap: %s", a)
			}
		})
	}
}

// TestALongReplyIsOneRequest sends a text of the maximum length.
func TestALongReplyIsOneRequest(t *testing.T) {
	t.Parallel()
	o := newFixture(t)
	long := strings.Repeat("words and 👋 more words\n", 20_000)
	o.agent = func(ctx context.Context, s mailroom.Session) error { return s.Stream(ctx, long) }
	o.start()
	o.postMessage("1", "r", "go on")
	o.waitTexts(strings.TrimSpace(long))
}

// TestANameThatResolvesToAPrivateAddressIsNotUsed checks that the message waits until the address
// is permitted.
func TestANameThatResolvesToAPrivateAddressIsNotUsed(t *testing.T) {
	t.Parallel()
	o := newFixture(t)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(o.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	o.options.URL, o.options.Insecure = "http://innocent.example.org:"+port+"/take", true
	o.options.Policy = netguard.Policy{Resolver: machinetest.Resolver(t, [4]byte{127, 0, 0, 1})}
	o.start()
	o.postMessage("1", "r", "one")
	o.waitError("127.0.0.1 is a loopback address")
	if len(o.Posts()) > 0 || o.deadLetters() > 0 {
		t.Errorf("%d dead letters; received %+v", o.deadLetters(), o.Posts())
	}
	if n := len(o.entries("out:ops:webhook:r", entry.KindEffectUnknown)); n != 0 {
		t.Errorf("%d unknown outcomes, want none for unsent requests", n)
	}
	o.stop()
	o.options.Policy.Allow = loopback().Allow
	o.start()
	o.waitTexts("one")
}

// TestOutboundRequestsAreNotAcceptedInbound matters because both are signed with the same secret.
func TestOutboundRequestsAreNotAcceptedInbound(t *testing.T) {
	t.Parallel()
	o := newFixture(t).start()
	o.postMessage("1", "r", "one")
	o.waitTexts("one")
	o.post("1", o.Posts()[0].Raw, 422)
}
