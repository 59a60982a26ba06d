package matrixtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// Password is that of all who are here.
const Password = "correct horse battery staple"

// Person is an account, of somebody or of a bot, at a homeserver that is reached
// directly.
type Person struct {
	ID     string // such as @ann:test.example
	Token  string
	Device string

	t    testing.TB
	base string
	next int // number of the next transaction
}

// NewPerson makes an account with a display name, "" for none.
func NewPerson(t testing.TB, base, user, name string) *Person {
	t.Helper()
	p := &Person{t: t, base: base}
	p.authenticate("POST", "/_matrix/client/v3/register", map[string]any{
		"auth": map[string]any{"type": "m.login.dummy"}, "username": user, "password": Password, "initial_device_display_name": "tests",
	})
	if name != "" {
		p.Must("PUT", path("profile", p.ID, "displayname"), map[string]any{"displayname": name}, nil)
	}
	return p
}

// Login logs the account in once more, as another device, which the person has from
// now on. The token before stays good.
func (p *Person) Login() {
	p.t.Helper()
	p.authenticate("POST", "/_matrix/client/v3/login", map[string]any{
		"type": "m.login.password", "identifier": map[string]any{"type": "m.id.user", "user": p.ID}, "password": Password,
	})
}

func (p *Person) authenticate(method, at string, in any) {
	p.t.Helper()
	var got struct {
		ID     string `json:"user_id"`
		Token  string `json:"access_token"`
		Device string `json:"device_id"`
	}
	p.Must(method, at, in, &got)
	p.ID, p.Token, p.Device = got.ID, got.Token, got.Device
}

// Logout has the token not be known any more.
func (p *Person) Logout() {
	p.t.Helper()
	p.Must("POST", path("logout"), struct{}{}, nil)
}

// path is that of a call.
func path(words ...string) string {
	all := "/_matrix/client/v3"
	for _, w := range words {
		all += "/" + url.PathEscape(w)
	}
	return all
}

// Must makes a call that has to go well.
func (p *Person) Must(method, at string, in, out any) {
	p.t.Helper()
	if code, raw := p.Call(method, at, in, out); code != http.StatusOK {
		p.t.Fatalf("%s %s is answered %d %s", method, at, code, raw)
	}
}

// Call makes one, and returns how it was answered.
func (p *Person) Call(method, at string, in, out any) (int, string) {
	p.t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.send(method, at, "application/json", raw, out)
}

// send makes a call. One that does no harm twice is made again while it is answered
// with 500, which Dendrite does when its SQLite is busy.
func (p *Person) send(method, at, kind string, body []byte, out any) (code int, raw string) {
	p.t.Helper()
	for range 20 {
		if code, raw = p.once(method, at, kind, body, out); code != http.StatusInternalServerError || method == http.MethodPost {
			break
		}
		<-time.After(100 * time.Millisecond)
	}
	return code, raw
}

func (p *Person) once(method, at, kind string, body []byte, out any) (int, string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.base+at, bytes.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+p.Token)
	req.Header.Set("Content-Type", kind)
	a, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer a.Body.Close()
	raw, err := io.ReadAll(a.Body)
	if err == nil && out != nil && a.StatusCode == http.StatusOK {
		err = json.Unmarshal(raw, out)
	}
	if err != nil {
		p.t.Fatalf("%s %s: %v", method, at, err)
	}
	return a.StatusCode, string(raw)
}

// NewRoom makes a room with others. A direct one is for two.
func (p *Person) NewRoom(direct bool, others ...*Person) string {
	p.t.Helper()
	var ids []string
	for _, o := range others {
		ids = append(ids, o.ID)
	}
	return p.CreateRoom(map[string]any{"preset": "private_chat", "is_direct": direct, "invite": ids})
}

// CreateRoom makes a room as it is said.
func (p *Person) CreateRoom(in map[string]any) string {
	p.t.Helper()
	var made struct {
		Room string `json:"room_id"`
	}
	p.Must("POST", path("createRoom"), in, &made)
	return made.Room
}

// Joins goes into a room; p is returned.
func (p *Person) Joins(room string) *Person {
	p.t.Helper()
	p.Must("POST", path("rooms", room, "join"), struct{}{}, nil)
	return p
}

// ChangeMember makes a change of somebody's being in a room: "invite", "kick", "ban", "unban".
func (p *Person) ChangeMember(what, room string, to *Person) {
	p.t.Helper()
	p.Must("POST", path("rooms", room, what), map[string]any{"user_id": to.ID}, nil)
}

// Leaves goes out of a room.
func (p *Person) Leaves(room string) {
	p.t.Helper()
	p.Must("POST", path("rooms", room, "leave"), struct{}{}, nil)
}

// Says says a text, and returns the id of the event. Each of more adds to its content.
func (p *Person) Says(room, text string, more ...map[string]any) string {
	p.t.Helper()
	content := map[string]any{"msgtype": "m.text", "body": text}
	for _, m := range more {
		for k, v := range m {
			content[k] = v
		}
	}
	return p.Sends(room, "m.room.message", content)
}

// Sends sends an event of any kind.
func (p *Person) Sends(room, kind string, content map[string]any) string {
	p.t.Helper()
	p.next++
	return p.SendsAs(room, kind, content, fmt.Sprintf("%s-%d", p.Device, p.next))
}

