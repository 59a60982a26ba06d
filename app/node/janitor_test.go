package node

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/app/config"
	"mailroom/app/datadir"
	"mailroom/auth"
	"mailroom/internal/reserved"
	"mailroom/ledger"
	"mailroom/project"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/storetest"
	"mailroom/thread"
)

// janitorFixture is a ledger over a memory store in a synctest bubble.
type janitorFixture struct {
	*ledger.Ledger
	t     *testing.T
	store store.Store
}

func withJanitorFixture(t *testing.T, f func(d *janitorFixture)) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		d := &janitorFixture{Ledger: ledger.New(store, ledger.Options{Poll: time.Hour, MaxQueued: 100}), t: t, store: store}
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		f(d)
		end()
		d.must(<-ended)
		found, err := storetest.Check(context.Background(), store)
		d.must(err)
		for _, bad := range found {
			t.Error(bad)
		}
	})
}

func (d *janitorFixture) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *janitorFixture) submit(threadID, version string) store.Submitted {
	d.t.Helper()
	out, err := d.Submit(d.t.Context(), thread.Submit{
		Thread: threadID, Agent: "a", AgentVersion: version, Messages: []thread.NewMessage{{Parts: mailroom.Text("hello")}},
	})
	d.must(err)
	return out
}

func (d *janitorFixture) cancel(out store.Submitted) {
	d.t.Helper()
	_, err := d.Cancel(d.t.Context(), out.Run, "anna")
	d.must(err)
}

// firstSeq returns the seq of the first remaining entry of a thread.
func (d *janitorFixture) firstSeq(thread string) int64 {
	d.t.Helper()
	var rows []*mailroom.Thread
	d.must(d.View(d.t.Context(), func(r store.Reader) (err error) {
		rows, err = r.Threads(store.ThreadQuery{IDs: []string{thread}})
		return err
	}))
	if len(rows) != 1 {
		d.t.Fatalf("%d threads named %q", len(rows), thread)
	}
	return rows[0].FirstSeq
}

// runJanitor runs a janitor for a while.
func (d *janitorFixture) runJanitor(k janitor, while time.Duration) {
	k.ledger, k.log = d.Ledger, slog.New(slog.NewTextHandler(d.t.Output(), nil))
	ctx, stop := context.WithTimeout(d.t.Context(), while)
	defer stop()
	var parts sync.WaitGroup
	parts.Go(func() { k.cleanStore(ctx) })
	parts.Go(func() { k.cleanFiles(ctx) })
	parts.Wait()
}

func TestRetentionPurgesOldRuns(t *testing.T) {
	const day = 24 * time.Hour
	withJanitorFixture(t, func(d *janitorFixture) {
		for range 3 {
			d.cancel(d.submit("ended", "1"))
		}
		d.cancel(d.submit("open", "1"))
		d.submit("open", "1")
		d.runJanitor(janitor{retention: 2 * day}, day)
		for _, thread := range []string{"ended", "open"} {
			if got := d.firstSeq(thread); got != 1 {
				d.t.Errorf("first entry of thread %s after one of two days is %d, want 1", thread, got)
			}
		}
		d.cancel(d.submit("ended", "1"))
		d.runJanitor(janitor{retention: 2 * day}, day+2*time.Hour)
		if got, want := d.firstSeq("ended"), int64(10); got != want {
			d.t.Errorf("first entry of thread ended is %d, want %d, of yesterday's run", got, want)
		}
		if got, want := d.firstSeq("open"), int64(4); got != want {
			d.t.Errorf("first entry of thread open is %d, want %d, of its open run", got, want)
		}
		d.runJanitor(janitor{}, 100*day)
		if got, want := d.firstSeq("ended"), int64(10); got != want {
			d.t.Errorf("first entry of thread ended without a retention is %d, want %d", got, want)
		}
	})
}

