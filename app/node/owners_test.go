package node

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"mailroom"
	"mailroom/auth"
	"mailroom/channel"
	"mailroom/ledger"
	"mailroom/store/memory"
	"mailroom/thread"
)

// TestAServerSaysAtItsStartWhichOfItsThreadsTokensOwn starts with a chat that a token made before there was a channel.
func TestAServerSaysAtItsStartWhichOfItsThreadsTokensOwn(t *testing.T) {
	l := ledger.New(memory.New(), ledger.Options{})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	bob := &auth.Token{Name: "bob", Scopes: []auth.Permission{auth.PermissionSubmit}}
	for _, in := range []thread.Submit{
		{Thread: "shop:webhook:3", Owner: "bob", By: bob}, {Thread: "shopping", Owner: "bob", By: bob},
		{Thread: "shop:webhook:4", Owner: auth.Operator}, {Thread: "alert:phone:bob", Owner: "bob"},
		{Thread: "alert:phone", Owner: auth.Operator},
	} {
		in.Messages = []thread.NewMessage{{Parts: mailroom.Text("x")}}
		if _, err := l.Submit(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	n := &Node{ledger: l, conversations: []string{channel.Reserved("shop")}, log: slog.New(slog.NewTextHandler(&out, nil))}
	if err := n.warnOfOwners(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "thread=shop:webhook:3 owner=bob") ||
		!strings.Contains(got, "mailroom threads delete shop:webhook:3") {
		t.Errorf("log:\n%s\nwant the chat of bob alone", got)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
