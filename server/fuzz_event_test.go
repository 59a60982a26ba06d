package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"mailroom/api"
	"mailroom/client"
	"mailroom/entry"
	"mailroom/server/ws"
	"mailroom/stream"
)

// cannedTransport answers every request with raw.
type cannedTransport struct{ raw []byte }

func (w cannedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(w.raw)), Request: r}, nil
}

// FuzzEvent checks that a reader gets the events that were written, whatever text they contain.
func FuzzEvent(f *testing.F) {
	f.Add("t", int64(1), 2, "hello")
	f.Add("a\nb", int64(7), 0, "x\n\nevent: gap\ndata: {}\n\n")
	f.Add("\u2028", int64(1<<62), 1<<20, "\xff\r\r\n\x00")
	f.Fuzz(func(t *testing.T, thread string, seq int64, attempt int, text string) {
		if seq < 1 || attempt < 0 {
			return // the ledger never produces these
		}
		thread, text = string([]rune(thread)), string([]rune(text)) // the ledger has valid UTF-8 only
		body := map[string]string{"text": text}
		e, err := entry.New(thread, seq, "x."+text, thread, attempt, time.Unix(1, 0).UTC(), body)
		if err != nil {
			t.Fatal(err)
		}
		events := []stream.Event{
			{Cursor: stream.Cursor{Seq: seq}, Entry: &e},
			{Cursor: stream.Cursor{Seq: seq, Bytes: attempt},
				Delta: &entry.Delta{Run: thread, Attempt: attempt, Message: text, Offset: attempt, Channel: "text", Text: text}},
			{Cursor: stream.Cursor{Seq: seq}, Gap: &stream.Gap{After: seq, Oldest: 1, Last: seq}},
		}
		var b bytes.Buffer
		var want, got []string
		for _, ev := range events {
			name, data, err := ws.EventData(ev)
			if err != nil {
				t.Fatal(err)
			}
			writeEvent(&b, name, ws.EventID(ev), data)
			b.WriteString(": still here\n\n")
			want = append(want, ws.EventID(ev)+" "+name+" "+string(data))
		}
		c := client.New("http://localhost", "", client.WithHTTPClient(&http.Client{Transport: cannedTransport{b.Bytes()}}))
		for ev, err := range c.Follow(t.Context(), client.FollowQuery{Thread: "t"}) {
			if err != nil {
				t.Fatal(err)
			}
			name, v := api.EventEntry, any(ev.Entry)
			if ev.Delta != nil {
				name, v = api.EventDelta, ev.Delta
			} else if ev.Gap != nil {
				name, v = api.EventGap, ev.Gap
			}
			data, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, ev.ID+" "+name+" "+string(data)); len(got) == len(want) {
				break
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("written\n%q\nread\n%q", want, got)
		}
	})
}
