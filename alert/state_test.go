package alert

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func berlin(t interface{ Fatal(...any) }) *time.Location {
	place, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	return place
}

// clock makes the steps of one rule, and stores the state between two steps as the server does.
type clock struct {
	t    *testing.T
	rule Rule
	at   time.Time
	kept []byte
	read State // kept, decoded; nil: it has changed
	sent []Notification
}

func (c *clock) step(events ...Event) []Notification {
	c.t.Helper()
	if c.read == nil {
		c.read = State{}
		if c.kept != nil {
			if err := json.Unmarshal(c.kept, &c.read); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	sent := c.read.Step([]Rule{c.rule}, events, c.at)
	kept, err := json.Marshal(c.read)
	if err != nil {
		c.t.Fatal(err)
	}
	if !bytes.Equal(kept, c.kept) {
		c.kept, c.read = kept, nil
	}
	c.sent = append(c.sent, sent...)
	return sent
}

// until steps every ten seconds until a time.
func (c *clock) until(end time.Time) {
	for ; c.at.Before(end); c.at = c.at.Add(10 * time.Second) {
		c.step()
	}
}

func failed(group string, at time.Time) Event {
	return Event{Kind: KindFailed, At: at, Subject: group, Agent: "codex", Thread: "t", Run: "r", Words: "rate limit"}
}

// The server was off, and its follower reads what happened before.
func TestAnEventOfYesterdayIsNoAlert(t *testing.T) {
	now := time.Date(2026, 6, 2, 12, 0, 0, 0, time.UTC)
	c := &clock{t: t, at: now, rule: Rule{Name: "r", When: []Kind{KindFailed}, To: []string{"phone"}, Text: TextTitle,
		Zone: time.UTC}}
	c.step(failed("old", now.Add(-24*time.Hour)), failed("young", now.Add(-24*time.Hour+time.Second)))
	c.until(now.Add(2 * time.Minute))
	if len(c.sent) != 1 || c.sent[0].Alert.Count != 1 {
		t.Fatalf("sent: %+v, want the younger one", c.sent)
	}
}

func TestManyFailuresOfOneErrorAreOneAlert(t *testing.T) {
	start := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	c := &clock{t: t, at: start, rule: Rule{Name: "r", When: []Kind{KindFailed}, To: []string{"phone", "mail"},
		Text: TextTitle, Zone: time.UTC}}
	for range 101 {
		c.step(failed("a", c.at))
		c.at = c.at.Add(100 * time.Millisecond)
	}
	c.until(start.Add(time.Minute))
	if len(c.sent) != 1 || c.sent[0].Alert.Count != 101 || c.sent[0].To != "phone" ||
		!slices.Equal(c.sent[0].Alert.Then, []string{"mail"}) {
		t.Fatalf("sent: %+v", c.sent)
	}
	c.step(failed("a", c.at), failed("a", c.at), failed("b", c.at))
	c.until(start.Add(30 * time.Minute))
	if len(c.sent) != 2 || c.sent[1].Alert.Count != 1 {
		t.Fatalf("another error is sent by itself, and the first one later: %+v", c.sent[1:])
	}
	c.until(start.Add(2 * time.Hour))
	if len(c.sent) != 3 || c.sent[2].Alert.Count != 2 {
		t.Fatalf("the rest after an hour: %+v", c.sent[2:])
	}
	c.until(start.Add(5 * time.Hour))
	if c.step(); len(c.sent) != 3 || string(c.kept) != `{"r":{}}` {
		t.Fatalf("an error that is over is forgotten: %s", c.kept)
	}
}

func TestQuietHoursFollowLocalTime(t *testing.T) {
	place := berlin(t)
	for name, day := range map[string]time.Time{
		"an ordinary night": time.Date(2026, 3, 10, 0, 0, 0, 0, place),
		"to summer time":    time.Date(2026, 3, 28, 0, 0, 0, 0, place), // 29 March, 02:00 is 03:00
		"to winter time":    time.Date(2026, 10, 24, 0, 0, 0, 0, place),
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Date(day.Year(), day.Month(), day.Day(), 22, 0, 0, 0, place)
			end := time.Date(day.Year(), day.Month(), day.Day()+1, 7, 0, 0, 0, place)
			quiet := Quiet{From: 22 * 60, To: 7 * 60}
			for at := begin.Add(-time.Hour); at.Before(end.Add(time.Hour)); at = at.Add(time.Minute) {
				want := time.Time{}
				if !at.Before(begin) && at.Before(end) {
					want = end
				}
				if got := quiet.End(at); !got.Equal(want) {
					t.Fatalf("at %s: quiet until %s, want %s", at, got, want)
				}
			}
			c := &clock{t: t, at: begin.Add(2 * time.Hour),
				rule: Rule{Name: "r", When: []Kind{KindFailed, KindTicket}, To: []string{"phone"}, Quiet: quiet, Zone: place}}
			c.step(failed("a", c.at), failed("a", c.at), Event{Kind: KindTicket, At: c.at, Subject: "k"})
			c.at = end.Add(-time.Minute)
			c.until(end)
			if len(c.sent) != 0 {
				t.Fatalf("sent in the quiet hours: %+v", c.sent)
			}
			c.step()
			if len(c.sent) != 2 || c.sent[0].Alert.Count != 2 || c.sent[1].Alert.Ticket != "k" || c.sent[1].Alert.Count != 1 {
				t.Fatalf("at the end: %+v", c.sent)
			}
		})
	}
}

