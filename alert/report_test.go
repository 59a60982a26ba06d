package alert_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mailroom"
	"mailroom/alert"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/sqlite"
	"mailroom/thread"
)

// night is a ledger whose runs are played by the test.
type night struct {
	t       interface{ Fatal(...any) }
	ledger  *ledger.Ledger
	workers ledger.Workers
	round   int64
	threads map[string]bool
	held    []thread.ClaimedRun
}

// atNight runs f with a ledger over s.
func atNight(t interface{ Fatal(...any) }, s store.Store, f func(n *night)) {
	l := ledger.New(s, ledger.Options{Lease: 1000 * time.Hour, Poll: time.Hour})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	n := &night{t: t, ledger: l, workers: l.Workers(), threads: map[string]bool{}}
	if _, err := n.workers.Register(ctx, store.Worker{ID: "w"}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}()
	f(n)
}

// done fails the test for an error, unless the state of the run does not allow the change.
func (n *night) done(err error) {
	if err != nil && mailroom.CodeOf(err) != mailroom.CodeConflict {
		n.t.Fatal(err)
	}
}

func (n *night) submit(agent, place string) string {
	n.threads[place] = true
	out, err := n.ledger.Submit(context.Background(), thread.Submit{Thread: place, Agent: agent, Owner: "ann",
		Sender: "ann", Messages: []thread.NewMessage{{Parts: mailroom.Text("work")}}})
	n.done(err)
	return out.Run
}

// claim claims due runs and adds them to those that the worker holds.
func (n *night) claim(agents ...string) {
	n.round++
	most := map[string]int{}
	for _, a := range agents {
		most[a] = 1000
	}
	got, err := n.workers.Claim(context.Background(), thread.ClaimRequest{Worker: "w", Round: n.round, Slots: 1000,
		Agents: most, LastAttempt: true})
	n.done(err)
	n.held = append(n.held, got...)
}

// attempt is how the test plays an attempt.
type attempt struct {
	usage mailroom.Usage
	tree  *entry.Tree
	reply string
	fail  string
	class mailroom.Class
	ask   string
}

// play ends the attempt of a claimed run.
func (n *night) play(c thread.ClaimedRun, w attempt) {
	number := c.Run.Step + 1
	step := mailroom.Step{Name: "turn", Usage: w.usage}
	if w.tree != nil {
		body, err := json.Marshal(w.tree)
		n.done(err)
		step.Entries = []mailroom.AgentEntry{{Kind: entry.KindTree, Body: body}, {Kind: "x.exec.exited", Body: []byte(`{}`)}}
	}
	commit := thread.StepCommit{Claim: c.Claim, Number: number, Step: step}
	if _, err := n.workers.Append(context.Background(), commit); err != nil {
		n.done(err)
		return
	}
	s := thread.Settle{Claim: c.Claim, Number: number + 1, Outcome: thread.OutcomeComplete,
		Message: &thread.PartialText{ID: fmt.Sprintf("%s.%d-1", c.Run.ID, c.Claim.Attempt), Text: w.reply}}
	switch {
	case w.fail != "":
		s.Outcome, s.Message = thread.OutcomeFail, nil
		s.Failure = &mailroom.Failure{Class: w.class, Err: errors.New(w.fail)}
	case w.ask != "":
		name := fmt.Sprint("q", number)
		s.Outcome, s.Message, s.Wait = thread.OutcomePark, nil, &mailroom.Wait{Names: []string{name}}
		s.Asks = []mailroom.Ask{{Name: name, Kind: mailroom.TicketInput, Prompt: w.ask}}
	}
	_, err := n.workers.Settle(context.Background(), s)
	n.done(err)
}

func (n *night) open() (all []*mailroom.Ticket) {
	n.view(func(r store.Reader) (err error) {
		all, err = r.Tickets(store.TicketQuery{States: []mailroom.TicketState{mailroom.TicketOpen}, Oldest: true})
		return err
	})
	return all
}

