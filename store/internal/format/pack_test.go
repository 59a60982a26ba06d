package format

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mailroom"
)

func TestADamagedBodyOfARunIsAnError(t *testing.T) {
	run := mailroom.Run{
		ID: "r", Thread: "t", CreatedAt: time.UnixMicro(1).UTC(), Lineage: []string{"", ""},
		Metadata: map[string]string{"k": ""},
		Steers:   []mailroom.Steer{{Own: &mailroom.Run{ID: "own"}}}, Progress: 0.5, Flushed: true,
		ClaimEnds: time.UnixMicro(2).UTC(), StopGrace: time.Second,
	}
	body := string(AppendRun(nil, &run))
	var back mailroom.Run
	if err := ParseRun(body, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(run, back); diff != "" {
		t.Errorf("parsed (-want +got):\n%s", diff)
	}
	for n := range len(body) {
		// A body cut between two fields is a valid body of a different run.
		var cut mailroom.Run
		if err := ParseRun(body[:n], &cut); err == nil && cut.StopGrace > 0 {
			t.Errorf("the first %d of %d bytes were accepted", n, len(body))
		}
	}
}

func TestARetryByAnOlderVersionRemovesTheDeadline(t *testing.T) {
	at := time.UnixMicro(5).UTC()
	for _, c := range []struct{ was, is mailroom.Status }{
		{mailroom.StatusQueued, mailroom.StatusRunning}, {mailroom.StatusRunning, mailroom.StatusCompleted},
		{mailroom.StatusCancelled, mailroom.StatusQueued},
	} {
		run := mailroom.Run{ID: "r", Status: c.was, Deadline: at}
		body := string(AppendRun(nil, &run))
		older := mailroom.Run{ID: "r", Status: c.was}
		tail := strings.TrimPrefix(body, string(AppendRun(nil, &older))) // what an older version keeps unread
		older.Status = c.is
		var read mailroom.Run
		if err := ParseRun(string(AppendRun(nil, &older))+tail, &read); err != nil {
			t.Fatal(err)
		}
		if kept := read.HasDeadline(); kept != (c.was != mailroom.StatusCancelled) {
			t.Errorf("%s, then %s: the deadline is %v", c.was, c.is, read.Deadline)
		}
	}
}

func TestAClaimByAnOlderVersionTakesNothingFromTheOneBefore(t *testing.T) {
	at := time.UnixMicro(5).UTC()
	was := mailroom.Run{ID: "r", Attempt: 1, Status: mailroom.StatusRunning,
		ClaimSpare: time.Hour, WaitsOn: "w", WaitsSince: at,
		Usage: mailroom.Usage{Model: "m"}} // the last field that the older version knows
	older := was
	older.ClaimSpare, older.WaitsOn, older.WaitsSince = 0, "", time.Time{}
	tail := strings.TrimPrefix(string(AppendRun(nil, &was)), string(AppendRun(nil, &older)))
	for _, c := range []struct {
		attempt int
		status  mailroom.Status
		want    time.Duration
	}{{1, was.Status, time.Hour}, {1, mailroom.StatusQueued, 0}, {2, was.Status, 0}} {
		older.Attempt, older.Status = c.attempt, c.status
		var read mailroom.Run
		if err := ParseRun(string(AppendRun(nil, &older))+tail, &read); err != nil {
			t.Fatal(err)
		}
		if read.ClaimSpare != c.want || (read.WaitsOn != "") != (c.want > 0) || read.WaitsSince.IsZero() != (c.want == 0) {
			t.Errorf("attempt %d, %s: %v to spare, waits on %q since %s", c.attempt, c.status, read.ClaimSpare,
				read.WaitsOn, read.WaitsSince)
		}
	}
}

func TestZeroFieldsTakeNoSpace(t *testing.T) {
	if got := len(AppendRun(nil, &mailroom.Run{})); got != 0 {
		t.Errorf("a run of zeros takes %d bytes, want none", got)
	}
	if got := len(AppendRun(nil, &mailroom.Run{ID: "1234"})); got != 5 {
		t.Errorf("a run with an id of 4 bytes takes %d bytes, want 5", got)
	}
}

// newerRun and newerThread pack rows as a version does that has two more fields.
func newerRun(r *mailroom.Run, own bool, more string) []byte {
	out := r
	if own { // within the nested run too
		copied := *r
		steer := r.Steers[0]
		nested := *steer.Own
		nested.Newer = strings.TrimPrefix(string(newerRun(&nested, false, more)), string(AppendRun(nil, &nested)))
		steer.Own = &nested
		copied.Steers = []mailroom.Steer{steer}
		out = &copied
	}
	return pack(nil, out, func(p *packer, r *mailroom.Run) {
		p.run(r)
		number(p, new(int64))
		text(p, &more)
	})
}

func newerThread(row *mailroom.Thread, more string) []byte {
	return pack(nil, row, func(p *packer, row *mailroom.Thread) {
		p.thread(row)
		number(p, new(int64))
		text(p, &more)
	})
}

func TestFieldsOfANewerVersionSurviveAChange(t *testing.T) {
	const more = "of a newer version"
	run := mailroom.Run{ID: "r", Step: 1, Steers: []mailroom.Steer{{Own: &mailroom.Run{ID: "own"}}}}
	var read mailroom.Run
	if err := ParseRun(string(newerRun(&run, true, more)), &read); err != nil {
		t.Fatal(err)
	}
	if read.ID != "r" || read.Steers[0].Own.ID != "own" {
		t.Errorf("the known fields were read as %+v", read)
	}
	read.Step, read.InputBytes = 2, 0
	run.Step = 2
	if got, want := string(AppendRun(nil, &read)), string(newerRun(&run, true, more)); got != want {
		t.Errorf("a run of a newer version, changed: got body %q, want %q", got, want)
	}

	row := mailroom.Thread{ID: "t", LastSeq: 1, State: map[string]json.RawMessage{"a": json.RawMessage("{}")}}
	var back mailroom.Thread
	if err := ParseThread(string(newerThread(&row, more)), &back); err != nil {
		t.Fatal(err)
	}
	back.LastSeq, row.LastSeq = 900, 900
	if got, want := string(AppendThread(nil, &back)), string(newerThread(&row, more)); got != want {
		t.Errorf("a thread of a newer version, changed: got body %q, want %q", got, want)
	}
}

func TestARunHasNoGroupOfAnEarlierFailure(t *testing.T) {
	end := time.UnixMicro(7).UTC()
	older := mailroom.Run{ID: "r", Status: mailroom.StatusFailed, FinishedAt: end,
		LastMessage: "the last field of the older version"}
	failed := older
	failed.ErrorGroup = "group"
	group := strings.TrimPrefix(string(AppendRun(nil, &failed)), string(AppendRun(nil, &older)))
	for _, c := range []struct {
		end  time.Time
		want string
	}{{end, "group"}, {time.Time{}, ""}, {end.Add(time.Microsecond), ""}} {
		older.FinishedAt = c.end // retried, or retried and failed again, by the older version
		var got mailroom.Run
		if err := ParseRun(string(AppendRun(nil, &older))+group, &got); err != nil || got.ErrorGroup != c.want {
			t.Errorf("ended at %v: got group %q and error %v, want %q", c.end, got.ErrorGroup, err, c.want)
		}
	}
}

func FuzzParseRun(f *testing.F) {
	f.Add(AppendRun(nil, &mailroom.Run{ID: "r", Lineage: []string{"a", ""},
		Steers: []mailroom.Steer{{Own: &mailroom.Run{ID: "own"}}}}))
	f.Add(newerRun(&mailroom.Run{ID: "r", Steers: []mailroom.Steer{{Own: &mailroom.Run{ID: "own"}}}}, true, "more"))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"))
	f.Fuzz(func(t *testing.T, body []byte) {
		var first, second mailroom.Run
		if ParseRun(string(body), &first) != nil {
			return
		}
		if err := ParseRun(string(AppendRun(nil, &first)), &second); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, second, cmpopts.EquateNaNs()); diff != "" {
			t.Errorf("packed again (-first +second):\n%s", diff)
		}
	})
}

