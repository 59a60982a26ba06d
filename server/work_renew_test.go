package server_test

import (
	"fmt"
	"net/http"
	"testing"

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
