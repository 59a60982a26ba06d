package server_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/client"
	"mailroom/server"
)

// channels are those of a test; resumed are the names that were.
type channels struct {
	all     []client.Channel
	resumed []string
}

func (c *channels) All() []client.Channel { return c.all }

func (c *channels) Resume(name string) bool {
	c.resumed = append(c.resumed, name)
	return slices.ContainsFunc(c.all, func(ch client.Channel) bool { return ch.Name == name })
}

func TestChannelsAreToldAsTheyAre(t *testing.T) {
	at := time.Date(2026, 11, 22, 1, 2, 3, 0, time.UTC)
	why, lag := "the platform answered 500", 3
	want := []client.Channel{
		{Name: "a", Kind: "poll", State: client.ChannelConnected, LastSuccess: &at, ConnectedSince: &at, Since: &at, CursorLag: &lag},
		{Name: "b", Kind: "poll", State: client.ChannelQueued, Reason: &why, LastError: &why, LastErrorAt: &at, NextTry: &at, Attempts: 2, Unhandled: 3, DowntimeMS: 1500, Adapter: 3, LeftBehind: 1, Reconnects: 4},
	}
	f := start(t, func(o *server.Options) { o.Channels = &channels{all: want} })
	got, err := f.client.Channels(t.Context())
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	f = start(t, func(o *server.Options) { o.Channels = nil })
	if got, err := f.client.Channels(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("without channels: %v, %v", got, err)
	}
	_, err = f.client.ResumeChannel(t.Context(), "a")
	if mailroom.CodeOf(err) != mailroom.CodeNotFound {
		t.Errorf("got %v", err)
	}
}

func TestAReaderKnowsOfAChannelWhetherItWorks(t *testing.T) {
	at := time.Date(2026, 11, 22, 1, 2, 3, 0, time.UTC)
	why, seen := "room !secret answered 500", "42"
	full := client.Channel{Name: "a", Kind: "poll", State: client.ChannelQueued, Reason: &why, LastError: &why, LastErrorAt: &at, Cursor: &seen, Unhandled: 3}
	f := start(t, func(o *server.Options) { o.Channels = &channels{all: []client.Channel{full}} })
	for _, c := range []struct {
		scope mailroom.Permission
		want  client.Channel
	}{
		{mailroom.PermissionWork, client.Channel{Name: "a", Kind: "poll", State: client.ChannelQueued}},
		{mailroom.PermissionMeasure, full},
	} {
		secret := f.token(string(c.scope), "", mailroom.PermissionRead, c.scope)
		got, err := client.New(f.url, secret).Channels(t.Context())
		if diff := cmp.Diff([]client.Channel{c.want}, got); diff != "" || err != nil {
			t.Errorf("with read and %s: %v %s", c.scope, err, diff)
		}
	}
}

func TestAChannelIsResumedByItsName(t *testing.T) {
	c := &channels{all: []client.Channel{{Name: "a", State: client.ChannelConnected}, {Name: "b", State: client.ChannelQueued}}}
	f := start(t, func(o *server.Options) { o.Channels = c })
	got, err := f.client.ResumeChannel(t.Context(), "b")
	if err != nil || got.Name != "b" || got.State != client.ChannelQueued {
		t.Errorf("got %+v, %v", got, err)
	}
	_, err = f.client.ResumeChannel(t.Context(), "c")
	if mailroom.CodeOf(err) != mailroom.CodeNotFound {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff([]string{"b", "c"}, c.resumed); diff != "" {
		t.Error(diff)
	}
}