func (n *night) decide(ticket string) {
	_, err := n.ledger.Decide(context.Background(), thread.Decision{Ticket: ticket, Verdict: mailroom.VerdictAnswer,
		Answer: []byte(`"yes"`), By: "ann"})
	n.done(err)
}

func (n *night) view(f func(store.Reader) error) { n.done(n.ledger.View(context.Background(), f)) }

func (n *night) report(q alert.ReportQuery) (out *api.Report) {
	n.view(func(r store.Reader) (err error) {
		out, err = alert.ReadReport(r, q)
		return err
	})
	return out
}

// everything is the query of a caller that sees all threads.
func everything(since, until time.Time) alert.ReportQuery {
	return alert.ReportQuery{Since: since, Until: until, All: true}
}

// play50 plays a night of 50 agents with 10 runs each.
func (n *night) play50() (since, until time.Time) {
	var agents []string
	for i := range 50 {
		agents = append(agents, fmt.Sprintf("agent-%02d", i))
	}
	for i, agent := range agents { // runs that begin before the night
		n.submit(agent, fmt.Sprintf("early-%02d", i))
	}
	n.claim(agents...)
	<-time.After(3 * time.Hour)
	since = time.Now()
	for round := range 10 {
		for i, agent := range agents {
			if round > 0 {
				n.submit(agent, fmt.Sprintf("task-%02d-%d", i, round))
			}
		}
		n.claim(agents...)
		held := n.held
		n.held = nil
		for k, c := range held {
			usage := mailroom.Usage{InputTokens: 1000 * int64(k+1), OutputTokens: 100, CostUSD: 0.01 * float64(k%7)}
			switch (k + round) % 10 {
			case 0:
				n.play(c, attempt{usage: usage, fail: "tests failed: 3 of 40", class: mailroom.ClassPermanent})
			case 1:
				n.play(c, attempt{usage: usage, ask: "May I delete the old table?"})
			case 2:
				n.play(c, attempt{usage: usage, ask: "Shall I go on?"})
				_, err := n.ledger.Cancel(context.Background(), c.Run.ID, "ann")
				n.done(err)
			default:
				tree := &entry.Tree{Branch: "mailroom/" + c.Run.Thread, Base: "1", Head: "0123456789abcdef", Commits: 1 + k%3}
				if k%3 > 0 {
					tree.Pushed = "origin"
				}
				if k%3 > 1 {
					tree.PullRequest = fmt.Sprintf("https://git.example/team/shop/pull/%d", 100+k)
				}
				n.play(c, attempt{usage: usage, tree: tree, reply: "# Done\n\nThe **tests** pass."})
			}
		}
		for i, k := range n.open() {
			if i < 2 {
				n.decide(k.ID)
			}
		}
		<-time.After(time.Hour)
	}
	return since, time.Now()
}

// TestAReportOfANightSaysWhatItsHistoriesSay plays the night on a store in memory and on a file.
func TestAReportOfANightSaysWhatItsHistoriesSay(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) (store.Store, error){
		"memory": func(*testing.T) (store.Store, error) { return memory.New(), nil },
		"sqlite": func(t *testing.T) (store.Store, error) {
			return sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "mail.db"), sqlite.Options{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := open(t)
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				}()
				atNight(t, s, func(n *night) {
					since, until := n.play50()
					n.compare(everything(since, until))
					n.compare(everything(since.Add(2*time.Hour), since.Add(5*time.Hour)))
					got := n.report(everything(since, until))
					if r := got.Runs; len(got.Agents) != 50 || r.Completed+r.Failed+r.Cancelled+r.Waiting+r.Queued != 500 ||
						len(got.Branches) != 50 || got.MoreBranches < 100 || len(got.Questions.Items) != 30 ||
						got.Questions.Open < 21 {
						t.Fatalf("%d agents, %+v, %d branches and %d more, %d questions of %d open ones and others", len(got.Agents),
							got.Runs, len(got.Branches), got.MoreBranches, len(got.Questions.Items), got.Questions.Open)
					}
					if !slices.IsSortedFunc(got.Questions.Items[:20], func(a, b api.ReportQuestion) int {
						return a.OpenedAt.Compare(*b.OpenedAt)
					}) {
						t.Errorf("the open questions are not sorted, the oldest first: %+v", got.Questions.Items)
					}
					one := n.report(alert.ReportQuery{Since: since, Until: until, All: true, Agent: "agent-07"})
					of := got.Agents[slices.IndexFunc(got.Agents, func(a api.ReportAgent) bool { return a.Agent == "agent-07" })]
					if len(one.Agents) != 1 || !cmp.Equal(one.Agents[0], of) || one.Runs != of.Runs {
						t.Errorf("of one agent: %s", cmp.Diff(one.Agents, []api.ReportAgent{of}))
					}
					n.compareScopes(since, until)
				})
			})
		})
	}
}

