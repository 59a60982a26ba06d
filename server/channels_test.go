package server_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/client"
	"mailroom/server"
)

// fakeChannels are fixed channels. resumed has the names passed to Resume.
type fakeChannels struct {
	all     []api.Channel
	resumed []string
}

func (c *fakeChannels) All() []api.Channel { return c.all }

func (c *fakeChannels) Resume(name string) bool {
	c.resumed = append(c.resumed, name)
	return slices.ContainsFunc(c.all, func(ch api.Channel) bool { return ch.Name == name })
}

func TestChannelsAreListed(t *testing.T) {
	at := time.Date(2026, 11, 22, 1, 2, 3, 0, time.UTC)
	why, lag := "the platform answered 500", 3
	want := []api.Channel{
		{Name: "a", Kind: "poll", State: api.ChannelConnected, LastSuccess: &at, ConnectedSince: &at, Since: &at, CursorLag: &lag},
		{Name: "b", Kind: "poll", State: api.ChannelQueued, Reason: &why, LastError: &why, LastErrorAt: &at, NextTry: &at,
			Attempts: 2, Unhandled: 3, DowntimeMS: 1500, Adapter: 3, LeftBehind: 1, Reconnects: 4},
	}
	f := start(t, func(o *server.Options) { o.Parts.Channels = &fakeChannels{all: want} })
	got, err := f.client.Channels(t.Context())
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	f = start(t, func(o *server.Options) { o.Parts.Channels = nil })
	if got, err := f.client.Channels(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("without channels: %v, %v", got, err)
	}
	_, err = f.client.ResumeChannel(t.Context(), "a")
	if mailroom.CodeOf(err) != mailroom.CodeNotFound {
		t.Errorf("got %v", err)
	}
}

func TestAReaderSeesOnlyTheStateOfAChannel(t *testing.T) {
	at := time.Date(2026, 11, 22, 1, 2, 3, 0, time.UTC)
	why, seen := "room !secret answered 500", "42"
	full := api.Channel{Name: "a", Kind: "poll", State: api.ChannelQueued, Reason: &why, LastError: &why, LastErrorAt: &at,
		Cursor: &seen, Unhandled: 3}
	f := start(t, func(o *server.Options) { o.Parts.Channels = &fakeChannels{all: []api.Channel{full}} })
	for _, c := range []struct {
		scope auth.Permission
		want  api.Channel
	}{
		{auth.PermissionWork, api.Channel{Name: "a", Kind: "poll", State: api.ChannelQueued}},
		{auth.PermissionMeasure, full},
	} {
		secret := f.createToken(string(c.scope), "", auth.PermissionRead, c.scope)
		got, err := client.New(f.url, secret).Channels(t.Context())
		if diff := cmp.Diff([]api.Channel{c.want}, got); diff != "" || err != nil {
			t.Errorf("with read and %s: %v %s", c.scope, err, diff)
		}
	}
}

func TestAChannelIsResumedByItsName(t *testing.T) {
	elsewhere := "run by other.example"
	c := &fakeChannels{all: []api.Channel{{Name: "a", State: api.ChannelStandby, Reason: &elsewhere},
		{Name: "b", State: api.ChannelQueued}}}
	f := start(t, func(o *server.Options) { o.Parts.Channels = c })
	got, err := f.client.ResumeChannel(t.Context(), "b")
	if err != nil || got.Name != "b" || got.State != api.ChannelQueued {
		t.Errorf("got %+v, %v", got, err)
	}
	_, err = f.client.ResumeChannel(t.Context(), "c")
	if mailroom.CodeOf(err) != mailroom.CodeNotFound {
		t.Errorf("got %v", err)
	}
	_, err = f.client.ResumeChannel(t.Context(), "a")
	if mailroom.CodeOf(err) != mailroom.CodeConflict || !strings.Contains(err.Error(),
		`channel "a" is run by other.example: resume it there`) {
		t.Errorf("resume at another server: %v, want a conflict that names the server", err)
	}
	if diff := cmp.Diff([]string{"b", "c", "a"}, c.resumed); diff != "" {
		t.Error(diff)
	}
}