// The audit log has a retention of its own, longer or shorter than the one of the threads.
func TestTheAuditLogIsKeptByItsOwnRetention(t *testing.T) {
	const day = 24 * time.Hour
	withJanitorFixture(t, func(d *janitorFixture) {
		record := func() {
			ctx := ledger.WithCaller(d.t.Context(), func() ledger.Caller { return ledger.Caller{Name: "ops"} })
			if err := d.Accounts().Record(ctx, ledger.Action{Name: "channel.resume"}); err != nil {
				d.t.Fatal(err)
			}
		}
		record()
		record()
		d.cancel(d.submit("ended", "1"))
		d.runJanitor(janitor{retention: day}, 2*day)
		if got := d.firstSeq(reserved.AuditLog); got != 1 {
			d.t.Errorf("the retention of threads purged the audit log up to %d", got)
		}
		if got := d.firstSeq("ended"); got == 1 {
			d.t.Error("the thread was not purged")
		}
		record()
		d.runJanitor(janitor{keepAudit: 2 * day}, day/2)
		if got := d.firstSeq(reserved.AuditLog); got != 3 {
			d.t.Errorf("the first action kept is %d, want 3", got)
		}
	})
}

// A panic of one job would otherwise end the others until the next start.
func TestAPanicOfOneJobOfTheJanitorEndsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		k := janitor{ // without a ledger, so each of its jobs panics
			oldDefinitions: []store.Definition{{Agent: "a", Version: "1"}}, retention: 100 * time.Hour,
			keepAudit: 100 * time.Hour,
			log:       slog.New(slog.NewTextHandler(&said, nil)),
		}
		ctx, stop := context.WithTimeout(t.Context(), 90*time.Minute)
		defer stop()
		k.cleanStore(ctx)
		for text, want := range map[string]int{"obsolete agent versions": 1, "expired notifications": 2, "old summaries": 2,
			"old entries": 2, "old actions": 2} {
			if got := strings.Count(said.String(), text+" "); got != want {
				t.Errorf("%q failed %d times in an hour and a half, want %d:\n%s", text, got, want, said.String())
			}
		}
	})
}

func TestRetentionEndsAtTheFirstYoungThread(t *testing.T) {
	const day = 24 * time.Hour
	withJanitorFixture(t, func(d *janitorFixture) {
		d.cancel(d.submit("old", "1"))
		<-time.After(3 * day) // virtual time
		for i := range 700 {
			d.cancel(d.submit(fmt.Sprint("young ", i), "1"))
		}
		d.runJanitor(janitor{retention: 2 * day}, time.Hour/2)
		if got := d.firstSeq("old"); got != 4 {
			d.t.Errorf("first entry of the old thread is %d, want 4: its log is empty", got)
		}
		if got := d.firstSeq("young 0"); got != 1 {
			d.t.Errorf("first entry of a young thread is %d, want 1", got)
		}
	})
}

func TestOldSummariesAreDropped(t *testing.T) {
	const day = 24 * time.Hour
	withJanitorFixture(t, func(d *janitorFixture) {
		wantPeriods := func(after string, minutes, hours, days int) {
			d.t.Helper()
			var got []int
			for _, step := range store.Steps() {
				periods := map[time.Time]bool{}
				d.must(d.View(d.t.Context(), func(r store.Reader) error {
					rows, err := r.Count(store.CountQuery{Summaries: &store.SummaryQuery{Step: step}})
					for _, s := range rows.Summaries {
						periods[s.Key.At] = true
					}
					return err
				}))
				got = append(got, len(periods))
			}
			if want := []int{minutes, hours, days}; !slices.Equal(got, want) {
				d.t.Errorf("%s there are %v minutes, hours and days, want %v", after, got, want)
			}
		}
		// A bubble begins at midnight.
		for range 3 {
			d.cancel(d.submit("t", "1"))
			d.runJanitor(janitor{}, 50*time.Minute)
		}
		wantPeriods("at first", 3, 2, 1)
		d.runJanitor(janitor{}, 2*day)
		wantPeriods("after two days", 3, 2, 1)
		d.runJanitor(janitor{}, day-time.Minute) // its last turn is not at the end of the wait
		wantPeriods("after three days", 1, 2, 1)
		d.runJanitor(janitor{}, day)
		wantPeriods("after four days", 0, 2, 1)
		d.cancel(d.submit("t", "1"))
		d.runJanitor(janitor{}, 97*day)
		wantPeriods("after a hundred days", 0, 1, 2)
	})
}