// compareScopes compares the report of all threads with the one of their only owner, and with another token's.
func (n *night) compareScopes(since, until time.Time) {
	see := func(name string) func(*mailroom.Thread) bool {
		return (&auth.Token{Name: name, Scopes: []auth.Permission{auth.PermissionRead}}).CanSee
	}
	all := n.report(everything(since, until))
	own := n.report(alert.ReportQuery{Since: since, Until: until, Owner: "ann", See: see("ann")})
	if diff := cmp.Diff(all, own); diff != "" {
		n.t.Fatal("the report of the only owner: ", diff)
	}
	for name, q := range map[string]alert.ReportQuery{
		"another owner":                 {Owner: "bob", See: see("bob")},
		"an owner who may not see them": {Owner: "ann", See: see("bob")},
		"no thread":                     {See: see("bob")},
	} {
		q.Since, q.Until = since, until
		if got := n.report(q); len(got.Agents)+len(got.Branches)+len(got.Questions.Items)+got.Questions.Open > 0 ||
			got.Runs != (api.ReportRuns{}) {
			n.t.Fatal(name, " has ", got.Runs, got.Questions)
		}
	}
}

// TestReportsSayWhatRandomHistoriesSay plays random histories over days. Periods begin and end at any time, also
// at the time of an event, so that runs begin before them and end in them or after them.
func TestReportsSayWhatRandomHistoriesSay(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var ended any // rapid ends a test by a panic, which must leave the bubble
		f := &firstFailure{}
		synctest.Test(t, func(*testing.T) {
			defer func() { ended = recover() }()
			atNight(f, memory.New(), func(n *night) { n.playHistory(rt) })
		})
		if f.text != "" { // apart from other panics: rapid tells failures apart by their lines
			rt.Fatal(f.text)
		}
		if ended != nil {
			panic(ended)
		}
	})
}

// firstFailure keeps the failure that ended a history.
type firstFailure struct{ text string }

func (f *firstFailure) Fatal(args ...any) {
	if f.text == "" {
		f.text = fmt.Sprint(args...)
	}
	panic(f.text)
}

// playHistory plays a history and compares reports of it.
func (n *night) playHistory(rt *rapid.T) {
	times := []time.Time{time.Now()}
	var runs []string
	pick := func(most int, what string) int { return rapid.IntRange(0, most-1).Draw(rt, what) }
	for range rapid.IntRange(1, 40).Draw(rt, "events") {
		switch pick(9, "event") {
		case 0, 1, 2:
			runs = append(runs, n.submit(fmt.Sprint("agent", pick(3, "agent")), fmt.Sprint("t", pick(5, "thread"))))
		case 3, 4, 5:
			n.claim("agent0", "agent1", "agent2")
			if len(n.held) > 0 {
				at := pick(len(n.held), "held")
				c := n.held[at]
				n.held = slices.Delete(n.held, at, at+1)
				n.playAny(rt, c)
			}
		case 6:
			if open := n.open(); len(open) > 0 {
				n.decide(open[pick(len(open), "ticket")].ID)
			}
		case 7:
			if len(runs) > 0 {
				_, err := n.ledger.Cancel(context.Background(), runs[pick(len(runs), "run")], "ann")
				n.done(err)
			}
		case 8:
			if len(runs) > 0 {
				_, err := n.ledger.Retry(context.Background(), thread.Retry{Run: runs[pick(len(runs), "run")], By: "ann"})
				n.done(err)
			}
		}
		times = append(times, time.Now())
		<-time.After(time.Duration(pick(9*60, "minutes")) * time.Minute)
	}
	times = append(times, time.Now().Add(time.Second))
	for range 5 {
		from, to := times[pick(len(times), "since")], times[pick(len(times), "until")]
		if from.Before(to) && time.Since(from) < 6*24*time.Hour {
			n.compare(everything(from, to))
		}
	}
}