func TestTheDigestComesEachMorningOnce(t *testing.T) {
	place := berlin(t)
	for name, start := range map[string]time.Time{
		"to summer time": time.Date(2026, 3, 27, 12, 0, 0, 0, place),
		"to winter time": time.Date(2026, 10, 23, 12, 0, 0, 0, place),
	} {
		t.Run(name, func(t *testing.T) {
			c := &clock{t: t, at: start, rule: Rule{Name: "r", When: []Kind{KindDigest}, To: []string{"mail"}, Digest: 8 * 60,
				Zone: place}}
			morning := func(day int) time.Time {
				return time.Date(start.Year(), start.Month(), start.Day()+day, 8, 0, 0, 0, place)
			}
			for ; c.at.Before(start.AddDate(0, 0, 4)); c.at = c.at.Add(time.Minute) {
				for _, sent := range c.step() {
					if local := c.at.In(place).Format("15:04"); local != "08:00" || sent.NotBefore.Sub(c.at) != digestDelay {
						t.Errorf("sent at %s: %+v", local, sent)
					}
				}
			}
			keys := map[string]bool{}
			for i, sent := range c.sent {
				keys[sent.Key] = true
				if a := sent.Alert; !a.At.Equal(morning(i)) || !a.Until.Equal(morning(i+1)) {
					t.Errorf("digest %d is about %s to %s", i, a.At.In(place), a.Until.In(place))
				}
			}
			if len(c.sent) != 4 || len(keys) != 4 {
				t.Errorf("%d digests in four days, over the change of the clock", len(keys))
			}
			// A server that was off for two days and a half sends one digest of both days.
			c.sent, c.at = nil, c.at.AddDate(0, 0, 2).Add(12*time.Hour)
			c.step()
			c.step()
			if len(c.sent) != 1 || !c.sent[0].Alert.At.Equal(morning(4)) || !c.sent[0].Alert.Until.Equal(morning(6)) {
				t.Errorf("after two days off: %+v", c.sent)
			}
		})
	}
}

