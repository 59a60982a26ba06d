package alert

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"mailroom"
	"mailroom/api"
	"mailroom/internal/digest"
	"mailroom/store"
	"mailroom/store/memory"
)

func testComposer() *composer {
	return &composer{target: "phone", url: "https://mail.example.org", links: NewLinks("s"), life: time.Hour, body: 1000}
}

func ticket(prompt, action, arguments string) *mailroom.Ticket {
	return &mailroom.Ticket{ID: "k", Digest: strings.Repeat("a", 64), Kind: mailroom.TicketApproval, Prompt: prompt,
		Action: action, Arguments: json.RawMessage(arguments), State: mailroom.TicketOpen}
}

func buttons(m Message) string {
	var all []string
	for _, b := range m.Buttons {
		all = append(all, b.Label)
	}
	return strings.Join(all, " ")
}

// TestOnlyAWholeQuestionCanBeApproved: a message that shows a part of what is asked has no button that
// approves it.
func TestOnlyAWholeQuestionCanBeApproved(t *testing.T) {
	for name, test := range map[string]struct {
		text    Text
		ticket  *mailroom.Ticket
		buttons string
		title   string
	}{
		"nothing is shown": {TextNone, ticket("Deploy?", "", "null"), "Deny",
			"codex asks for an approval"},
		"hidden characters make the title too long": {TextTitle, ticket("OK to list?"+strings.Repeat("\u200b", 24)+
			"; rm -rf /srv", "", "null"), "Deny", ""},
		"marks make it too long": {TextTitle, ticket("Read the log"+strings.Repeat("\u202e", 11)+" and delete /srv", "",
			"null"), "Deny", ""},
		"nothing is asked":      {TextFull, ticket(" ", "", "{}"), "Deny", "codex asks for an approval"},
		"all is in the title":   {TextTitle, ticket("Deploy?", "", "null"), "Approve Deny", "codex asks: Deploy?"},
		"the arguments are not": {TextTitle, ticket("Deploy?", "", `{"to":"production"}`), "Deny", "codex asks: Deploy?"},
		"the second line is not": {TextTitle, ticket("Deploy?\nand delete the old one", "", "null"), "Deny",
			"codex asks: Deploy?"},
		"a long title is cut": {TextTitle, ticket(strings.Repeat("x", 130), "", "null"), "Deny", ""},
		"all": {TextFull, ticket("Deploy?", "deploy", `{"to":"production"}`), "Approve Deny",
			"codex asks for an approval"},
		"more than is shown":       {TextFull, ticket(strings.Repeat("x ", 501), "", "null"), "Deny", ""},
		"a lot behind empty lines": {TextFull, ticket("ok"+strings.Repeat("\n", 999)+"rm -rf /", "", "null"), "Deny", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := testComposer().compose(&Alert{Kind: KindTicket, Agent: "codex", Thread: "t", Text: test.text, Count: 1,
				At: time.Now()}, subject{ticket: test.ticket})
			if got := buttons(m); got != test.buttons || test.title != "" && m.Title != test.title {
				t.Errorf("%q, buttons %q, want %q, %q:\n%s", m.Title, got, test.title, test.buttons, m.Body)
			}
			if !strings.HasPrefix(m.URL, "https://mail.example.org/decide#k~") || !m.Urgent {
				t.Errorf("message: %+v", m)
			}
		})
	}
}

func TestHostileTextInAnAlertIsShownWithItsHiddenCharacters(t *testing.T) {
	hostile := "Deploy?\r\nBcc: eve@example.org\x00\u202eevil\u2066\U000e0041 <img src=x onerror=alert(1)> \xff"
	for _, text := range Texts() {
		for _, a := range []*Alert{
			{Kind: KindTicket, Agent: "codex\nX: y", Thread: "t\u202e", Ticket: "k"},
			{Kind: KindFailed, Agent: "codex", Thread: "t", Words: hostile},
			{Kind: KindChannel, Channel: "tg\r\nX: y", Words: hostile},
			{Kind: KindPaused, Agent: "codex", Words: hostile},
			{Kind: KindOutage, Agent: "codex\r\nX: y", Words: hostile},
			{Kind: KindReply, Agent: "codex", Thread: "t\n\n", Words: hostile},
		} {
			a.Text, a.Count = text, 1
			var about subject
			if a.Ticket != "" {
				about.ticket = ticket(hostile, hostile, `{"a":"`+"\u202e"+`"}`)
			}
			m := testComposer().compose(a, about)
			if strings.ContainsAny(m.Title, "\r\n\x00") || utf8.RuneCountInString(m.Title) > MaxTitle ||
				utf8.RuneCountInString(m.Body) > MaxBody {
				t.Errorf("%s %s: title %q", a.Kind, text, m.Title)
			}
			for _, r := range m.Title + m.Body {
				if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) || r == utf8.RuneError {
					t.Errorf("%s %s: %U in %q", a.Kind, text, r, m.Title+m.Body)
				}
			}
			if text == TextNone && strings.Contains(m.Title+m.Body, "evil") {
				t.Errorf("%s: text leaves: %q %q", a.Kind, m.Title, m.Body)
			}
			for _, b := range m.Buttons {
				var body struct{ Link, Decision string }
				if err := json.Unmarshal([]byte(b.Body), &body); err != nil || body.Link == "" || body.Decision == "" {
					t.Errorf("button %+v: %v", b, err)
				}
			}
		}
	}
}