// playAny plays an attempt at random.
func (n *night) playAny(rt *rapid.T, c thread.ClaimedRun) {
	w := attempt{usage: mailroom.Usage{InputTokens: rapid.Int64Range(0, 1000).Draw(rt, "tokens"),
		CostUSD: float64(rapid.IntRange(0, 100).Draw(rt, "cents")) / 100}}
	switch rapid.IntRange(0, 4).Draw(rt, "work") {
	case 0:
		w.fail, w.class = "broken", mailroom.ClassPermanent
	case 1:
		w.fail, w.class = "the network is down", mailroom.ClassTransient
	case 2:
		w.ask = "Shall I?"
	case 3:
		w.reply, w.tree = "done", &entry.Tree{Branch: fmt.Sprint("b", c.Run.FirstSeq), Commits: 1}
	default:
		w.reply = "done"
	}
	n.play(c, w)
}

// TestAReportShowsTextsOfOthersInOneSafeLine has replies, errors, questions and branches that a page, a terminal or a
// Markdown reader must not take for anything else than text.
func TestAReportShowsTextsOfOthersInOneSafeLine(t *testing.T) {
	hostile := "<script>alert(1)</script> \x1b[2J\x1b]0;x\x07 \u202e evil \u2066 \x00\r\nnext " +
		strings.Repeat("x", 1_000_000)
	clean := strings.ReplaceAll(hostile, "\x00", "") // no text of a message has a NUL
	synctest.Test(t, func(t *testing.T) {
		atNight(t, memory.New(), func(n *night) {
			since := time.Now()
			for _, id := range []string{"a", "b", "c"} {
				n.submit("worker", id)
			}
			n.claim("worker")
			n.play(n.held[0], attempt{reply: clean, tree: &entry.Tree{Branch: hostile[:8000], Commits: 1, Left: hostile[:8000],
				PullRequest: "javascript://x/%0adocument.title=1"}})
			n.play(n.held[1], attempt{fail: clean, class: mailroom.ClassPermanent})
			n.play(n.held[2], attempt{ask: clean[:8000]})
			raw, err := json.Marshal(n.report(everything(since, time.Now().Add(time.Second))))
			if err != nil {
				t.Fatal(err)
			}
			if len(raw) > 8000 {
				t.Errorf("the report has %d bytes", len(raw))
			}
			var all any
			if err := json.Unmarshal(raw, &all); err != nil {
				t.Fatal(err)
			}
			eachText(all, func(text string) {
				if strings.ContainsAny(text, "\x00\x07\x1b\r\n\u202e\u2066") || len([]rune(text)) > 300 {
					t.Errorf("text %q", text)
				}
			})
			if got := string(raw); strings.Contains(got, "javascript") || !strings.Contains(got, "script") {
				t.Errorf("got %s", got)
			}
		})
	})
}

func eachText(v any, f func(string)) {
	switch v := v.(type) {
	case string:
		f(v)
	case []any:
		for _, x := range v {
			eachText(x, f)
		}
	case map[string]any:
		for _, x := range v {
			eachText(x, f)
		}
	}
}

// counted counts the rows that a reader returns.
type counted struct {
	store.Reader
	rows, calls int
}

func (c *counted) Runs(q store.RunQuery) ([]*mailroom.Run, error) {
	rows, err := c.Reader.Runs(q)
	if q.Limit == 0 && len(q.IDs) == 0 || len(q.Statuses) > 0 && q.Agent != "" { // no index has both
		c.rows = math.MaxInt32
	}
	c.rows, c.calls = c.rows+len(rows), c.calls+1
	return rows, err
}

