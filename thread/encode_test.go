package thread

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"mailroom"
	"mailroom/entry"
	"mailroom/internal/digest"
)

func TestBodiesAreEncodedAsEncodingJSONDoes(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "plain", `"<&>\`, "ü\u2028"}))
	moment := rapid.Custom(func(t *rapid.T) time.Time {
		return time.UnixMicro(rapid.Int64Range(0, 1<<50).Draw(t, "micros")).UTC()
	})
	data := rapid.SampledFrom([]json.RawMessage{nil, json.RawMessage(`{"a":["<",1e3,null]}`)})
	part := rapid.Custom(func(t *rapid.T) mailroom.Part {
		return mailroom.Part{
			Type: text.Draw(t, "type"), Text: text.Draw(t, "text"), Data: data.Draw(t, "data"),
			URI: text.Draw(t, "uri"), MimeType: text.Draw(t, "mime"), Name: text.Draw(t, "name"),
		}
	})
	list := func(t *rapid.T, name string) []string {
		return rapid.SliceOfN(text, 0, 3).Draw(t, name)
	}
	draft := rapid.Custom(func(t *rapid.T) NewMessage {
		return NewMessage{Role: mailroom.Role(text.Draw(t, "role")), Parts: rapid.SliceOfN(part, 0, 2).Draw(t, "parts"), Visibility: text.Draw(t, "visibility")}
	})
	bodies := rapid.Custom(func(t *rapid.T) any {
		s := func() string { return text.Draw(t, "text") }
		n := func() int { return rapid.Int().Draw(t, "number") }
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			return mailroom.Message{
				ID: s(), Thread: s(), Seq: int64(n()), Role: mailroom.Role(s()), Sender: s(), Text: s(),
				Parts: rapid.SliceOfN(part, 0, 2).Draw(t, "parts"), Visibility: s(), Run: s(), State: s(),
				Partial: rapid.Bool().Draw(t, "partial"), Truncated: rapid.Bool().Draw(t, "cut"), CreatedAt: moment.Draw(t, "at"),
			}
		case 1:
			return entry.RunQueued{
				Agent: s(), AgentVersion: s(), Mode: mailroom.Mode(s()), Priority: n(), AvailableAt: moment.Draw(t, "at"),
				Messages: list(t, "messages"), Origin: mailroom.Origin{Via: s(), Sender: s(), RequestID: s()},
			}
		case 2:
			return entry.RunStarted{Worker: s(), Tickets: list(t, "tickets"), Messages: rapid.SliceOfN(rapid.Int64(), 0, 3).Draw(t, "seqs")}
		case 3:
			return submitDigest{
				Messages: rapid.SliceOfN(draft, 0, 2).Draw(t, "messages"), Agent: s(), Mode: mailroom.Mode(s()), Priority: n(),
				NotBefore: moment.Draw(t, "not before"), Options: data.Draw(t, "options"),
				Decisions: rapid.SampledFrom([][]Decision{nil, {}, {{Ticket: s(), Verdict: mailroom.Verdict(s()), Answer: data.Draw(t, "answer"), Reason: s()}}}).Draw(t, "decisions"),
			}
		}
		if rapid.Bool().Draw(t, "settled") {
			s := settleDigest{Outcome: OutcomeComplete, Failure: s()}
			if rapid.Bool().Draw(t, "said") {
				s.Message = &PartialText{ID: text.Draw(t, "id"), Text: text.Draw(t, "text"), Truncated: rapid.Bool().Draw(t, "cut")}
				s.Wait = &mailroom.Wait{Names: list(t, "names")}
			}
			return s
		}
		c := entry.RunCompleted{Steps: n(), Usage: mailroom.Usage{OutputTokens: int64(rapid.IntRange(0, 1).Draw(t, "tokens")), CostUSD: rapid.SampledFrom([]float64{0, 1.5e-9, math.Copysign(0, -1)}).Draw(t, "cost")}}
		if rapid.Bool().Draw(t, "said") {
			reply := s()
			c.Reply = &reply
		}
		return c
	})
	rapid.Check(t, func(t *rapid.T) {
		body := bodies.Draw(t, "body")
		e, err := entry.New(text.Draw(t, "thread"), 7, text.Draw(t, "entry kind"), text.Draw(t, "run"), 2, moment.Draw(t, "at"), body)
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		if string(e.Body) != string(want) {
			t.Errorf("body\n got %s\nwant %s", e.Body, want)
		}
		type fields mailroom.Entry // without the method that returns the encoded bytes
		if want, err = json.Marshal(fields(e)); err != nil {
			t.Fatal(err)
		}
		if string(e.Raw) != string(want) {
			t.Errorf("entry\n got %s\nwant %s", e.Raw, want)
		}
	})
}

func TestADigestEqualsTheSHA256OfTheJSON(t *testing.T) {
	for _, v := range []any{mailroom.Message{ID: "a", Text: "<ü>\n"}, struct{ Text []string }{[]string{"<ü>\n", ""}}} {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(raw)
		if got, want := digest.Full(v), hex.EncodeToString(sum[:]); got != want {
			t.Errorf("%T: %s, want %s", v, got, want)
		}
	}
}

func TestAShortAndALongSubmitHaveTheDigestOfTheirJSON(t *testing.T) {
	for _, n := range []int{1, maxAppended, maxAppended + 1} {
		in := &Submit{Messages: []NewMessage{{Role: mailroom.RoleUser, Parts: mailroom.Text(strings.Repeat("<", n))}},
			Agent: "a", Mode: mailroom.ModeQueue}
		raw, err := json.Marshal(struct {
			Messages  []NewMessage
			Agent     string
			Mode      mailroom.Mode
			Priority  int
			NotBefore time.Time
			Options   json.RawMessage
			Decisions []Decision
		}{Messages: in.Messages, Agent: "a", Mode: mailroom.ModeQueue, Priority: mailroom.DefaultPriority})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := in.digest(), digest.Short(rawBody(raw)); got != want {
			t.Errorf("%d bytes: %s, want %s", n, got, want)
		}
	}
}

func TestADecodedMessageHasItsTextOnce(t *testing.T) {
	e, err := entry.New("t", 1, entry.KindMessage, "r", 0, time.Time{},
		mailroom.Message{Text: "hello", Parts: mailroom.Text("hello")})
	if err != nil {
		t.Fatal(err)
	}
	var m mailroom.Message
	if err := e.Decode(&m); err != nil {
		t.Fatal(err)
	}
	if m.Text != "hello" || unsafe.StringData(m.Text) != unsafe.StringData(m.Parts[0].Text) {
		t.Errorf("the text %q and its part %q are two copies", m.Text, m.Parts[0].Text)
	}
}