// TestPeriodsOfDigestsFollowEachOther: whatever the rule says, and however its time, period and zone change, each
// period begins where the one before ended, and ends with a full hour of UTC, or a full minute.
func TestPeriodsOfDigestsFollowEachOther(t *testing.T) {
	zones := digestZones(t)
	rapid.Check(t, func(r *rapid.T) {
		c := &clock{t: t, at: time.Date(2026, 3, 27, 12, 0, 0, 0, time.UTC),
			rule: Rule{Name: "r", When: []Kind{KindDigest}, To: []string{"a"}}}
		for range rapid.IntRange(2, 30).Draw(r, "steps") {
			if rapid.IntRange(0, 3).Draw(r, "the rule changes") == 0 || c.rule.Zone == nil {
				c.rule.Digest = Clock(rapid.IntRange(0, 24*60-1).Draw(r, "digest"))
				c.rule.Every = rapid.SampledFrom(append(digestPeriods(), 0, 0, 0)).Draw(r, "every")
				c.rule.Zone = rapid.SampledFrom(zones).Draw(r, "zone")
				c.rule.Quiet.To = Clock(rapid.IntRange(0, 24*60-1).Draw(r, "quiet until"))
			}
			c.at = c.at.Add(time.Duration(rapid.IntRange(1, 40*60).Draw(r, "minutes")) * time.Minute)
			step, before := c.rule.digestStep(), len(c.sent)
			c.step()
			for _, sent := range c.sent[before:] {
				if until := sent.Alert.Until; !until.Equal(until.Truncate(step)) {
					r.Fatalf("a period until %s, want one of full steps of %s", until, step)
				}
			}
		}
		var end time.Time
		for _, sent := range c.sent {
			a := sent.Alert
			if !end.IsZero() && !a.At.Equal(end) || !a.Until.After(a.At) || sent.NotBefore.Before(a.Until.Add(digestDelay)) {
				r.Fatalf("a period from %s to %s, sent from %s on, after one to %s", a.At, a.Until, sent.NotBefore, end)
			}
			end = a.Until
		}
	})
}

func TestAChannelThatStaysDownIsAnAlert(t *testing.T) {
	start := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	c := &clock{t: t, at: start, rule: Rule{Name: "r", When: []Kind{KindChannel}, To: []string{"phone"}, Zone: time.UTC}}
	down := func(ended bool) Event {
		return Event{Kind: KindChannel, At: c.at, Subject: "tg", Ended: ended, Words: "refused"}
	}
	c.step(down(false))
	c.until(start.Add(time.Minute))
	c.step(down(true))
	c.until(start.Add(10 * time.Minute))
	if len(c.sent) != 0 {
		t.Fatalf("a short outage is not sent: %+v", c.sent)
	}
	c.step(down(false))
	c.until(start.Add(15 * time.Minute))
	c.step(down(false))
	c.until(start.Add(3 * time.Hour))
	c.step(down(true))
	c.until(start.Add(4 * time.Hour))
	if len(c.sent) != 2 || c.sent[0].Alert.Ended || !c.sent[1].Alert.Ended || c.sent[0].Alert.Channel != "tg" {
		t.Fatalf("sent: %+v", c.sent)
	}
}

func TestAFloodOfQuestionsIsSummedUp(t *testing.T) {
	start := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	c := &clock{t: t, at: start, rule: Rule{Name: "r", When: []Kind{KindTicket}, To: []string{"phone"}, Zone: time.UTC}}
	for i := range 5000 {
		c.step(Event{Kind: KindTicket, At: c.at, Subject: fmt.Sprint("k", i)})
	}
	c.until(start.Add(time.Hour))
	if len(c.sent) != singles+1 || c.sent[singles].Alert.Count != 5000-singles || c.sent[singles].Alert.Ticket != "" {
		t.Fatalf("%d alerts, the last is %+v", len(c.sent), c.sent[len(c.sent)-1])
	}
}

