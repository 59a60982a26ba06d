package project

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"mailroom"
	"mailroom/auth"
)

func TestANotificationIsSentOnce(t *testing.T) {
	a := newProjectFixture(t)
	in := Notify{Project: "p", By: owner(), Key: "k", Notification: Notification{From: "x", Event: "built",
		Data: json.RawMessage(`{"n":1}`)}}
	first, err := a.Notify(in, a.now)
	if err != nil || first != 1 {
		t.Fatalf("Notify() = %d, %v; want 1", first, err)
	}
	if again, err := a.Notify(in, a.now); err != nil || again != first {
		t.Errorf("repeated Notify() = %d, %v; want %d", again, err, first)
	}
	in.Event = "broken"
	if _, err := a.Notify(in, a.now); mailroom.CodeOf(err) != mailroom.CodeConflict {
		t.Errorf("another event with the same key: %v, want a conflict", err)
	}
	in.Key = ""
	for range 2 {
		if _, err := a.Notify(in, a.now); err != nil {
			t.Error(err)
		}
	}
	if a.Thread.LastSeq != 3 ||
		string(a.Thread.Entries()[0].Body) != `{"from":"x","by":"ann","event":"built","data":{"n":1}}` {
		t.Errorf("the log has %d entries, the first is %s", a.Thread.LastSeq, a.Thread.Entries()[0].Body)
	}
	in.By = tokenOf("eve", auth.PermissionSubmit)
	if _, err := a.Notify(in, a.now); mailroom.CodeOf(err) != mailroom.CodeNotFound {
		t.Errorf("Notify with another token: %v, want not_found", err)
	}
}

func TestInvalidNotificationsAreRefused(t *testing.T) {
	a := newProjectFixture(t)
	for location, n := range map[string]Notification{
		"event":   {From: "x"},
		"event: ": {From: "x", Event: strings.Repeat("e", MaxEvent+1)},
		"from":    {Event: "e"},
		"to":      {From: "x", Event: "e", To: []string{"a/b"}},
		"names":   {From: "x", Event: "e", To: make([]string, MaxTo+1)},
		"data":    {From: "x", Event: "e", Data: json.RawMessage(`{`)},
		"larger":  {From: "x", Event: "e", Data: json.RawMessage(`"` + strings.Repeat("d", MaxData) + `"`)},
	} {
		_, err := a.Notify(Notify{Project: "p", By: owner(), Notification: n}, a.now)
		want := mailroom.CodeInvalid
		if location == "larger" {
			location, want = "data: is larger", mailroom.CodeTooLarge
		}
		if mailroom.CodeOf(err) != want || !strings.Contains(err.Error(), strings.TrimRight(location, ": ")) {
			t.Errorf("%s: error %v, want %s", location, err, want)
		}
	}
	if a.Thread.LastSeq != 0 {
		t.Error("refused notifications were written")
	}
}

func TestAnInboxRemembersWhatWasRead(t *testing.T) {
	box := Inbox{Owner: "ann", Read: 2}
	all := &Notification{From: "y"}
	unread := func() (seqs []int64) {
		for seq := int64(1); seq <= 6; seq++ {
			if box.Unread("x", seq, all) {
				seqs = append(seqs, seq)
			}
		}
		return seqs
	}
	want := func(seqs ...int64) {
		t.Helper()
		if got := unread(); !slices.Equal(got, seqs) {
			t.Errorf("unread %v, want %v", got, seqs)
		}
	}
	want(3, 4, 5, 6)
	if err := box.Acknowledge(5, 1, 5); err != nil {
		t.Fatal(err)
	}
	want(3, 4, 6)
	box.Advance(4)
	want(6)
	box.Advance(5)
	if len(box.Done) != 0 {
		t.Errorf("Done = %v, want none", box.Done)
	}
	if box.Unread("x", 6, &Notification{From: "x"}) || box.Unread("x", 6, &Notification{From: "y", To: []string{"z"}}) ||
		!box.Unread("x", 6, &Notification{From: "y", To: []string{"z", "x"}}) {
		t.Error("Unread() ignores the sender or the recipients")
	}
	for i := range int64(MaxPending) {
		if err := box.Acknowledge(10 + i); err != nil {
			t.Fatal(err)
		}
	}
	if err := box.Acknowledge(5000); mailroom.CodeOf(err) != mailroom.CodeTooLarge || box.Unread("x", 10, all) {
		t.Errorf("Acknowledge over the limit: %v, want too_large", err)
	}
	for by, want := range map[*auth.Token]mailroom.Code{owner(): "",
		tokenOf("bob", auth.PermissionSubmit): mailroom.CodeForbidden, tokenOf("root", auth.PermissionAdmin): ""} {
		if err := box.CheckReader(by); mailroom.CodeOf(err) != want {
			t.Errorf("%s: got %v, want %q", by.Name, err, want)
		}
	}
}
