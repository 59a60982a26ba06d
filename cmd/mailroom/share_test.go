package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/client"
)

// TestOneTokenCannotTakeEverySlot fills all slots with slow runs of one token. A run of another token
// starts nevertheless.
func TestOneTokenCannotTakeEverySlot(t *testing.T) {
	h, p := newFixture(t, "runs = 4\n[limits]\nsubmits = 0\n[agents.echo]\npace = \"1m\"\n"), &process{}
	h.process(p)
	_, secret, _ := strings.Cut(h.authorization(), "Bearer ")
	admin := client.New(p.url, secret)
	t.Cleanup(admin.CloseIdle)
	as := func(name string) *client.Client {
		made, err := admin.Accounts().CreateToken(t.Context(),
			api.NewToken{Name: name, Scopes: []auth.Permission{auth.PermissionSubmit, auth.PermissionRead}})
		h.must(err)
		c := client.New(p.url, made.Secret)
		t.Cleanup(c.CloseIdle)
		return c
	}
	hog, other := as("hog"), as("other")
	long := strings.Repeat("word ", 20_000)
	for i := range 20 {
		_, err := hog.Submit(t.Context(), api.Submit{Thread: fmt.Sprintf("hog-%d", i), Text: long})
		h.must(err)
	}
	sent, err := other.Submit(t.Context(), api.Submit{Thread: "mine", Text: "is there room for me"})
	h.must(err)
	late := time.After(waitTimeout)
	for {
		run, err := other.Run(t.Context(), sent.Run)
		h.must(err)
		if run.Status == mailroom.StatusRunning {
			break
		}
		select {
		case <-late:
			t.Fatalf("the other token's run is %s, want running", run.Status)
		case <-time.After(20 * time.Millisecond):
		}
	}
	runs, err := hog.Runs(t.Context(), client.ListQuery{})
	h.must(err)
	running := 0
	for _, r := range runs.Items {
		if r.Status == mailroom.StatusRunning {
			running++
		}
	}
	if running != 4 {
		t.Errorf("the first token has %d running runs, want all 4 slots", running)
	}
}