// TestQuestionsOfANightAreOneAlert asks a question each quarter of an hour, also in the last moment of the night, and
// one in the morning.
func TestQuestionsOfANightAreOneAlert(t *testing.T) {
	start := time.Date(2026, 6, 1, 21, 0, 0, 0, time.UTC)
	end := start.Add(10 * time.Hour)
	for _, asked := range []int{1, 3, maxListed, 40} {
		c := &clock{t: t, at: start, rule: Rule{Name: "r", When: []Kind{KindTicket}, To: []string{"phone"},
			Quiet: Quiet{From: 22 * 60, To: 7 * 60}, Zone: time.UTC}}
		ask := func(name string, at time.Time) { c.step(Event{Kind: KindTicket, At: at, Subject: name}) }
		ask("evening", c.at)
		c.at = end.Add(-time.Duration(asked) * 10 * time.Minute)
		for i := range asked {
			ask(fmt.Sprint("night ", i), c.at)
			c.at = c.at.Add(10 * time.Minute)
		}
		c.until(end)
		if len(c.sent) != 1 || c.sent[0].Alert.Ticket != "evening" {
			t.Fatalf("%d questions: before the end: %+v", asked, c.sent)
		}
		ask("the last one", end.Add(-time.Millisecond)) // it is read after the end
		ask("morning", c.at)
		c.until(end.Add(time.Hour))
		if len(c.sent) != 3 || c.sent[2].Alert.Ticket != "morning" && c.sent[1].Alert.Ticket != "morning" {
			t.Fatalf("%d questions: after the end: %+v", asked, c.sent[1:])
		}
		for _, sent := range c.sent[1:] {
			if a := sent.Alert; a.Ticket != "morning" && (a.Count != asked+1 || a.Ticket != "" ||
				(len(a.Tickets) == a.Count) != (asked < maxListed)) {
				t.Errorf("%d questions of the night and the last one: %+v", asked, a)
			}
		}
	}
}

// history checks what the steps of a random history send.
type history struct {
	t     *rapid.T
	rule  Rule
	asked map[string]time.Time // the questions that were not sent yet
	keys  map[string]bool
	got   map[Kind]int
	// alerts and reminders count those about questions.
	alerts, reminders int
}

// check checks the alerts of a step: none is sent in quiet hours, each question is sent once, and those of the
// quiet hours are sent together.
func (h *history) check(sent []Notification, now time.Time) {
	quiet := func(t time.Time) bool { return !h.rule.Quiet.End(t.In(h.rule.Zone)).IsZero() }
	ofNight := 0
	for _, each := range sent {
		a := each.Alert
		if h.keys[each.Key] {
			h.t.Fatalf("key %s twice", each.Key)
		}
		h.keys[each.Key] = true
		if a.Reminder > 0 {
			if h.reminders++; quiet(each.NotBefore) || each.NotBefore.Before(now.Add(h.rule.Remind)) {
				h.t.Fatalf("at %s: reminder %+v", now, each)
			}
			continue
		}
		h.got[a.Kind] += a.Count
		if quiet(now) && a.Kind != KindPaused || !quiet(now) && !each.NotBefore.IsZero() {
			h.t.Fatalf("at %s: sent %+v", now, each)
		}
		if a.Kind != KindTicket {
			continue
		}
		h.alerts++
		listed := a.Tickets
		if a.Ticket != "" {
			listed = []string{a.Ticket}
		}
		if len(listed) != a.Count && (listed != nil || a.Count <= maxListed) {
			h.t.Fatalf("%d questions, listed are %v", a.Count, listed)
		}
		night := false
		for _, name := range listed {
			at, ok := h.asked[name]
			if !ok {
				h.t.Fatalf("question %s was sent twice", name)
			}
			delete(h.asked, name)
			night = night || quiet(at)
		}
		if night {
			ofNight++
		}
	}
	if ofNight > 1 {
		h.t.Fatalf("%d alerts about questions of the quiet hours: %+v", ofNight, sent)
	}
}

