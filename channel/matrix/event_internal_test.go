package matrix

import (
	"encoding/json"
	"strings"
	"testing"

	"mailroom/channel/chat"
)

// FuzzEvent checks that no event causes a panic, that a text contains nothing its author did not
// write, and that firstNew returns a valid index.
func FuzzEvent(f *testing.F) {
	for _, s := range []string{
		`{"event_id":"$1","sender":"@a:b","type":"m.room.message","content":{"msgtype":"m.text","body":"> <@bot:b> x\n> y\n\nz","m.relates_to":{"m.in_reply_to":{"event_id":"$0"}}}}`,
		`{"event_id":"$1","sender":"@a:b","type":"m.room.message","content":{"msgtype":"m.text","body":"Bot: !stop","formatted_body":"<a href=\"https://matrix.to/#/@bot:b\">Bot</a>: !stop","m.mentions":{"user_ids":["@bot:b"]}}}`,
		`{"event_id":"$1","sender":"@a:b","type":"m.room.member","state_key":"@bot:b","content":{"membership":"join"},"unsigned":{"prev_content":{"membership":"invite"}}}`,
		`{"event_id":"$1","sender":"@a:b","type":"m.room.message","content":{"msgtype":"m.file","body":"f","url":"mxc://b/c","info":{"size":1e99}}}`,
		`{"event_id":"$1","sender":"@a:b","type":"m.room.message","content":{"m.new_content":{"body":"@bot:b: a"},"m.relates_to":{"rel_type":"m.replace","event_id":"$0"}}}`,
	} {
		f.Add(s)
	}
	bot := account{ID: "@bot:b", Name: "Bot"}
	n := newMentionMatcher(bot)
	f.Fuzz(func(t *testing.T, raw string) {
		var e event
		if json.Unmarshal([]byte(raw), &e) != nil {
			return
		}
		r := &receiver{connection: &connection{bot: bot}}
		if begin := r.firstNew([]event{e}, r.position); begin < -1 || begin > 1 {
			t.Errorf("%s: first new event %d", raw, begin)
		}
		var said content
		if json.Unmarshal(e.Content, &said) != nil {
			return
		}
		for _, s := range []*content{&said, said.NewContent} {
			if s == nil {
				continue
			}
			plain := s.bodyWithoutQuote()
			if text := n.strip(plain, s.HTML); !strings.HasSuffix(s.Body, text) {
				t.Errorf("%q is read as %q", s.Body, text)
			}
			n.names(*s)
			n.lists(*s)
			s.caption()
			for _, file := range r.attachments(*s) {
				if file.Size < -1 || !strings.HasPrefix(file.URI, "mxc://") {
					t.Errorf("%s has the file %+v", raw, file)
				}
			}
		}
	})
}

// FuzzText checks that jsonBytes matches the encoded length and that the sent body equals the text.
func FuzzText(f *testing.F) {
	for _, s := range []string{"a **b** <c>", "\x00\x1f\"\\\n\r\t\b\f", "é👋", "```go\nx\n```", "\u2028"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "?")
		said := messageContent(chat.Message{Text: text})
		if said.Body != text {
			t.Errorf("%q is sent as %q", text, said.Body)
		}
		if jsonBytes(said.HTML) > maxHTML {
			t.Errorf("%d bytes of HTML", jsonBytes(said.HTML))
		}
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(text); err != nil {
			t.Fatal(err)
		}
		// encoding/json escapes these two characters and homeservers do not.
		more := 3 * (strings.Count(text, "\u2028") + strings.Count(text, "\u2029"))
		if got, want := jsonBytes(text), b.Len()-len("\"\"\n")-more; got != want {
			t.Errorf("%q has %d units, and %d bytes", text, got, want)
		}
	})
}