// SendsAs sends an event under a transaction id.
func (p *Person) SendsAs(room, kind string, content map[string]any, transaction string) string {
	p.t.Helper()
	var sent struct {
		ID string `json:"event_id"`
	}
	p.Must("PUT", path("rooms", room, "send", kind, transaction), content, &sent)
	return sent.ID
}

// Sets sets a part of a room's state.
func (p *Person) Sets(room, kind string, content map[string]any) {
	p.t.Helper()
	p.Must("PUT", path("rooms", room, "state", kind, ""), content, nil)
}

// Edits replaces what was said.
func (p *Person) Edits(room, of, text string, more ...map[string]any) string {
	p.t.Helper()
	now := map[string]any{"msgtype": "m.text", "body": text}
	for _, m := range more {
		for k, v := range m {
			now[k] = v
		}
	}
	return p.Says(room, "* "+text, map[string]any{
		"m.new_content": now, "m.relates_to": map[string]any{"rel_type": "m.replace", "event_id": of},
	})
}

// Deletes takes an event back.
func (p *Person) Deletes(room, of string) {
	p.t.Helper()
	p.next++
	p.Must("PUT", path("rooms", room, "redact", of, fmt.Sprintf("%s-%d", p.Device, p.next)), struct{}{}, nil)
}

// Thread says that a message is in the thread of another.
func Thread(root string) map[string]any {
	return map[string]any{"m.relates_to": map[string]any{
		"rel_type": "m.thread", "event_id": root, "is_falling_back": true, "m.in_reply_to": map[string]any{"event_id": root},
	}}
}

// ReplyTo says that a message is a reply to another.
func ReplyTo(to string) map[string]any {
	return map[string]any{"m.relates_to": map[string]any{"m.in_reply_to": map[string]any{"event_id": to}}}
}

// Uploads keeps a file, and returns its address.
func (p *Person) Uploads(name, kind string, content []byte) string {
	p.t.Helper()
	var got struct {
		URI string `json:"content_uri"`
	}
	if code, raw := p.send("POST", "/_matrix/media/v3/upload?filename="+url.QueryEscape(name), kind, content, &got); code != http.StatusOK {
		p.t.Fatalf("a file is answered %d %s", code, raw)
	}
	return got.URI
}

// Event is one in a room's history.
type Event struct {
	ID      string         `json:"event_id"`
	Type    string         `json:"type"`
	Sender  string         `json:"sender"`
	State   *string        `json:"state_key"`
	Content map[string]any `json:"content"`
}

// Body is the text of a message, "" without one.
func (e Event) Body() string {
	body, _ := e.Content["body"].(string)
	return body
}

// relation is how it belongs to another.
func (e Event) relation() (kind, of string) {
	r, _ := e.Content["m.relates_to"].(map[string]any)
	kind, _ = r["rel_type"].(string)
	of, _ = r["event_id"].(string)
	return kind, of
}

// History are the events of a room that the person may see, the oldest first.
func (p *Person) History(room string) (all []Event) {
	p.t.Helper()
	from := ""
	for {
		var page struct {
			Chunk []Event `json:"chunk"`
			End   string  `json:"end"`
		}
		q := url.Values{"dir": {"b"}, "limit": {"100"}}
		if from != "" {
			q.Set("from", from)
		}
		p.Must("GET", path("rooms", room, "messages")+"?"+q.Encode(), nil, &page)
		for _, e := range page.Chunk {
			if len(all) == 0 || all[0].ID != e.ID { // Dendrite has the first one twice
				all = append([]Event{e}, all...)
			}
		}
		if page.End == "" || page.End == from || len(page.Chunk) == 0 {
			return all
		}
		from = page.End
	}
}

// Messages are the messages of somebody in a room as they read by now: edited, and
// without those that were deleted.
func (p *Person) Messages(room string, by *Person) (all []Event) {
	p.t.Helper()
	at := map[string]int{}
	for _, e := range p.History(room) {
		if e.Sender != by.ID || e.Type != "m.room.message" || e.Content["msgtype"] == nil {
			continue
		}
		if kind, of := e.relation(); kind == "m.replace" {
			if i, ok := at[of]; ok {
				all[i].Content, _ = e.Content["m.new_content"].(map[string]any)
			}
			continue
		}
		at[e.ID] = len(all)
		all = append(all, e)
	}
	return all
}

// Texts are those of what somebody has said.
func (p *Person) Texts(room string, by *Person) []string {
	p.t.Helper()
	texts := []string{}
	for _, e := range p.Messages(room, by) {
		texts = append(texts, e.Body())
	}
	return texts
}

// IsIn reports whether somebody is in a room of the person's.
func (p *Person) IsIn(room string, who *Person) bool {
	p.t.Helper()
	var in struct {
		Joined map[string]any `json:"joined"`
	}
	p.Must("GET", path("rooms", room, "joined_members"), nil, &in)
	return in.Joined[who.ID] != nil
}

// WaitFor waits until something is as it should be.
func WaitFor(t testing.TB, what string, good func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(30 * time.Second)
	for !good() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("never: %s", what)
		}
	}
}

// Dump tells a room's history, for failures.
func (p *Person) Dump(room string) string {
	p.t.Helper()
	var out strings.Builder
	for _, e := range p.History(room) {
		raw, _ := json.Marshal(e.Content) // it was made of JSON
		fmt.Fprintf(&out, "%s %s %s %s\n", e.ID, e.Sender, e.Type, raw)
	}
	return out.String()
}
