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

	"mailroom/channel/platformtest"
)

// Password is the password of every account.
const Password = "correct horse battery staple"

// Person is a user or bot account. It talks to the homeserver directly, not through a [Proxy].
type Person struct {
	ID     string // such as @ann:test.example
	Token  string
	Device string

	t    testing.TB
	base string
	next int // next transaction number
}

// NewPerson registers an account. An empty name sets no display name.
func NewPerson(t testing.TB, base, user, name string) *Person {
	t.Helper()
	p := &Person{t: t, base: base}
	p.authenticate("POST", "/_matrix/client/v3/register", map[string]any{
		"auth": map[string]any{"type": "m.login.dummy"}, "username": user, "password": Password,
		"initial_device_display_name": "tests",
	})
	if name != "" {
		p.Must("PUT", path("profile", p.ID, "displayname"), map[string]any{"displayname": name}, nil)
	}
	return p
}

// Login creates another device, which the person uses from then on. The previous token stays valid.
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

// Logout revokes the token.
func (p *Person) Logout() {
	p.t.Helper()
	p.Must("POST", path("logout"), struct{}{}, nil)
}

// path returns the path of an API call.
func path(words ...string) string {
	all := "/_matrix/client/v3"
	for _, w := range words {
		all += "/" + url.PathEscape(w)
	}
	return all
}

// Must makes a call that must succeed.
func (p *Person) Must(method, at string, in, out any) {
	p.t.Helper()
	if code, raw := p.Call(method, at, in, out); code != http.StatusOK {
		p.t.Fatalf("%s %s: status %d %s", method, at, code, raw)
	}
}

// Call makes a call and returns its status and body.
func (p *Person) Call(method, at string, in, out any) (int, string) {
	p.t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.send(method, at, "application/json", raw, out)
}

// send makes a call. It repeats idempotent ones on status 500, which Dendrite returns while its
// SQLite is busy.
func (p *Person) send(method, at, kind string, body []byte, out any) (code int, raw string) {
	p.t.Helper()
	for range 20 {
		if code, raw = p.once(method, at, kind, body, out); code != http.StatusInternalServerError ||
			method == http.MethodPost {
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

// NewRoom creates a private room and invites others. direct marks a room for two.
func (p *Person) NewRoom(direct bool, others ...*Person) string {
	p.t.Helper()
	var ids []string
	for _, o := range others {
		ids = append(ids, o.ID)
	}
	return p.CreateRoom(map[string]any{"preset": "private_chat", "is_direct": direct, "invite": ids})
}

// CreateRoom creates a room with the given request body.
func (p *Person) CreateRoom(in map[string]any) string {
	p.t.Helper()
	var made struct {
		Room string `json:"room_id"`
	}
	p.Must("POST", path("createRoom"), in, &made)
	return made.Room
}

// Joins joins a room and returns p.
func (p *Person) Joins(room string) *Person {
	p.t.Helper()
	p.Must("POST", path("rooms", room, "join"), struct{}{}, nil)
	return p
}

// ChangeMember applies "invite", "kick", "ban" or "unban" to a person.
func (p *Person) ChangeMember(what, room string, to *Person) {
	p.t.Helper()
	p.Must("POST", path("rooms", room, what), map[string]any{"user_id": to.ID}, nil)
}

// Says sends a text message and returns its event id. Fields of more are added to its content.
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

// Sends puts an event of any type into a room, and returns its id.
func (p *Person) Sends(room, kind string, content map[string]any) string {
	p.t.Helper()
	p.next++
	var sent struct {
		ID string `json:"event_id"`
	}
	p.Must("PUT", path("rooms", room, "send", kind, fmt.Sprintf("%s-%d", p.Device, p.next)), content, &sent)
	return sent.ID
}

// Sets sets a room's state.
func (p *Person) Sets(room, kind string, content map[string]any) {
	p.t.Helper()
	p.Must("PUT", path("rooms", room, "state", kind, ""), content, nil)
}

// Edits replaces the text of a message.
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

// Deletes redacts an event.
func (p *Person) Deletes(room, of string) {
	p.t.Helper()
	p.next++
	p.Must("PUT", path("rooms", room, "redact", of, fmt.Sprintf("%s-%d", p.Device, p.next)), struct{}{}, nil)
}

// Thread returns content fields that put a message into a thread.
func Thread(root string) map[string]any {
	return map[string]any{"m.relates_to": map[string]any{
		"rel_type": "m.thread", "event_id": root, "is_falling_back": true, "m.in_reply_to": map[string]any{"event_id": root},
	}}
}

// ReplyTo returns content fields that make a message a reply.
func ReplyTo(to string) map[string]any {
	return map[string]any{"m.relates_to": map[string]any{"m.in_reply_to": map[string]any{"event_id": to}}}
}

// Uploads uploads a file and returns its mxc URI.
func (p *Person) Uploads(name, kind string, content []byte) string {
	p.t.Helper()
	var got struct {
		URI string `json:"content_uri"`
	}
	if code, raw := p.send("POST", "/_matrix/media/v3/upload?filename="+url.QueryEscape(name), kind, content,
		&got); code != http.StatusOK {
		p.t.Fatalf("upload: status %d %s", code, raw)
	}
	return got.URI
}

// Downloads returns the name and the content of the file of a message; the name is "" if it has none.
func (p *Person) Downloads(of Event) (name, content string) {
	p.t.Helper()
	uri, _ := of.Content["url"].(string)
	at, ok := strings.CutPrefix(uri, "mxc://")
	if !ok {
		return "", ""
	}
	name, _ = of.Content["filename"].(string)
	code, raw := p.send("GET", "/_matrix/client/v1/media/download/"+at, "application/json", nil, nil)
	if code != http.StatusOK {
		p.t.Fatalf("download: status %d %s", code, raw)
	}
	return name, raw
}

// Event is an event of a room's history.
type Event struct {
	ID      string         `json:"event_id"`
	Type    string         `json:"type"`
	Sender  string         `json:"sender"`
	State   *string        `json:"state_key"`
	Content map[string]any `json:"content"`
}

// Body returns the text of a message, or "".
func (e Event) Body() string {
	body, _ := e.Content["body"].(string)
	return body
}

// relation returns the event's relation type and target.
func (e Event) relation() (kind, of string) {
	r, _ := e.Content["m.relates_to"].(map[string]any)
	kind, _ = r["rel_type"].(string)
	of, _ = r["event_id"].(string)
	return kind, of
}

// History returns the events of a room that the person may see, oldest first.
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
			if len(all) == 0 || all[0].ID != e.ID { // Dendrite returns the first event twice
				all = append([]Event{e}, all...)
			}
		}
		if page.End == "" || page.End == from || len(page.Chunk) == 0 {
			return all
		}
		from = page.End
	}
}

// Messages returns the messages of a person in a room in their current state: edits applied,
// deleted ones left out.
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

// Texts returns the texts of Messages.
func (p *Person) Texts(room string, by *Person) []string {
	p.t.Helper()
	texts := []string{}
	for _, e := range p.Messages(room, by) {
		texts = append(texts, e.Body())
	}
	return texts
}

// IsIn reports whether a person is a member of a room.
func (p *Person) IsIn(room string, who *Person) bool {
	p.t.Helper()
	var in struct {
		Joined map[string]any `json:"joined"`
	}
	p.Must("GET", path("rooms", room, "joined_members"), nil, &in)
	return in.Joined[who.ID] != nil
}

// WaitFor waits until good returns true.
func WaitFor(t testing.TB, what string, good func() bool) {
	t.Helper()
	platformtest.WaitFor(t, what, good)
}