func TestNotificationsExpireWithoutARetention(t *testing.T) {
	const day = 24 * time.Hour
	withJanitorFixture(t, func(d *janitorFixture) {
		by := &auth.Token{Name: "ann", Scopes: auth.Permissions()}
		_, err := d.Projects().Notify(d.t.Context(), project.Notify{Project: "p", By: by,
			Notification: project.Notification{From: "a", To: []string{"b"}, Event: "e"}})
		d.must(err)
		for _, at := range []struct {
			after time.Duration
			found int
		}{{29 * day, 1}, {2 * day, 0}} {
			d.runJanitor(janitor{}, at.after)
			in, err := d.Projects().Inbox(d.t.Context(), ledger.InboxQuery{Project: "p", Agent: "b", By: by, Limit: 9})
			d.must(err)
			if len(in.Found) != at.found {
				d.t.Errorf("%s later b has %d notifications, want %d", at.after, len(in.Found), at.found)
			}
		}
		if got := d.firstSeq("project:p"); got != 1 {
			d.t.Errorf("the log is kept from %d, want 1", got)
		}
	})
}

func TestRetentionDeletesOldFiles(t *testing.T) {
	withJanitorFixture(t, func(d *janitorFixture) {
		files := datadir.Dir(t.TempDir()).Files()
		uri, err := files.Save(t.Context(), "a.png", strings.NewReader("picture"))
		d.must(err)
		path := strings.TrimPrefix(uri, "file://")
		d.must(os.Chtimes(path, time.Now(), time.Now())) // time of the bubble
		for _, at := range []struct {
			after time.Duration
			there bool
		}{{time.Hour, true}, {2 * time.Hour, false}} {
			d.runJanitor(janitor{retention: 2 * time.Hour, files: files}, at.after)
			if _, err := os.Stat(path); (err == nil) != at.there {
				d.t.Errorf("%s later: %v", at.after, err)
			}
		}
	})
}

// A run may wait for an approval, or for its time, longer than the retention; its message is kept.
func TestAFileStaysAsLongAsARunThatMayReadIt(t *testing.T) {
	const day = 24 * time.Hour
	withJanitorFixture(t, func(d *janitorFixture) {
		files := datadir.Dir(d.t.TempDir()).Files()
		there := func(path string) bool {
			_, err := os.Stat(path)
			return err == nil
		}
		save := func(content string) (uri, path string) {
			uri, err := files.Save(d.t.Context(), "a.png", strings.NewReader(content))
			d.must(err)
			path = strings.TrimPrefix(uri, "file://")
			d.must(os.Chtimes(path, time.Now(), time.Now())) // time of the bubble
			return uri, path
		}
		read, open := save("picture")
		_, unused := save("not sent")
		out, err := d.Submit(d.t.Context(), thread.Submit{Thread: "t", Agent: "a", AgentVersion: "1",
			Origin: mailroom.Origin{Via: "channel:c"}, Messages: []thread.NewMessage{{
				Parts: []mailroom.Part{{Type: "text", Text: "see"}, {Type: "file", URI: read, Name: "a.png"}},
			}}})
		d.must(err)
		run := func(while time.Duration) { d.runJanitor(janitor{retention: 2 * day, files: files}, while) }
		run(9 * day)
		if !there(open) || there(unused) {
			d.t.Errorf("after 9 days the file of a run that waits is there: %t, that of no run: %t", there(open), there(unused))
		}
		d.cancel(out)
		run(day)
		if !there(open) || d.firstSeq("t") != 1 {
			d.t.Errorf("a day after the end of the run: first entry %d, file %t; want both", d.firstSeq("t"), there(open))
		}
		run(2 * day)
		if there(open) || d.firstSeq("t") == 1 {
			d.t.Errorf("three days after the end of the run: first entry %d, file %t; want neither", d.firstSeq("t"),
				there(open))
		}
	})
}

