package server_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom/client"
	"mailroom/server"
)

func TestChannelsAreToldAsTheyAre(t *testing.T) {
	at := time.Date(2026, 11, 22, 1, 2, 3, 0, time.UTC)
	why := "the platform answered 500"
	want := []client.Channel{
		{Name: "a", Kind: "poll", State: client.ChannelConnected, LastSuccess: &at, ConnectedSince: &at},
		{Name: "b", Kind: "poll", State: client.ChannelQueued, Reason: &why, LastError: &why, LastErrorAt: &at, NextTry: &at, Failures: 2, Unhandled: 3},
	}
	f := start(t, func(o *server.Options) { o.Channels = func() []client.Channel { return want } })
	got, err := f.client.Channels(t.Context())
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	f = start(t, func(o *server.Options) { o.Channels = nil })
	if got, err := f.client.Channels(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("without channels: %v, %v", got, err)
	}
}