// TestAnUnreachableServerSendsNoLinks: without an address, there is nothing to press.
func TestAnUnreachableServerSendsNoLinks(t *testing.T) {
	c := testComposer()
	c.url = ""
	if m := c.compose(&Alert{Kind: KindTicket, Agent: "codex", Count: 1},
		subject{ticket: ticket("Deploy?", "", "null")}); m.URL != "" || m.Buttons != nil {
		t.Errorf("message: %+v", m)
	}
	c = testComposer()
	c.links = nil
	if m := c.compose(&Alert{Kind: KindTicket, Agent: "codex", Count: 1},
		subject{ticket: ticket("Deploy?", "", "null")}); m.URL != "https://mail.example.org/#/inbox" || m.Buttons != nil {
		t.Errorf("message: %+v", m)
	}
}

// TestTheLongestLinkFits: of a token with the longest name, to a target with the longest one.
func TestTheLongestLinkFits(t *testing.T) {
	thread := SubscriberID(strings.Repeat("ä", 32), strings.Repeat("@", 64), strings.Repeat("f", 16))
	text := NewLinks("s").Sign(Link{Ticket: digest.ID("t"), Digest: digest.Full("d"), Thread: thread,
		Place: strings.Repeat("f", 16), Expires: time.Now()})
	if len(text) > MaxLink {
		t.Errorf("a link has %d bytes, more than %d", len(text), MaxLink)
	}
}

func FuzzOpenLink(f *testing.F) {
	links := NewLinks("s")
	good := Link{Ticket: "k", Digest: "d", Thread: "alert:phone:ann~0f", Place: "p",
		Expires: time.Now().Add(time.Hour).UTC().Truncate(time.Second)}
	f.Add(links.Sign(good))
	f.Add("a~b~c~d~e")
	f.Add("~~~~")
	f.Fuzz(func(t *testing.T, text string) {
		if k, err := links.Open(text, time.Now()); err == nil && k != good {
			t.Errorf("%q opens %+v", text, k)
		}
	})
}

// TestADigestNamesItsPeriod: over the change to summer time, with what waits when it is sent.
func TestADigestNamesItsPeriod(t *testing.T) {
	place := berlin(t)
	about := subject{digest: &Summary{
		From: time.Date(2026, 3, 28, 8, 0, 0, 0, place), Until: time.Date(2026, 3, 29, 8, 0, 0, 0, place), Waiting: 2,
		Ended: map[mailroom.Status]int64{mailroom.StatusCompleted: 7, mailroom.StatusFailed: 3}, Cost: 1_234_000_000,
		Oldest:   time.Date(2026, 3, 29, 11, 30, 0, 0, place),
		Failures: []Failure{{Agent: "codex", Count: 3, Words: "rate limit"}},
	}}
	m := testComposer().compose(&Alert{Kind: KindDigest, Text: TextTitle, Count: 1, Zone: place.String()}, about)
	want := `From 28 March 08:00 CET to 29 March 08:00 CEST:
7 runs completed, 3 failed, 0 cancelled
cost $1.23
questions that wait for a decision now: 2
the oldest since 29 March 11:30 CEST
codex failed 3 times: rate limit`
	if m.Title != "7 done, 3 failed, 2 waiting" || m.Body != want {
		t.Errorf("%q\n%s", m.Title, m.Body)
	}
}

