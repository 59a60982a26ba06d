package program

import (
	"testing"
	"time"
	_ "time/tzdata"
)

// TestTheEndOfALimit has an example of each form; the comment of the forms says where it comes from.
func TestTheEndOfALimit(t *testing.T) {
	now, at := limitNow(), limitAt
	const hour = time.Hour
	for text, want := range map[string]time.Time{
		// amounts
		"Rate limit reached. Please try again in 11.054s.": now.Add(
			11054 * time.Millisecond),
		"You've hit your usage limit. Try again in 3 hours 20 minutes.": now.Add(
			3*hour + 20*time.Minute),
		"Upgrade to Pro (https://openai.com/chatgpt/pricing) or try again in 5 days 22 hours 11 minutes.": now.Add(
			142*hour + 11*time.Minute),
		"send a request to your admin or try again in 3 days, 6 hours, and 57 minutes.": now.Add(78*hour + 57*time.Minute),
		"limit reached, resets in 2h 5m":                                                now.Add(2*hour + 5*time.Minute),
		"retry after 250ms":                                                             now.Add(250 * time.Millisecond),
		"try again in 1 week":                                                           now.Add(7 * 24 * hour),
		"Your quota will reset after 18h27m45s.":                                        now.Add(18*hour + 27*time.Minute + 45*time.Second),
		"Your quota will reset after 5s.. Retrying after 6173ms...":                     now.Add(5 * time.Second),
		"you have been rate-limited. Please wait 2 minutes before trying.":              now.Add(2 * time.Minute),
		"Please retry in 34.074824224s.":                                                now.Add(34074824223),
		`"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34s"`:         now.Add(34 * time.Second),
		`{"retryDelay": "34.5s"}`:                                                       now.Add(34500 * time.Millisecond),
		// times since 1970
		"Claude AI usage limit reached|1795824000":                                              time.Unix(1795824000, 0),
		"Claude AI usage limit reached|1795824000000":                                           time.Unix(1795824000, 0),
		`{"error":{"type":"usage_limit_reached","resets_at":1795824000,"resets_in_seconds":7}}`: time.Unix(1795824000, 0),
		`{"type":"usage_limit_reached","plan_type":"plus","resets_in_seconds":13872}`:           now.Add(13872 * time.Second),
		"429 Too Many Requests (Retry-After: 120)":                                              now.Add(2 * time.Minute),
		`{"five_hour":{"resets_at":"2026-11-28T12:00:00Z"}}`:                                    at(time.November, 28, 13, 0),
		`{"resets_at":"2026-11-28T12:00:00.123+00:00"}`: at(time.November, 28, 13,
			0).Add(123 * time.Millisecond),
		// times of day
		"Visit https://chatgpt.com/codex/settings/usage to purchase more credits or try again at 11:58 PM.": at(time.November,
			27, 23, 58),
		"You've hit your usage limit. Try again at 3:28 PM.":                          at(time.November, 28, 15, 28),
		"You've hit your usage limit. Try again at 3:28 p.m.":                         at(time.November, 28, 15, 28),
		"try again at 12:05 AM.":                                                      at(time.November, 28, 0, 5),
		"You've hit your session limit · resets 4pm (UTC)":                            at(time.November, 28, 17, 0),
		"You've hit your limit · resets 10pm (UTC)":                                   at(time.November, 27, 23, 0),
		"You've hit your limit · resets 4:50am (Europe/Rome)":                         at(time.November, 28, 4, 50),
		"Claude usage limit reached. Your limit will reset at 9am (America/Chicago).": at(time.November, 28, 16, 0),
		"Your limit will reset at 1pm (Etc/GMT+5).":                                   at(time.November, 28, 19, 0),
		"You've hit your session limit · resets 10:30pm (Europe/Berlin)":              now.Add(recheck),
		"You've hit your session limit · resets 5:40pm (Europe/Berlin)":               at(time.November, 28, 17, 40),
		"You've hit your session limit · resets 12:50am (America/Los_Angeles)":        at(time.November, 28, 9, 50),
		"You've hit your limit · resets 1:30am (Asia/Dhaka)":                          at(time.November, 28, 20, 30),
		"Weekly limit reached · resets 10am (Asia/Seoul) · /upgrade to Max":           at(time.November, 28, 2, 0),
		"Usage limit reached for a model. Access resets at 10:57 PM GMT-3.":           at(time.November, 28, 2, 57),
		"to purchase more credits or try again at 2:51 PM.":                           at(time.November, 28, 14, 51),
		"send a request to your admin or try again at 2:57 PM.":                       at(time.November, 28, 14, 57),
		"You're out of usage. Your limit resets 7pm (Europe/Berlin).":                 at(time.November, 28, 19, 0),
		"Weekly limit: 0% left (resets 16:21 on 2 Dec)":                               at(time.December, 2, 16, 21),
		"You've hit your usage limit. try again at 15:04":                             at(time.November, 28, 15, 4),
		"5-hour limit reached ∙ resets 1am":                                           at(time.November, 28, 1, 0),
		"Weekly limit reached ∙ resets 7pm":                                           at(time.November, 28, 19, 0),
		"limit reached, resets at 15:00 UTC":                                          at(time.November, 28, 16, 0),
		"limit reached, resets at 23:00":                                              at(time.November, 27, 23, 0),
		"resets 3pm (PST)":                                                            at(time.November, 28, 0, 0),
		"resets 3pm (UTC-8)":                                                          at(time.November, 28, 0, 0),
		"resets 12pm (GMT+5:30)":                                                      at(time.November, 28, 7, 30),
		"resets 11pm (CET)":                                                           at(time.November, 27, 23, 0),
		"resets 11pm (Nowhere/City)":                                                  at(time.November, 27, 23, 0),
		"resets 10:29pm":                                                              now.Add(recheck), // it has just passed
		"resets 12am":                                                                 at(time.November, 28, 0, 0),
		"resets 12pm":                                                                 at(time.November, 28, 12, 0),
	} {
		if got := limitEnd(text, now); !got.Equal(want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestTheDayOfTheEndOfALimit(t *testing.T) {
	now, at := limitNow(), limitAt
	for text, want := range map[string]time.Time{
		// days
		"Upgrade to Pro or try again at Dec 3rd, 2026 4:15 AM.":  at(time.December, 3, 4, 15),
		"or try again at Nov 28th, 2026 8:19 PM.":                at(time.November, 28, 20, 19),
		"or try again at Dec 1, 2026, 7:38 AM":                   at(time.December, 1, 7, 38),
		"Weekly limit reached · resets Dec 2 at 9:30am":          at(time.December, 2, 9, 30),
		"resets Dec 6, 1pm":                                      at(time.December, 6, 13, 0),
		"Resets Dec 17, 3pm (PST)":                               at(time.December, 18, 0, 0),
		"You've hit your usage limit. Try again Dec 8.":          at(time.December, 8, 0, 0),
		"resets tomorrow at 3pm":                                 at(time.November, 28, 15, 0),
		"resets Mon 9:00 AM":                                     at(time.November, 30, 9, 0),
		"resets Friday at 10pm":                                  at(time.December, 4, 22, 0),
		"limit reached. resets January 3 at 1am and again later": now.Add(maxRetryAfter), // in 36 days
		// further away than any window
		"try again in 400 days":                         time.Time{},
		"try again in 60 days":                          now.Add(maxRetryAfter),
		"try again at Dec 3rd, 9999 4:15 AM.":           now.Add(maxRetryAfter),
		`"resets_at":9999999999`:                        now.Add(maxRetryAfter),
		"try again in 99999999999999999999999999 hours": {},
		// nothing
		"try again at Nov 20th, 2026 4:15 AM.":                {},
		"Claude AI usage limit reached|1749924000":            {},
		"usually temporary — try again in a moment":           {},
		"wait for limits to reset (every 5h and every week.)": {},
		"it failed 3 s ago":                                   {},
		"resets 25:00":                                        {},
		"resets 13pm":                                         {},
		"resets 4":                                            {},
		"try again at Dec 99th, 2026":                         {},
		"please try again later":                              {},
		"":                                                    {},
	} {
		if got := limitEnd(text, now); !got.Equal(want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// limitNow is a Friday, 21:30 UTC, in the zone of the server.
func limitNow() time.Time { return limitAt(time.November, 27, 22, 30) }

func limitAt(month time.Month, day, hour, minute int) time.Time {
	return time.Date(2026, month, day, hour, minute, 0, 0, time.FixedZone("CET", 3600))
}

// FuzzLimitEnd checks that no text names a time in the past or far away.
func FuzzLimitEnd(f *testing.F) {
	for _, text := range []string{
		"try again at Dec 3rd, 2026 4:15 AM.", "resets 4pm (UTC)", "limit reached|1795824000", "try again in 2 days 3 hours",
		"resets Mon 9:00 AM (GMT+5:30)",
	} {
		f.Add(text, int64(1795800000))
	}
	f.Fuzz(func(t *testing.T, text string, seconds int64) {
		now := time.Unix(seconds%(1<<33), 0).UTC()
		if at := limitEnd(text, now); !at.IsZero() && (!at.After(now) || at.After(now.Add(maxRetryAfter))) {
			t.Errorf("%q at %v: %v", text, now, at)
		}
	})
}
