package channeltest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/internal/machinetest"
)

// sendCases are the cases about calls to the platform.
func sendCases() map[string]func(r *Recorder) {
	return map[string]func(r *Recorder){
		"a message is sent and edited":               sentAndEdited,
		"failures of a send are classified":          sendFaults,
		"a message that was not sent":                unsent,
		"a rate limit is reported without a retry":   rateLimitReported,
		"a message is found by its key":              foundByKey,
		"a call with rejected credentials":           callRejected,
		"a file is fetched when it is opened":        fileOpened,
		"a room that the platform does not have":     unknownRoom,
		"a send that gets no response within a time": sendHangs,
	}
}

// connection is a connected platform and Ann's private room.
type connection struct {
	*Recorder
	p  chat.Platform
	to chat.Room
}

// connect starts the recorder and makes Ann's room known.
func (r *Recorder) connect() *connection {
	r.t.Helper()
	p := r.Start().AwaitConnected()
	r.say(Ann, Ann, "hello")
	e := r.AwaitEvents(1)[0]
	return &connection{r, p, e.Room}
}

// send sends a text to Ann.
func (c *connection) send(text, key string) (id string, err error) {
	return c.p.Send(c.t.Context(), c.to, chat.Message{Text: text}, key)
}

// shown returns what Ann sees.
func (c *connection) shown() []Shown { return c.Recorder.p.People.Shown(Ann) }

// sentAndEdited sends markup, buttons and a reply, and edits the message.
func sentAndEdited(r *Recorder) {
	p := r.Start().AwaitConnected()
	asked := r.say(Ann, Ann, "well?")
	to := r.AwaitEvents(1)[0].Room
	m := chat.Message{Text: "**Run** `rm <x>`?", ReplyTo: asked}
	caps := r.Capabilities()
	if caps.Buttons {
		m.Buttons = []chat.Button{{Label: "Approve", Data: strings.Repeat("a", 64)}, {Label: "Deny", Data: "d"}}
	}
	id, err := p.Send(r.t.Context(), to, m, "key")
	if err != nil {
		r.t.Fatal(err)
	}
	r.Await("the message", func() bool { return len(r.p.People.Shown(Ann)) == 1 })
	is := r.p.People.Shown(Ann)[0]
	text := strings.NewReplacer("*", "", "`", "").Replace(is.Text)
	if is.ID != id || text != "Run rm <x>?" || len(is.Buttons) != len(m.Buttons) ||
		caps.Buttons && is.Buttons[0] != m.Buttons[0] {
		r.t.Errorf("sent as %q: %+v", id, is)
	}
	if caps.Edits {
		for range 2 { // the second edit changes nothing
			if err := p.Edit(r.t.Context(), to, id, chat.Message{Text: "Approved."}); err != nil {
				r.t.Fatal(err)
			}
		}
		r.Await("the edit", func() bool { return r.p.People.Shown(Ann)[0].Text == "Approved." })
		if is := r.p.People.Shown(Ann); len(is) != 1 || len(is[0].Buttons) != 0 {
			r.t.Errorf("messages after the edit: got %+v, want one without buttons", is)
		}
	}
	if caps.Typing {
		if err := p.Typing(r.t.Context(), to); err != nil {
			r.t.Error(err)
		}
	}
}

// sendFaults makes sends fail in every way. No failure may end the connection.
func sendFaults(r *Recorder) {
	c := r.connect()
	broken, notForwarded := ClassUnknown, mailroom.ClassUnavailable
	if r.p.Calls.StatusOnly { // and connected to directly
		broken, notForwarded = "", mailroom.ClassPermanent
	}
	faults := append([]SendFault{
		OnSend(Fault{Half: true}, broken),
		OnSend(Fault{Raw: "what?"}, broken),
		OnSend(Fault{Lose: true}, ClassUnknown),
		OnSend(Fault{Status: 502, Raw: "<html>bad gateway</html>"}, ClassUnknown),
		OnSend(Fault{Status: 407, Raw: "<html>who are you?</html>"}, notForwarded),
	}, r.p.Calls.SendFaults...)
	if r.p.Outages.Fake == nil { // a message has no response of its own: see the lost receipt
		faults = nil
	}
	for i, f := range faults {
		// the previous limit has ended
		c.Await("a message that is sent", func() bool { _, err := c.send("x", fmt.Sprint("before/", i)); return err == nil })
		r.p.Outages.Fake.Fail(r.p.Calls.Send, f.Fault)
		_, err := c.send("x", fmt.Sprint(i))
		if got := SendClass(err); got != f.Want {
			r.t.Errorf("%+v is %s, want %s: %v", f.Fault, got, f.Want, err)
		}
		if err != nil {
			checkSecrets(r.t, r.p, err.Error())
		}
	}
	if s := r.State(); s.Condition != channel.ConditionConnected || s.Adapter != 1 {
		r.t.Errorf("the state is %+v", s)
	}
}

