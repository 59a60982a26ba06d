package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/api"
	"mailroom/entry"
)

// The natural first worker renews from a timer, which knows nothing of claims that are on their way.
func TestARenewalWithoutHeldReleasesNothing(t *testing.T) {
	f := start(t)
	worker, c := f.claimRemote()
	out := mustCall[api.Renewed](f, "POST /v1/workers/"+worker+"/renew", `{}`)
	if !cmp.Equal(out.Claims, []string{c.Claim}) || len(out.Lost) > 0 || out.LeaseMS != 15000 {
		t.Errorf("renewed: %+v", out)
	}
	f.wantCode("a round without held", f.call("POST /v1/workers/"+worker+"/renew", `{"round":1}`), 422,
		mailroom.CodeInvalid)
	if a := f.callClaim(c.Claim, "settle", `{"number":1,"outcome":"complete","text":"done"}`); a.status != http.StatusOK {
		t.Errorf("settle: %d %s", a.status, a.body)
	}
	out = mustCall[api.Renewed](f, "POST /v1/workers/"+worker+"/renew", `{}`)
	if out.Claims == nil || len(out.Claims) > 0 { // an empty list, unlike a server of an older version
		t.Errorf("claims after the settle: %#v, want none", out.Claims)
	}
}

func TestLiveArgumentsOfATool(t *testing.T) {
	f := start(t)
	_, c := f.claimRemote()
	sub := f.bus.Subscribe(c.Run.Thread, 10)
	defer sub.Close()
	a := f.callClaim(c.Claim, "deltas", `{"channel":"tool","call":"c1","name":"read","offset":0,"text":"{\"path\""}`)
	if a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	got := (<-sub.C).Delta
	if got == nil || got.Channel != entry.ChannelTool || got.Call != "c1" || got.Name != "read" || got.Text != `{"path"` {
		t.Errorf("got %+v", got)
	}
	for _, bad := range []string{`{"channel":"tool","offset":0,"text":"a"}`, `{"call":"c1","offset":0,"text":"a"}`} {
		f.wantCode(bad, f.callClaim(c.Claim, "deltas", bad), 422, mailroom.CodeInvalid)
	}
}

func TestAClaimOfPartsOnlyHasEachTextOnce(t *testing.T) {
	f := start(t)
	worker := f.registerRemote("far", 0).Worker
	f.submitRemote("t", "hello")
	for round, partsOnly := range []bool{true, false} { // the repeat of a round reads the same messages again
		out := mustCall[api.Claims](f, "POST /v1/claims",
			fmt.Sprintf(`{"worker":%q,"max":1,"round":1,"parts_only":%t}`, worker, partsOnly))
		m := out.Claims[0].Messages[0]
		if (m.Text == "") != partsOnly || m.Parts[0].Text != "hello" {
			t.Errorf("round %d, parts_only %t: %+v", round, partsOnly, m)
		}
	}
}

func TestAStepThatAsksForTimeLearnsItsNewDeadline(t *testing.T) {
	f := start(t)
	_, c := f.claimRemote()
	step := func(number int, more string) (out api.Appended) {
		t.Helper()
		a := f.callClaim(c.Claim, "entries", fmt.Sprintf(`{"number":%d,"step":{"name":"x"%s}}`, number, more))
		if err := json.Unmarshal([]byte(a.body), &out); a.status != http.StatusOK || err != nil {
			t.Fatalf("%d %s, %v", a.status, a.body, err)
		}
		return out
	}
	hours := func(n int) int64 { return int64(n) * time.Hour.Milliseconds() }
	for i, w := range []struct {
		more     string
		from, to int64
	}{
		{``, 0, 0},
		{`,"extend":"5m"`, 1, hours(1)}, // less than is left
		{`,"extend":"3h"`, hours(3), hours(3)},
		{`,"extend":"1000h"`, hours(23), hours(24)}, // the bound, less what the test took
	} {
		for range 2 { // the repeat of a step tells the time too
			if got := step(i+1, w.more).DeadlineMS; got < w.from-hours(1)/2 || got > w.to {
				t.Errorf("a step with %q: %d ms are left, want %d to %d", w.more, got, w.from, w.to)
			}
		}
	}
	for _, bad := range []string{`"soon"`, `"-1h"`, `"8761h"`, `5`} {
		a := f.callClaim(c.Claim, "entries", `{"number":5,"step":{"extend":`+bad+`}}`)
		f.wantCode(bad, a, 422, mailroom.CodeInvalid)
	}
	f.call("POST /v1/runs/"+c.Run.ID+"/cancel", "")
	if got := step(5, `,"extend":"10h"`).DeadlineMS; got != 0 {
		t.Errorf("a step after the stop: %d ms, want no more time", got)
	}
}

func TestARenewalSaysWhatASilentAgentWaitsFor(t *testing.T) {
	f := start(t)
	worker, c := f.claimRemote()
	sub := f.bus.Subscribe(c.Run.Thread, 10)
	defer sub.Close()
	renew := func(texts map[string]string) {
		t.Helper()
		raw, err := json.Marshal(api.Renewal{Round: 1, Held: []string{c.Claim}, WaitsOn: texts})
		if err != nil {
			t.Fatal(err)
		}
		mustCall[api.Renewed](f, "POST /v1/workers/"+worker+"/renew", string(raw))
	}
	long := strings.Repeat("x", 10_000)
	for _, w := range []struct{ text, want string }{
		{"tool call:\ncargo test", "tool call: cargo test"}, {long, long[:197] + "…"}, {"", ""},
	} {
		renew(map[string]string{c.Claim: w.text, "no claim": "x", "01890000-0000-7000-8000-000000000000:1": "x"})
		run := mustCall[api.Run](f, "GET /v1/runs/"+c.Run.ID, "")
		if w.want == "" {
			if run.WaitsOn != nil {
				t.Errorf("it waits on %+v", run.WaitsOn)
			}
			continue
		}
		if run.WaitsOn == nil || run.WaitsOn.Text != w.want || run.WaitsOn.Since.IsZero() {
			t.Errorf("it waits on %+v, want %q", run.WaitsOn, w.want)
		}
		if d := (<-sub.C).Delta; d == nil || d.Channel != entry.ChannelWaits || d.Text != w.want || d.Run != c.Run.ID {
			t.Errorf("live: %+v", d)
		}
	}
}
