package server_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/server"
	"mailroom/thread"
)

// index indexes all messages.
func (f *fixture) index() {
	f.t.Helper()
	for read := 1; read > 0; {
		var err error
		if read, err = f.ledger.IndexMessages(f.t.Context()); err != nil {
			f.t.Fatal(err)
		}
	}
}

// search returns the threads of the messages with the words, and reads all pages.
func (f *fixture) search(q string) (threads []string) {
	f.t.Helper()
	for query := "?limit=2&q=" + url.QueryEscape(q); ; {
		page := mustCall[api.FoundMessages](f, "GET /v1/search"+query, "")
		for _, m := range page.Items {
			threads = append(threads, m.Thread)
		}
		if page.Next == nil {
			return threads
		}
		query = "?limit=2&q=" + url.QueryEscape(q) + "&cursor=" + *page.Next
	}
}

func TestMessagesAreFound(t *testing.T) {
	f := start(t)
	f.submit("a", "Deploy the Northern line")
	f.settleRun(f.claim(), thread.OutcomeComplete, "The northern line is deployed")
	if got := mustCall[api.FoundMessages](f, "GET /v1/search?q=northern", ""); len(got.Items) != 0 || got.Complete ||
		got.IndexedTo != nil {
		t.Errorf("before the index: got %+v", got)
	}
	for i := range 4 {
		f.submit(fmt.Sprint("t", i), "line "+strings.Repeat("x ", i))
	}
	f.index()
	got := mustCall[api.FoundMessages](f, "GET /v1/search?q=NORTHERN+line", "")
	if len(got.Items) != 2 || !got.Complete || got.IndexedTo == nil || got.Next != nil {
		t.Fatalf("got %+v, want both messages of a", got)
	}
	if m := got.Items[0]; m.Thread != "a" || m.Role != mailroom.RoleAssistant ||
		m.Excerpt != "The northern line is deployed" || m.State != mailroom.MessageDone || m.Run == "" {
		t.Errorf("got %+v", m)
	}
	whole := mustCall[mailroom.Message](f, "GET /v1/threads/a/messages/"+got.Items[1].ID, "")
	if whole.Text != "Deploy the Northern line" || whole.Seq != got.Items[1].Seq {
		t.Errorf("got %+v of the id of a found message", whole)
	}
	if got, want := f.search("line"), []string{"t3", "t2", "t1", "t0", "a", "a"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := mustCall[api.FoundMessages](f, "GET /v1/search?q=line&thread=t2", "").Items; len(got) != 1 ||
		got[0].Thread != "t2" {
		t.Errorf("in a thread: got %+v", got)
	}
	var many []string
	for i := range 51 {
		many = append(many, fmt.Sprint("w", i))
	}
	f.wantCode("51 words", f.call("GET /v1/search?q="+strings.Join(many, "+"), ""), 422, mailroom.CodeInvalid)
	off := start(t, func(o *server.Options) { o.Parts.NoSearch = true })
	off.wantCode("without an index", off.call("GET /v1/search?q=line", ""), 404, mailroom.CodeNotFound)
}

func TestASearchFindsWhatIsVisible(t *testing.T) {
	f := start(t)
	f.submit("of-admin", "secret word")
	ann := f.withToken(f.createToken("ann", "", auth.PermissionRead, auth.PermissionSubmit))
	team := f.withToken(f.createToken("team", "team-", auth.PermissionRead, auth.PermissionSubmit))
	for _, send := range []struct {
		by     *fixture
		thread string
	}{{ann, "of-ann"}, {f, "team-of-admin"}, {team, "team-x"}, {ann, "of-ann-too"}} {
		mustCall[map[string]any](send.by, "POST /v1/threads/"+url.PathEscape(send.thread)+"/messages", `{"text":"a word"}`)
	}
	f.index()
	for _, tc := range []struct {
		name string
		by   *fixture
		want []string
	}{
		{"an admin", f, []string{"of-ann-too", "team-x", "team-of-admin", "of-ann", "of-admin"}},
		{"an owner", ann, []string{"of-ann-too", "of-ann"}},
		{"a token with a namespace", team, []string{"team-x", "team-of-admin"}},
	} {
		if got := tc.by.search("word"); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
	ann.wantCode("a thread of another", ann.call("GET /v1/search?q=word&thread=of-admin", ""), 404, mailroom.CodeNotFound)
	page := mustCall[api.FoundMessages](f, "GET /v1/search?q=word&limit=1", "")
	ann.wantCode("a cursor of another", ann.call("GET /v1/search?q=word&cursor="+*page.Next, ""), 422,
		mailroom.CodeInvalid)
}

func TestAnExcerptShowsTheWord(t *testing.T) {
	f := start(t)
	long := strings.Repeat("before ", 40) + "the Straße\n\tof " + strings.Repeat("after ", 100)
	for q, text := range map[string]string{"straße": long, "本": strings.Repeat("前", 300) + "日本語" +
		strings.Repeat("後", 300)} {
		f.submit(fmt.Sprint("t", len(q)), text)
		f.index()
		got := mustCall[api.FoundMessages](f, "GET /v1/search?q="+url.QueryEscape(q), "").Items
		if len(got) != 1 {
			t.Fatalf("%s: got %+v", q, got)
		}
		e := got[0].Excerpt
		if !strings.Contains(strings.ToLower(e), q) || !strings.HasPrefix(e, "… ") || !strings.HasSuffix(e, " …") ||
			len([]rune(e)) > 310 || strings.ContainsAny(e, "\n\t") {
			t.Errorf("%s: got %q", q, e)
		}
	}
}
