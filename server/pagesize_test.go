package server_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"

	"mailroom"
	"mailroom/api"
	"mailroom/server"
)

// readAllPages follows a list's cursors to its end. It fails the test if a page is too large or an
// item, identified by name, repeats.
func (f *fixture) readAllPages(path, param string, name func(item json.RawMessage) string) (items []string, pages int) {
	f.t.Helper()
	seen := map[string]bool{}
	for next := ""; ; pages++ {
		route := "GET " + path
		if next != "" {
			route += "&" + param + "=" + url.QueryEscape(next)
		}
		a := f.call(route, "")
		var page api.Page[json.RawMessage]
		if err := json.Unmarshal([]byte(a.body), &page); err != nil || a.status != 200 {
			f.t.Fatalf("%s: %d %.200s, %v", route, a.status, a.body, err)
		}
		if len(a.body) > f.page+200 && len(page.Items) != 1 {
			f.t.Errorf("%s: %d bytes of %d items, want at most %d", route, len(a.body), len(page.Items), f.page)
		}
		for _, item := range page.Items {
			n := name(item)
			if seen[n] {
				f.t.Fatalf("%s: %s repeats", route, n)
			}
			seen[n] = true
			items = append(items, n)
		}
		if page.Next == nil {
			return items, pages + 1
		}
		next = *page.Next
	}
}

// fieldOf returns the JSON value of a field of an item.
func fieldOf(field string) func(json.RawMessage) string {
	return func(item json.RawMessage) string {
		var fields map[string]json.RawMessage
		if json.Unmarshal(item, &fields) != nil || fields[field] == nil {
			return "?"
		}
		return string(fields[field])
	}
}

// TestPagesEndAtTheirBytes reads lists of large items: no page exceeds its limit, and the cursors
// lead through all items.
func TestPagesEndAtTheirBytes(t *testing.T) {
	const page = 256 << 10
	// sockets with the default size of buffers, which start makes smaller
	f := startOn(t, func(ln net.Listener) net.Listener { return ln }, func(o *server.Options) { o.Limits.MaxPage = page })
	f.page = page
	large := strings.Repeat("x", 56<<10)
	for i := range 6 {
		f.call("POST /v1/threads/t/messages", fmt.Sprintf(`{"text":%q,"key":"%d"}`, large, i))
	}
	// one commit and one row, larger than a page
	four := strings.Repeat(fmt.Sprintf(`,{"role":"user","text":%q}`, large), 4)[1:]
	f.call("POST /v1/threads/u/messages", `{"mode":"collect","messages":[`+four+`]}`)
	f.claim() // reads all messages of a run, or the first one
	f.claim()
	for i := range 70 {
		f.call("POST /v1/threads/v/messages", fmt.Sprintf(`{"text":"a","key":"%d","options":%q}`, i, large[:4<<10]))
	}
	for _, c := range []struct {
		path, param, field string
		items, pages       int
	}{
		{"/v1/threads/t/entries?limit=500", "after", "seq", 13, 2},
		{"/v1/threads/t/entries?limit=500&kind=message", "after", "seq", 6, 2},
		{"/v1/threads/t/messages?limit=500&all=true", "before", "id", 6, 2},
		{"/v1/threads/u/messages?limit=500", "before", "id", 4, 2},
		{"/v1/threads/u/messages?limit=500&all=true", "before", "id", 4, 2},
		{"/v1/runs?limit=500", "cursor", "id", 77, 2},
		{"/v1/runs?limit=500&q=mode:queue", "cursor", "id", 76, 2},
	} {
		items, pages := f.readAllPages(c.path, c.param, fieldOf(c.field))
		if len(items) != c.items || pages < c.pages {
			t.Errorf("%s: %d items on %d pages, want %d on at least %d: %v", c.path, len(items), pages, c.items, c.pages, items)
		}
	}
	var back []string
	for before := "1000"; ; {
		page := mustCall[api.Page[mailroom.Entry]](f, "GET /v1/threads/t/entries?limit=500&before="+before, "")
		for i := len(page.Items) - 1; i >= 0; i-- {
			back = append(back, fmt.Sprint(page.Items[i].Seq))
		}
		if page.Next == nil {
			break
		}
		before = *page.Next
	}
	if got, want := strings.Join(back, " "), "13 12 11 10 9 8 7 6 5 4 3 2 1"; got != want {
		t.Errorf("backward: %s, want %s", got, want)
	}
}