func (c *counted) Threads(q store.ThreadQuery) ([]*mailroom.Thread, error) {
	rows, err := c.Reader.Threads(q)
	c.rows, c.calls = c.rows+len(rows), c.calls+1
	return rows, err
}

func (c *counted) Tickets(q store.TicketQuery) ([]*mailroom.Ticket, error) {
	rows, err := c.Reader.Tickets(q)
	if len(q.Kinds) > 0 && len(q.States) == 0 { // a store looks at all tickets of other kinds
		c.rows = math.MaxInt32
	}
	c.rows, c.calls = c.rows+len(rows), c.calls+1
	return rows, err
}

func (c *counted) Entries(q store.EntryQuery) ([]mailroom.Entry, error) {
	if q.Limit != 1 || q.Before-q.After > 20 {
		c.rows = math.MaxInt32
	}
	c.calls++
	return c.Reader.Entries(q)
}

// TestAReportReadsNoMoreRowsInALongHistory reads the report of the same night behind none and behind thousands of
// older runs.
func TestAReportReadsNoMoreRowsInALongHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads []int
		for _, older := range []int{0, 3000} {
			atNight(t, memory.New(), func(n *night) {
				for i := range older {
					n.submit("old", fmt.Sprint("o", i%100))
				}
				for range older / 100 {
					n.claim("old")
					for _, c := range n.held {
						n.play(c, attempt{reply: "done"})
					}
					n.held = nil
				}
				<-time.After(30 * 24 * time.Hour)
				since, until := n.play50()
				n.view(func(r store.Reader) error {
					c := &counted{Reader: r}
					_, err := alert.ReadReport(c, everything(since, until))
					reads = append(reads, c.rows, c.calls)
					return err
				})
			})
		}
		if before, after := reads[0], reads[2]; after > before+500 || reads[3] > reads[1]+2 {
			t.Errorf("%d rows in %d calls, and %d in %d behind older runs", before, reads[1], after, reads[3])
		}
	})
}

// TestARunThatWaitedForDaysIsInTheReportOfItsEnd has more runs between the begin and the end of a run than a page.
func TestARunThatWaitedForDaysIsInTheReportOfItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		atNight(t, memory.New(), func(n *night) {
			n.submit("slow", "slow")
			n.claim("slow")
			n.play(n.held[0], attempt{ask: "Shall I?"})
			for i := range 3000 {
				n.submit("quick", fmt.Sprint("q", i))
				if i%1000 == 0 {
					<-time.After(24 * time.Hour)
				}
			}
			n.held = nil
			since := time.Now()
			n.decide(n.open()[0].ID)
			n.claim("slow")
			n.play(n.held[0], attempt{reply: "done"})
			q := everything(since, time.Now().Add(time.Minute))
			got := n.report(q)
			if got.Runs.Completed != 1 || got.Questions.Decided != 1 || got.Runs.Queued != 3000 {
				t.Errorf("got %+v and %+v", got.Runs, got.Questions)
			}
		})
	})
}

// TestAReportSaysOfHowManyThreadsItLooksUpNoBranch: it looks up those of 500 threads, each by a read of its own.
func TestAReportSaysOfHowManyThreadsItLooksUpNoBranch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		atNight(t, memory.New(), func(n *night) {
			since := time.Now()
			for i := range 520 {
				n.submit("coder", fmt.Sprint("t", i))
			}
			n.claim("coder")
			for i, c := range n.held {
				n.play(c, attempt{reply: "done", tree: &entry.Tree{Branch: fmt.Sprint("b", i), Commits: 1}})
			}
			got := n.report(everything(since, time.Now().Add(time.Minute)))
			if len(got.Branches) != 50 || got.MoreBranches != 450 || got.MoreThreads != 20 || got.Runs.Completed != 520 {
				t.Errorf("%d branches, %d more, %d threads more, %+v", len(got.Branches), got.MoreBranches, got.MoreThreads,
					got.Runs)
			}
		})
	})
}
