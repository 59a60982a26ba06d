package irc

import (
	"fmt"
	"testing"
	"time"

	"mailroom/channel/chat"
)

func TestMessagesThatABouncerRepeatsAreRecognized(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	line := func(ago time.Duration, tags, text string) string {
		return fmt.Sprintf("@time=%s%s :al!~al@h PRIVMSG bot :%s", now.Add(-ago).Format("2006-01-02T15:04:05.000Z"),
			tags, text)
	}
	connect := func(position string, offset time.Duration) *connection {
		c := newTestConnection(t, "server-time", "message-tags", "batch")
		c.connectedAt = now.Add(-offset)
		c.playback.resume(position)
		// the server's clock
		handleLinesAt(t, c, now.Add(-offset), "@time="+now.Format(time.RFC3339Nano)+" :s 302 bot :bot=+bot@h")
		return c
	}
	event := func(c *connection, line string) *chat.Event {
		t.Helper()
		m, ok := parseMessage(line)
		if !ok {
			t.Fatalf("invalid line %q", line)
		}
		e, err := c.handleMessage(m, now)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	for _, offset := range []time.Duration{0, time.Hour, -time.Hour} { // of our clock
		first := connect("", offset)
		one, two := event(first, line(0, "", "do it")), event(first, line(0, "", "do it"))
		other := event(first, line(-time.Millisecond, "", "do it"))
		if one.Key == two.Key || one.Key == other.Key {
			t.Errorf("two messages have the key %s", one.Key)
		}
		again := connect(other.Position, offset)
		again.connectedAt = again.connectedAt.Add(time.Hour)
		for i, want := range []*chat.Event{one, two} {
			if e := event(again, line(0, "", "do it")); e != nil {
				t.Errorf("repetition %d of %s is the event %+v", i+1, want.Key, e)
			}
		}
		soon := connect(one.Position, offset) // a reconnect within the skew of clocks
		soon.connectedAt = soon.connectedAt.Add(30 * time.Second)
		if a, b := event(soon, line(0, "", "do it")), event(soon, line(0, "", "do it")); a == nil || b == nil ||
			a.Key != one.Key || b.Key != two.Key {
			t.Errorf("repeated within a minute: %+v and %+v", a, b)
		}
		if e := event(again, line(7*24*time.Hour, "", "deploy")); e != nil {
			t.Errorf("a line of last week is the event %+v", e)
		}
		missed := event(again, line(-time.Minute, "", "missed"))
		if missed == nil || missed.Position != other.Position {
			t.Errorf("a line that was missed is the event %+v", missed)
		}
		handleLinesAt(t, again, now, "BATCH +a znc.in/playback #dev", "@batch=a BATCH +b x", "BATCH +c netjoin")
		for tags, want := range map[string]bool{";batch=a": false, ";batch=b": false, ";batch=c": true, ";batch=d": true} {
			if e := event(again, line(-2*time.Hour, tags, "in a batch")); (e != nil) != want {
				t.Errorf("with the tags %s: the event %+v", tags, e)
			}
		}
		handleLinesAt(t, again, now, "BATCH -a")
		if e := event(again, line(-3*time.Hour, ";batch=a", "after it")); e == nil {
			t.Error("a message after a batch is left out")
		}
	}
}

func TestServersThatEndNoBatchFillNoMemory(t *testing.T) {
	c := newTestConnection(t)
	for n := range 10 * maxBatches {
		handleLinesAt(t, c, time.Now(), fmt.Sprintf("BATCH +%d chathistory #dev", n), "BATCH", "BATCH x")
	}
	if n := len(c.playback.batches); n > maxBatches {
		t.Errorf("%d open batches", n)
	}
}