// sendHangs lets a send reach its deadline without a response. The message may have been sent.
func sendHangs(r *Recorder) {
	c := r.connect()
	if r.p.Outages.Fake == nil {
		r.p.hang()
		defer r.p.restore(r.t)
	} else {
		r.p.Outages.Fake.Fail(r.p.Calls.Send, Fault{Hang: true})
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := c.p.Send(ctx, c.to, chat.Message{Text: "x"}, "k"); SendClass(err) != ClassUnknown {
		r.t.Errorf("class %s: %v", SendClass(err), err)
	}
}

// unsent sends to a platform that refuses connections, and to one that accepts and closes them.
func unsent(r *Recorder) {
	c := r.connect()
	r.p.down()
	_, err := c.send("x", "k")
	for SendClass(err) == ClassUnknown { // an idle connection whose end was not noticed; there are few
		_, err = c.send("x", "k")
	}
	if SendClass(err) != mailroom.ClassUnavailable {
		r.t.Errorf("a refused connection is %s: %v", SendClass(err), err)
	}
	if r.p.Calls.Addr == "" { // messages go over the connection that receives
		return
	}
	ln := machinetest.Listen(r.t, r.p.Calls.Addr)
	closed := make(chan struct{})
	go func() { // ends with the listener
		defer close(closed)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096)) // part of the request is enough
			_ = conn.Close()                     // without a response
		}
	}()
	if _, err := c.send("x", "k"); SendClass(err) != ClassUnknown {
		r.t.Errorf("a closed connection is %s: %v", SendClass(err), err)
	}
	_ = ln.Close() // ends the goroutine
	<-closed
}

// rateLimitReported refuses each kind of call by each rate limit, and expects the pause in the error.
func rateLimitReported(r *Recorder) {
	c := r.connect()
	id, err := c.send("**one**", "one")
	if err != nil {
		r.t.Fatal(err)
	}
	caps := r.Capabilities()
	for name, limit := range r.p.Calls.Limits {
		for _, call := range []struct {
			name string
			is   bool
			call func() error
		}{
			{"send", true, func() error { _, err := c.send("**two**", "two"); return err }},
			{"edit", caps.Edits, func() error { return c.p.Edit(r.t.Context(), c.to, id, chat.Message{Text: "**two**"}) }},
			{"typing", caps.Typing, func() error { return c.p.Typing(r.t.Context(), c.to) }},
		} {
			if !call.is {
				continue
			}
			limit(Ann, 40*time.Second)
			before := len(r.p.Calls.Made())
			err := call.call()
			after := mailroom.AsFailure(err).RetryAfter
			if class := SendClass(err); class != mailroom.ClassUnavailable && class != ClassEverywhere ||
				after < 35*time.Second || after > 41*time.Second {
				r.t.Errorf("%s, %s: %s, after %s: %v", name, call.name, class, after, err)
			}
			if n := len(r.p.Calls.Made()) - before; n > 1 {
				r.t.Errorf("%s, %s: %d calls", name, call.name, n)
			}
		}
	}
}

// foundByKey loses the response to a send. The message is found or recognized by its key, unless the
// platform can do neither.
func foundByKey(r *Recorder) {
	c := r.connect()
	r.p.loseSend()
	if _, err := c.send("once", "the/key"); SendClass(err) != ClassUnknown {
		r.t.Errorf("a lost response is %s: %v", SendClass(err), err)
	}
	r.Await("the message", func() bool { return len(c.shown()) == 1 })
	find := func(key string) (id string, found bool, err error) {
		return c.p.Find(r.t.Context(), c.to, key, chat.Message{Text: "once"})
	}
	if r.p.Calls.Finds {
		var id string
		r.Await("the message found", func() bool {
			var found bool
			id, found, _ = find("the/key") // the platform may not list it yet
			return found
		})
		if id != c.shown()[0].ID {
			r.t.Errorf("found %q, want %q", id, c.shown()[0].ID)
		}
		if err := c.p.Edit(r.t.Context(), c.to, id, chat.Message{Text: "edited"}); err != nil {
			r.t.Error(err)
		}
	} else if _, found, err := find("the/key"); found || !errors.Is(err, chat.ErrNoHistory) {
		r.t.Errorf("Find on a platform without a history: got found %t and error %v, want false and ErrNoHistory", found, err)
	}
	if _, found, err := find("another"); found || err != nil && !errors.Is(err, chat.ErrNoHistory) {
		r.t.Errorf("Find of a key that was not sent: got found %t and error %v, want false, and nil or ErrNoHistory", found,
			err)
	}
	dedups := r.Capabilities().DedupWindow > 0
	if dedups {
		if _, err := c.send("once", "the/key"); err != nil || len(c.shown()) != 1 {
			r.t.Errorf("sent again: %v; Ann sees %+v", err, c.shown())
		}
	}
	if r.p.Calls.ExactlyOnce && !dedups && !r.p.Calls.Finds {
		r.t.Error("nothing prevents a duplicate")
	}
}