func TestDefinitionsInUseAreKept(t *testing.T) {
	withJanitorFixture(t, func(d *janitorFixture) {
		definition := func(agent, version string) store.Definition {
			return store.Definition{Agent: agent, Version: version, Body: json.RawMessage(`{}`)}
		}
		present := definition("a", "3")
		old := []store.Definition{definition("a", "1"), definition("a", "2"), definition("b", "1")}
		d.must(d.KeepDefinitions(d.t.Context(), append([]store.Definition{present}, old...)))
		d.cancel(d.submit("t", "2"))
		d.submit("t", "1")
		d.runJanitor(janitor{oldDefinitions: old}, time.Second)
		got, err := d.Definitions(d.t.Context())
		d.must(err)
		if diff := cmp.Diff([]store.Definition{old[0], present}, got); diff != "" {
			d.t.Errorf("kept (-want +got):\n%s", diff)
		}
	})
}

func TestAgentSetHasTheKeptVersions(t *testing.T) {
	configured := func(text string) *config.Config {
		c, err := config.Parse("f.toml", []byte(text), config.Kinds(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	first, err := newAgentSet(configured("[agents.a]\nkind = \"echo\"\npace = \"1ms\"\n[agents.gone]\nkind = \"echo\""),
		nil, nil, log)
	if err != nil {
		t.Fatal(err)
	}
	if len(first.present) != 5 || len(first.old) != 0 { // including echo, inbox and tour
		t.Fatalf("present %d, old %d definitions, want 5 and none", len(first.present), len(first.old))
	}
	kept := append(first.present, store.Definition{Agent: "a", Version: "broken", Body: json.RawMessage(`{}`)})
	second, err := newAgentSet(configured("[agents.a]\nkind = \"exec\"\ncommand = [\"cat\"]"), kept, nil, log)
	if err != nil {
		t.Fatal(err)
	}
	was := first.agents["a"].Version
	find := func(agent, version string) mailroom.Agent {
		t.Helper()
		found, err := second.agents[agent].OldVersion(t.Context(), version)
		if err != nil {
			t.Error(err)
		}
		return found
	}
	if second.agents["a"].Version == was || find("a", was) == nil || len(second.versions.built) != 1 {
		t.Errorf("version %s with %d older ones, want a new one, and %s as the only older one", second.agents["a"].Version,
			len(second.versions.built), was)
	}
	var old []string
	for _, d := range second.old {
		old = append(old, d.Agent+" "+d.Version)
	}
	want := []string{"a " + was, "gone " + first.agents["gone"].Version, "a broken"}
	if diff := cmp.Diff(want, old); diff != "" {
		t.Errorf("old definitions (-want +got):\n%s", diff)
	}
	later := store.Definition{Agent: "a", Version: "later", Body: kept[0].Body}
	if found := find("a", later.Version); found != nil {
		t.Errorf("found a version that is not stored: %v", found)
	}
	second.versions.read = func(context.Context) ([]store.Definition, error) { return append(kept, later), nil }
	if find("a", later.Version) == nil || find("a", "unknown") != nil {
		t.Error("a version that another server stored is not found, or an unknown one is")
	}
	second.versions.read = nil
	if find("a", later.Version) == nil {
		t.Error("a version that was found is read again")
	}
	for version, want := range map[string]bool{second.agents["a"].Version: true, was: true, "broken": true,
		"unknown": false} {
		if got := second.knowsVersion("a", version); got != want {
			t.Errorf("version %s is known: %v, want %v", version, got, want)
		}
	}
	if !second.knowsVersion("of a remote worker", "any") {
		t.Error("a version of an agent that the server does not have is denied")
	}
	if _, err := first.agents["echo"].OldVersion(t.Context(), "x"); err != nil {
		t.Error(err)
	}
}