func FuzzParseThread(f *testing.F) {
	f.Add(AppendThread(nil, &mailroom.Thread{ID: "t", Unread: map[string]int64{"a": 1}}))
	f.Add(newerThread(&mailroom.Thread{ID: "t"}, "more"))
	f.Fuzz(func(t *testing.T, body []byte) {
		var first, second mailroom.Thread
		if ParseThread(string(body), &first) != nil {
			return
		}
		if err := ParseThread(string(AppendThread(nil, &first)), &second); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, second); diff != "" {
			t.Errorf("packed again (-first +second):\n%s", diff)
		}
	})
}

// A start delay is of the start that it was packed with.
func TestAStartDelayOfAnotherStartIsUnknown(t *testing.T) {
	at := time.UnixMicro(1_000_000).UTC()
	for name, c := range map[string]struct {
		was  mailroom.Run
		now  time.Time // start that an older version sets, which keeps the delay and its start
		want time.Duration
	}{
		"the same start":              {mailroom.Run{StartedAt: at, StartDelay: time.Minute}, at, time.Minute},
		"no delay":                    {mailroom.Run{StartedAt: at}, at, 0},
		"a start by an older version": {mailroom.Run{}, at, -1},
		"a retry by an older version": {mailroom.Run{StartedAt: at, StartDelay: time.Minute}, time.Time{}, -1},
		"another start by an old version": {mailroom.Run{StartedAt: at, StartDelay: time.Minute}, at.Add(time.Microsecond),
			-1},
		"unknown": {mailroom.Run{StartedAt: at, StartDelay: -1}, at, -1},
	} {
		got := mailroom.Run{StartedAt: c.now}
		if err := unpack(string(pack(nil, &c.was, (*packer).startDelay)), &got, (*packer).startDelay); err != nil ||
			got.StartDelay != c.want {
			t.Errorf("%s: got %s and error %v, want %s", name, got.StartDelay, err, c.want)
		}
	}
}

// The error of the last attempt is of the wait for the next one.
func TestTheErrorOfAnotherAttemptIsDropped(t *testing.T) {
	why := &mailroom.RunError{Class: mailroom.ClassTransient, Message: "no luck"}
	was := mailroom.Run{Status: mailroom.StatusQueued, Attempt: 2, LastError: why}
	for name, c := range map[string]struct {
		now  mailroom.Run // as an older version changed it, which keeps the error and its attempt
		want *mailroom.RunError
	}{
		"the same attempt":          {mailroom.Run{Status: mailroom.StatusQueued, Attempt: 2}, why},
		"a start by an old version": {mailroom.Run{Status: mailroom.StatusRunning, Attempt: 3}, nil},
		"a retry by an old version": {mailroom.Run{Status: mailroom.StatusQueued, Attempt: 3}, nil},
		"a cancel by an old version": {mailroom.Run{Status: mailroom.StatusCancelled, Attempt: 2,
			FinishedAt: time.UnixMicro(1)}, nil},
	} {
		got := c.now
		if err := unpack(string(pack(nil, &was, (*packer).lastError)), &got, (*packer).lastError); err != nil ||
			!cmp.Equal(got.LastError, c.want) {
			t.Errorf("%s: got %v and error %v, want %v", name, got.LastError, err, c.want)
		}
	}
}
