package program

import (
	"testing"
	"time"

	"mailroom"
)

// TestErrorMessagesOfProgramsAreClassified has one row for each kind of message of the tables, as a resumed turn that
// did nothing ends with it. fault.go says where the messages come from.
func TestErrorMessagesOfProgramsAreClassified(t *testing.T) {
	now := limitNow()
	for _, c := range append(agentSayings(), sessionSayings()...) {
		p := Find(c.program)
		v := p.Judge(Ending{End: &End{Message: c.message, Status: c.status}, Resumed: true, SawLine: true, Code: 1, Now: now})
		got := string(v.Class)
		switch {
		case v.Fault != "":
			got = string(v.Fault)
		case v.Gone:
			got = gone
		}
		if got != c.want {
			t.Errorf("%s %d %q: %s, want %s", c.program, c.status, c.message, got, c.want)
		}
	}
	for stderr, want := range map[string]Fault{
		"env: ‘node’: No such file or directory":                             FaultProgram,
		"/usr/bin/env: 'node': No such file or directory":                    FaultProgram,
		"Error: Cannot find module '/usr/lib/node_modules/@openai/codex'":    FaultProgram,
		"Invalid API key · Please run /login":                                FaultLogin,
		"Error: failed to initialize sqlite state db: database is locked":    "",
		"Error: ENOSPC: no space left on device, write":                      "",
		"error: unknown option '--include-partial-messages'":                 FaultProgram,
		"thread 'main' panicked at core/src/session.rs: index out of bounds": "",
	} {
		if v := Find("claude").Judge(Ending{Resumed: true, Code: 1, Stderr: stderr, Now: now}); v.Fault != want || v.Gone {
			t.Errorf("stderr %q: %+v, want the fault %q", stderr, v, want)
		}
	}
}

// saying is a message of a program, and what it means for the turn.
type saying struct {
	program string
	status  int
	message string
	want    string
}

const (
	login = "login"
	quota = "quota"
	gone  = "gone"
	limit = "unavailable"
)

func agentSayings() []saying {
	return []saying{
		// login
		{"claude", 0, "Invalid API key · Please run /login", login},
		{"claude", 0, "Invalid API key · Fix external API key", login},
		{"claude", 401, "Failed to authenticate: OAuth session expired and could not be refreshed", login},
		{"claude", 401, "401 authentication_error Invalid authentication credentials", login},
		{"claude", 403, "API Error: 403 Your organization has been disabled", login},
		{"claude", 401, "OAuth token has expired. Please obtain a new token or refresh your existing token.", login},
		{"claude", 0, "Not logged in · Please run /login", login},
		{"codex", 0,
			"Your access token could not be refreshed because your refresh token was already used. Please log out and sign in again.", login},
		{"codex", 0, "Failed to refresh token: 401 Unauthorized: Your refresh token has already been used", login},
		{"codex", 401, "unexpected status 401 Unauthorized: , url: https://api.example/v1/responses", login},
		{"codex", 0, "Missing environment variable: `OPENAI_API_KEY`.", login},
		{"codex", 401, "unexpected status 401 Unauthorized: Incorrect API key provided: sk-1", login},
		// quota
		{"claude", 0, "Credit balance is too low", quota},
		{"claude", 400, "API Error: 400 Your credit balance is too low to access the Anthropic API.", quota},
		{"codex", 0, "Quota exceeded. Check your plan and billing details.", quota},
		{"codex", 429, "exceeded retry limit, last status: 429 Too Many Requests: insufficient_quota", quota},
		{"codex", 0, "stream error: usage_not_included", quota},
		{"codex", 402, "unexpected status 402 Payment Required", quota},
		// limits of use
		{"claude", 429, "You've hit your session limit · resets 4pm (UTC)", limit},
		{"claude", 0, "Claude AI usage limit reached|1795824000", limit},
		{"claude", 429, "This request would exceed your account's rate limit. Please try again later.", limit},
		{"codex", 0, "You've hit your usage limit. Upgrade to Pro or try again at Dec 3rd, 2026 4:15 AM.", limit},
		{"codex", 0, "You've hit your usage limit.", limit},
		{"codex", 429, "You exceeded your current quota. Please retry in 32s.", limit},
	}
}