// TestADigestNamesBranches: as many as fit, with the page of the report of its period.
func TestADigestNamesBranches(t *testing.T) {
	about := subject{digest: &Summary{From: time.Date(2026, 1, 1, 8, 0, 0, 0, time.UTC),
		Until: time.Date(2026, 1, 2, 8, 0, 0, 0, time.UTC),
		Branches: &api.Report{MoreBranches: 3, Branches: []api.ReportBranch{
			{Branch: "cart", Agent: "codex", Commits: 2},
			{Branch: "login\u202e", Agent: "codex", Commits: 1, Pushed: "origin", PullRequest: "https://git.example/shop/pull/12"},
			{Branch: "search", Agent: "claude", Commits: 1, Pushed: "origin"},
			{Branch: "a", Left: "x"}, {Branch: "b", Left: "x"}, {Branch: "c", Left: "x"},
		}}}}
	m := testComposer().compose(&Alert{Kind: KindDigest, Text: TextTitle, Count: 1, Zone: "UTC"}, about)
	const want = `branches to review: 9
cart of codex: not pushed
login⟦U+202E⟧ of codex: https://git.example/shop/pull/12
search of claude: pushed to origin
a of : not pushed`
	if !strings.Contains(m.Body, want) || strings.Contains(m.Body, "\nc of") {
		t.Errorf("%s", m.Body)
	}
	about.digest.Branches.MoreThreads = 1
	if got := about.digest.Body(&Alert{Text: TextTitle, Zone: "UTC"}); !strings.Contains(got, "review: at least 9\n") {
		t.Errorf("%s", got)
	}
	if !strings.HasSuffix(m.URL, "/#/report?since=2026-01-01T08:00:00Z&until=2026-01-02T08:00:00Z") {
		t.Errorf("address %q", m.URL)
	}
	m = testComposer().compose(&Alert{Kind: KindDigest, Text: TextNone, Count: 1, Zone: "UTC"}, about)
	if !strings.Contains(m.Body, "branches to review: at least 9") || strings.Contains(m.Body, "cart") {
		t.Errorf("without texts: %s", m.Body)
	}
}

// runsRead counts the lists of runs that are read.
type runsRead struct {
	store.Reader
	lists int
}

func (c *runsRead) Runs(q store.RunQuery) ([]*mailroom.Run, error) {
	c.lists++
	return c.Reader.Runs(q)
}

// TestAShortDigestReadsNoReport: a digest may come each minute.
func TestAShortDigestReadsNoReport(t *testing.T) {
	s := memory.New()
	for period, lists := range map[time.Duration]int{11 * time.Hour: 1, 12 * time.Hour: 2, 24 * time.Hour: 2} {
		err := s.View(t.Context(), func(r store.Reader) error {
			now := r.Now().Truncate(time.Hour)
			c := runsRead{Reader: r}
			got, err := readSummary(&c, now.Add(-period), now, now)
			if c.lists != lists || (got.Branches != nil) != (lists == 2) {
				t.Errorf("a digest of %v reads %d lists of runs; branches: %v", period, c.lists, got.Branches)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// FuzzApproveShowsTheWholeQuestion: a message with the button Approve shows each character of the question, in order:
// as it is, or as a mark with its number if it is invisible.
func FuzzApproveShowsTheWholeQuestion(f *testing.F) {
	f.Add("codex", "OK to list?"+strings.Repeat("\u200b", 24)+"; rm -rf /srv", "", "", 1, 1000)
	f.Add(strings.Repeat("a", 110), "Deploy?", "deploy", "{}", 1, 40)
	f.Add("codex", "Deploy?\nnow", "deploy", `{"to":"\u202e"}`, 2, 300)
	f.Add("codex", "e\u0301\u200d", "\u0301", "[1]", 2, 12)
	f.Fuzz(func(t *testing.T, agent, prompt, action, arguments string, text, body int) {
		if !utf8.ValidString(prompt) || !utf8.ValidString(action) || !utf8.ValidString(arguments) ||
			strings.Contains(prompt+action, "\x00") || body < 1 {
			return // the store keeps valid texts only
		}
		if arguments == "" || !json.Valid([]byte(arguments)) {
			arguments = "null"
		}
		k := ticket(prompt, action, arguments)
		c := testComposer()
		c.body = body
		a := &Alert{Kind: KindTicket, Agent: agent, Thread: "t", Text: Texts()[uint(text)%3], Count: 1, At: time.Now()}
		m := c.compose(a, subject{ticket: k})
		if !strings.Contains(buttons(m), "Approve") {
			return
		}
		for _, part := range asked(k) {
			if !shows(m.Title, part) && !shows(m.Body, part) {
				t.Errorf("%q is approved, shown are %q and %q", part, m.Title, m.Body)
			}
		}
	})
}

// shows reports whether shown has the characters of a text in order, or the number of each that is missing. Blanks
// may differ.
func shows(shown, text string) bool {
	for _, r := range text {
		mark := fmt.Sprintf("U+%04X", r)
		switch at := strings.IndexRune(shown, r); {
		case at >= 0:
			shown = shown[at+utf8.RuneLen(r):]
		case unicode.IsSpace(r):
		default:
			at := strings.Index(shown, mark)
			if at < 0 {
				return false
			}
			shown = shown[at+len(mark):]
		}
	}
	return true
}