// callRejected rejects the credentials of a call. The message waits for new ones.
func callRejected(r *Recorder) {
	c := r.connect()
	if r.p.Credentials.Reject == nil { // the platform rejects a message, not the credentials
		if r.connects() {
			r.t.Error("the platform has open connections that never logged in")
		}
		return
	}
	if r.p.Credentials.RejectCalls != nil {
		r.p.Credentials.RejectCalls()
	} else {
		r.p.Credentials.Reject()
	}
	_, err := c.send("x", "k")
	// the connection may end before the response
	if class := SendClass(err); class != mailroom.ClassUnavailable && (r.p.Outages.Fake != nil || class != ClassUnknown) {
		r.t.Errorf("class %s: %v", class, err)
	}
	r.AwaitState("the refusal", func(s channel.State) bool { // not final, because the credentials worked before
		return s.Condition == channel.ConditionQueued && s.Reason != "" && strings.Contains(s.Reason, r.p.Credentials.Hint)
	})
}

// fileOpened has Ann upload a file. The channel must fetch the file when its reader opens it, and not before.
func fileOpened(r *Recorder) {
	r.Start().AwaitConnected()
	if r.p.People.Upload == nil { // people cannot upload files to this platform
		r.say(Ann, Ann, "no file")
		if e := r.AwaitEvents(1)[0]; len(e.Files) != 0 {
			r.t.Errorf("the event is %+v", e)
		}
		return
	}
	r.p.People.Upload(Ann, Ann, "notes.txt", []byte("one\ntwo"))
	e := r.AwaitEvents(1)[0]
	if len(e.Files) != 1 || e.Files[0].Name != "notes.txt" || e.Files[0].Size != 7 ||
		!strings.HasPrefix(e.Files[0].MimeType, "text/plain") || e.Files[0].URI == "" {
		r.t.Fatalf("the event is %+v", e)
	}
	f := e.Files[0]
	checkSecrets(r.t, r.p, f.URI+f.Ref)
	if r.p.Calls.File == "" { // the agent fetches it
		if f.Open != nil {
			r.t.Error("the file can be opened")
		}
		return
	}
	if n := len(r.p.Outages.Fake.Calls(r.p.Calls.File)); n != 0 {
		r.t.Errorf("%d downloads before the file was opened", n)
	}
	again := chat.File{URI: f.URI, Ref: f.Ref} // as after a restart
	r.AwaitConnected().SetOpen(&again)
	for _, file := range []chat.File{f, again} {
		in, err := file.Open(r.t.Context())
		if err != nil {
			r.t.Fatal(err)
		}
		content, err := readAll(in)
		if content != "one\ntwo" || err != nil {
			r.t.Errorf("content %q, %v", content, err)
		}
	}
	for _, fault := range []Fault{{Half: true}, {Lose: true}} {
		r.p.Outages.Fake.Fail(r.p.Calls.File, fault, fault) // a lost response is requested again
		in, err := f.Open(r.t.Context())
		if err == nil {
			_, err = readAll(in)
		}
		if err == nil {
			r.t.Errorf("%+v: the whole file was read, want an error", fault)
		}
	}
}

// unknownRoom sends to a room that does not exist.
func unknownRoom(r *Recorder) {
	c := r.connect()
	if len(r.p.Calls.NoRoom) == 0 { // every id is a room there
		return
	}
	for _, room := range r.p.Calls.NoRoom {
		if _, err := c.p.Send(r.t.Context(), chat.Room{Chat: room}, chat.Message{Text: "x"},
			room); SendClass(err) != ClassGone {
			r.t.Errorf("%s: class %s: %v", room, SendClass(err), err)
		}
	}
	if s := r.State(); s.Condition != channel.ConditionConnected {
		r.t.Errorf("the state is %+v", s)
	}
}

// readAll reads and closes a file.
func readAll(in io.ReadCloser) (string, error) {
	content, err := io.ReadAll(in)
	return string(content), errors.Join(err, in.Close())
}