func sessionSayings() []saying {
	return []saying{
		// conversations
		{"claude", 400, "Prompt is too long", gone},
		{"claude", 400, "API Error: 400 input length and `max_tokens` exceed context limit: 199999 + 32000 > 200000", gone},
		{"claude", 400, "API Error: 400 messages.3: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_01.", gone},
		{"claude", 400, "API Error: 400 messages.0.content.1: unexpected `tool_use_id` found in `tool_result` blocks: toolu_01.", gone},
		{"claude", 400,
			"API Error: 400 messages.1.content.5: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.", gone},
		{"claude", 400, "API Error: 400 messages.1.content.0: Invalid `signature` in `thinking` block", gone},
		{"claude", 400, "API Error: 400 - messages.1.content.0: Invalid signature in thinking block", gone},
		{"claude", 400, "API Error: 400 Could not process image", gone},
		{"claude", 400, "API Error: 400 messages.9.content.0.image.source.base64: image exceeds 5 MB maximum", gone},
		{"claude", 400, "messages.3.content.50: At least one of the image dimensions exceed max allowed size: 8000 pixels", gone},
		{"claude", 0,
			"An image in the conversation exceeds the dimension limit for many-image requests (2000px). Start a new session with fewer images.", gone},
		{"claude", 413, "API Error: 413 Request exceeds the maximum size", gone},
		{"claude", 400, "API Error: 400 messages: text content blocks must be non-empty", gone},
		{"claude", 0, "No conversation found with session ID: x", gone},
		{"codex", 0, "Codex ran out of room in the model's context window. Start a new thread or clear earlier history before retrying.", gone},
		{"codex", 400, `unexpected status 400 Bad Request: {"error":{"code":"context_length_exceeded"}}`, gone},
		{"codex", 400, `{"error":{"message":"The encrypted content gAAA could not be verified.","code":"invalid_encrypted_content"}}`, gone},
		{"codex", 0, "Missing required parameter: 'input[3].encrypted_content'", gone},
		{"codex", 400, "No tool output found for function call call_1.", gone},
		{"codex", 400, "Item 'rs_1' of type 'reasoning' was provided without its required following item.", gone},
		{"codex", 0, "no rollout found for thread id x", gone},
		// the rest
		{"claude", 529, "Overloaded", limit},
		{"codex", 0, "We're currently experiencing high demand, which may cause temporary errors.", limit},
		{"claude", 404, "API Error: 404 model: unknown", "permanent"},
		{"codex", 0, "stream disconnected before completion", "transient"},
	}
}

// TestAConversationThatIsRefusedInMidWorkIsReplaced judges one error text twice: after the program has worked, and as
// the answer to the first message of a session.
func TestAConversationThatIsRefusedInMidWorkIsReplaced(t *testing.T) {
	end := &End{Status: 400, Message: "Prompt is too long"}
	if v := Find("claude").Judge(Ending{End: end, Worked: true, SawLine: true, Code: 1}); !v.Stuck ||
		v.Class != mailroom.ClassTransient || v.Gone {
		t.Errorf("after work: %+v, want another session for the next attempt", v)
	}
	if v := Find("claude").Judge(Ending{End: end, SawLine: true, Code: 1}); v.Stuck || v.Gone ||
		v.Class != mailroom.ClassPermanent {
		t.Errorf("the first message: %+v, want a permanent failure", v)
	}
}

// TestJudgeRetriesWhenAUsageLimitEnds compares the time of the retry with the end of the usage limit. A program may
// name this end in its error text and in an event; if it does both, the event counts.
func TestJudgeRetriesWhenAUsageLimitEnds(t *testing.T) {
	now := time.Date(2026, time.November, 27, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		status  int
		message string
		event   time.Time
		want    time.Duration
	}{
		{429, "You've hit your session limit · resets 4pm (UTC)", time.Time{}, 4 * time.Hour},
		{429, "You've hit your session limit · resets 4pm (UTC)", now.Add(90 * time.Minute), 90 * time.Minute},
		{429, "You've hit your session limit", now.Add(90 * time.Minute), 90 * time.Minute},
		{529, "Overloaded", now.Add(90 * time.Minute), 0},
		{429, "You've hit your session limit", now.Add(-time.Minute), 0},
		{429, "You've hit your session limit", now.Add(1000 * time.Hour), maxRetryAfter},
	} {
		v := Find("claude").Judge(Ending{End: &End{Message: c.message, Status: c.status}, Limit: c.event, SawLine: true,
			Code: 1, Now: now})
		if v.RetryAfter != c.want || v.Class != mailroom.ClassUnavailable {
			t.Errorf("%q with an event at %v: %v %v, want %v", c.message, c.event, v.Class, v.RetryAfter, c.want)
		}
	}
	events, err := Find("claude").Decode(
		[]byte(
			`{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1795824000,"rateLimitType":"five_hour"}}`))
	if err != nil || len(events) != 1 || events[0] != (Limit{End: time.Unix(1795824000, 0)}) {
		t.Errorf("a rejected event: %v, %v", events, err)
	}
	for _, line := range []string{
		`{"type":"rate_limit_event","rate_limit_info":{"status":"allowed","resetsAt":1795824000}}`,
		`{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1e300}}`,
		`{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":"soon"}}`,
	} {
		if events, err := Find("claude").Decode([]byte(line)); err != nil || len(events) != 0 {
			t.Errorf("%s: %v, %v; want nothing", line, events, err)
		}
	}
}