// TestEveryEventIsInOneAlert checks, for random histories with restarts, that the counts of the alerts add up
// to the events, that no key and no question is sent twice, that each alert about questions has
// one reminder, and that the state stays small. See also
// history.check.
func TestEveryEventIsInOneAlert(t *testing.T) {
	place := berlin(t)
	rapid.Check(t, func(r *rapid.T) {
		rule := Rule{Name: "r", When: []Kind{KindFailed, KindTicket, KindPaused}, To: []string{"a", "b"}, Zone: place}
		if rapid.Bool().Draw(r, "quiet") {
			rule.Quiet = Quiet{From: Clock(30 * rapid.IntRange(0, 47).Draw(r, "from")),
				To: Clock(30 * rapid.IntRange(0, 47).Draw(r, "to"))}
		}
		if rapid.Bool().Draw(r, "reminds") {
			rule.Remind = time.Duration(rapid.IntRange(1, 600).Draw(r, "minutes")) * time.Minute
		}
		c := &clock{t: t, rule: rule, at: time.Date(2026, 3, 28, 20, 0, 0, 0, time.UTC)}
		want := map[Kind]int{}
		h := &history{t: r, rule: rule, asked: map[string]time.Time{}, keys: map[string]bool{}, got: map[Kind]int{}}
		for i := range rapid.IntRange(1, 60).Draw(r, "steps") {
			var events []Event
			for n := range rapid.IntRange(0, 40).Draw(r, "events") {
				kind := rapid.SampledFrom(rule.When).Draw(r, "kind")
				e := Event{Kind: kind, At: c.at.Add(time.Duration(n)), Subject: fmt.Sprint("k", i, "-", n), Agent: "x"}
				if kind == KindFailed {
					e.Subject = fmt.Sprint(rapid.IntRange(0, 200).Draw(r, "group"))
				}
				if kind == KindTicket {
					e.At = e.At.Add(-time.Duration(rapid.IntRange(0, 5).Draw(r, "seconds since it was asked")) * time.Second)
					h.asked[e.Subject] = e.At
				}
				want[kind]++
				events = append(events, e)
			}
			kept := slices.Clone(c.kept)
			first := c.step(events...)
			if rapid.Bool().Draw(r, "the commit was lost") { // the step is made again
				c.kept = kept
				if again := c.step(events...); fmt.Sprint(again) != fmt.Sprint(first) {
					r.Fatalf("a repeated step sends\n%v\nand not\n%v", again, first)
				}
			}
			h.check(first, c.at)
			c.at = c.at.Add(time.Duration(rapid.IntRange(1, 7200).Draw(r, "pause")) * time.Second)
		}
		for range 51 * 4 { // the rest: a day may have half an hour that is not quiet, and a change of the clock may skip it
			c.at = c.at.Add(15 * time.Minute)
			h.check(c.step(), c.at)
		}
		if fmt.Sprint(h.got) != fmt.Sprint(want) {
			r.Fatalf("sent %v of %v", h.got, want)
		}
		if want := h.alerts; rule.Remind > 0 && h.reminders != want || rule.Remind == 0 && h.reminders != 0 {
			r.Fatalf("%d reminders of %d alerts", h.reminders, want)
		}
		if len(c.kept) > 64<<10 {
			r.Fatalf("the state has %d bytes", len(c.kept))
		}
	})
}

// TestManyErrorsDisplaceNoAlertOfAChannel: the groups of errors displace no channel, and what is sent follows the
// rule as it is then.
func TestManyErrorsDisplaceNoAlertOfAChannel(t *testing.T) {
	start := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	c := &clock{t: t, at: start, rule: Rule{Name: "r", When: []Kind{KindFailed, KindChannel}, To: []string{"phone"},
		Text: TextFull, Zone: time.UTC}}
	for i := range maxGroups + 10 {
		c.step(failed(fmt.Sprint("error ", i), c.at))
	}
	c.step(Event{Kind: KindChannel, At: c.at, Subject: "tg"})
	c.step(Event{Kind: KindChannel, At: c.at, Subject: "slack"})
	c.step(Event{Kind: KindChannel, At: c.at.Add(time.Second), Subject: "tg", Ended: true})
	c.rule.Text, c.rule.To = TextNone, []string{"wall", "mail"}
	c.until(start.Add(5 * time.Minute))
	var channels []string
	for _, sent := range c.sent {
		if sent.Alert.Kind == KindChannel {
			channels = append(channels, sent.Alert.Channel)
		}
		if sent.To != "wall" || sent.Alert.Text != TextNone || len(sent.Alert.Then) != 1 {
			t.Errorf("sent by an old rule: %+v", sent)
		}
	}
	if fmt.Sprint(channels) != "[slack]" {
		t.Errorf("sent channels: %v", channels)
	}
}