// TestAPageEndsAtItsBytesWithTheDefaultBuffers has messages of 250 KB and pages of 1 MiB.
func TestAPageEndsAtItsBytesWithTheDefaultBuffers(t *testing.T) {
	const page = 1 << 20
	// sockets with the default size of buffers, which start makes smaller
	f := startOn(t, func(ln net.Listener) net.Listener { return ln }, func(o *server.Options) { o.Limits.MaxPage = page })
	f.page = page
	large := strings.Repeat("x", 250<<10)
	for i := range 5 {
		f.call("POST /v1/threads/t/messages", fmt.Sprintf(`{"text":%q,"key":"%d"}`, large, i))
	}
	if items, pages := f.readAllPages("/v1/threads/t/messages?limit=500&all=true", "before",
		fieldOf("id")); len(items) != 5 || pages < 2 {
		t.Errorf("%d messages on %d pages, want 5 on 2 or more", len(items), pages)
	}
}

func TestAnInboxEndsAtItsBytes(t *testing.T) {
	const page = 256 << 10
	// sockets with the default size of buffers, which start makes smaller
	f := startOn(t, func(ln net.Listener) net.Listener { return ln }, func(o *server.Options) { o.Limits.MaxPage = page })
	f.page = page
	f.call("POST /v1/notifications/take", `{"agent":"ann"}`)
	data := strings.Repeat("x", 4<<10)
	for range 80 {
		f.call("POST /v1/notifications", fmt.Sprintf(`{"from":"bob","to":["ann"],"event":"done","data":%q}`, data))
	}
	if a := f.call("GET /v1/notifications?agent=ann&limit=500", ""); a.status != 200 || len(a.body) > f.page+200 {
		t.Errorf("%d, %d bytes", a.status, len(a.body))
	}
	items, pages := f.readAllPages("/v1/notifications?agent=ann&limit=500", "after", fieldOf("seq"))
	if len(items) != 80 || pages != 2 {
		t.Errorf("%d notifications on %d pages, want 80 on 2", len(items), pages)
	}
	if items, pages = f.readAllPages("/v1/notifications?agent=ann&limit=30", "after", fieldOf("seq")); len(items) != 80 ||
		pages != 3 {
		t.Errorf("%d notifications on %d pages of 30, want 80 on 3", len(items), pages)
	}
	if all, err := f.client.Projects.Notifications(t.Context(), "", "ann", 500); err != nil || len(all) != 80 {
		t.Errorf("the client has %d notifications, %v, want 80", len(all), err)
	}
	total := 0
	for {
		a := f.call("POST /v1/notifications/take", `{"agent":"ann","limit":500}`)
		var page api.Page[api.Notification]
		if err := json.Unmarshal([]byte(a.body), &page); err != nil || len(a.body) > f.page+200 {
			t.Fatalf("%d bytes of %d, %v", len(a.body), len(page.Items), err)
		}
		if len(page.Items) == 0 {
			break
		}
		total += len(page.Items)
	}
	if total != 80 {
		t.Errorf("took %d notifications, want 80", total)
	}
}

func TestReservationsComeInPages(t *testing.T) {
	f := start(t)
	f.call("POST /v1/reservations", `{"names":["a","b","c","d","e"],"holder":"x"}`)
	if items, pages := f.readAllPages("/v1/reservations?limit=2", "cursor", fieldOf("id")); len(items) != 5 || pages != 3 {
		t.Errorf("%d reservations on %d pages, want 5 on 3", len(items), pages)
	}
}