func outage(agent, run string, at time.Time) Event {
	return Event{Kind: KindOutage, At: at, Subject: agent, Agent: agent, Run: run, Words: "503"}
}

func TestAnOutageIsOneAlertPerAgentAndOneAtItsEnd(t *testing.T) {
	start := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	over := func(agent, run string, at time.Time) Event {
		e := outage(agent, run, at)
		e.Ended = true
		return e
	}
	for name, tc := range map[string]struct {
		after time.Duration
		play  func(c *clock)
		want  []string // minute and whether it is over
	}{
		"of a day": {0, func(c *clock) {
			for range 24 {
				for i := range 3 * maxOutageRuns {
					c.step(outage("codex", fmt.Sprint("r", i), c.at))
				}
				c.until(c.at.Add(time.Hour))
			}
			c.step(over("codex", "", c.at))
			c.until(c.at.Add(2 * time.Hour))
		}, []string{"5 codex false", "1440 codex true"}},
		"shorter": {0, func(c *clock) {
			c.step(outage("codex", "r", c.at))
			c.until(start.Add(4 * time.Minute))
			c.step(over("codex", "", c.at))
			c.until(start.Add(time.Hour))
		}, nil},
		"with a time of the rule": {20 * time.Minute, func(c *clock) {
			c.step(outage("codex", "r", c.at))
			c.until(start.Add(time.Hour))
		}, []string{"20 codex false"}},
		"whose runs are cancelled": {0, func(c *clock) {
			c.step(outage("codex", "a", c.at), outage("codex", "b", c.at))
			c.step(over("codex", "a", c.at), over("codex", "stranger", c.at))
			c.until(start.Add(10 * time.Minute))
			c.step(over("codex", "b", c.at))
			c.until(start.Add(time.Hour))
		}, []string{"5 codex false", "10 codex true"}},
		"of two agents": {0, func(c *clock) {
			c.step(outage("codex", "a", c.at), outage("claude", "b", c.at))
			c.step(over("claude", "", c.at))
			c.until(start.Add(time.Hour))
		}, []string{"5 codex false"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := &clock{t: t, at: start, rule: Rule{Name: "r", When: []Kind{KindOutage}, To: []string{"phone"}, Outage: tc.after,
				Zone: time.UTC}}
			tc.play(c)
			var got []string
			for _, sent := range c.sent {
				a := sent.Alert
				at := int(a.At.Sub(start).Minutes())
				if !a.Ended {
					at += int(cmp.Or(tc.after, DefaultOutage).Minutes())
				}
				got = append(got, fmt.Sprint(at, " ", a.Agent, " ", a.Ended))
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("sent %q, want %q", got, tc.want)
			}
		})
	}
}

// TestNoOwnerHidesTheOutagesOfAnother has more agents that are down than a rule remembers.
func TestNoOwnerHidesTheOutagesOfAnother(t *testing.T) {
	c := &clock{t: t, at: time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC),
		rule: Rule{Name: "r", When: []Kind{KindOutage}, To: []string{"phone"}, Zone: time.UTC}}
	for i := range 3 * maxOutages {
		c.step(outage(fmt.Sprint("a", i), "r", c.at))
	}
	c.step() // which changes nothing, so that the state is read
	if n := len(c.read["r"].Groups); n != maxOutages {
		t.Errorf("%d outages are remembered, want %d", n, maxOutages)
	}
	of := func(owner, agent string) Event {
		e := outage(agent, "r", c.at)
		e.Owner = owner
		return e
	}
	for i := range 3 * maxOutages {
		c.step(of("eve", fmt.Sprint("b", i)))
	}
	c.step(of("ann", "c"))
	c.step()
	if n := len(c.read["r"].Groups); n != maxOutages+maxTokenOutages+1 {
		t.Errorf("%d outages are remembered, want those of the operator, %d of eve and one of ann", n, maxTokenOutages)
	}
}
