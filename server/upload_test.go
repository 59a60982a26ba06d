package server_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/server"
	"mailroom/store"
)

const octets = "Content-Type: application/octet-stream"

// pieces is content of some pieces, the last one short.
func pieces(seed string, n int) string {
	return strings.Repeat(seed, n*store.BlobPieceBytes/len(seed)-1)
}

// upload stores content under a claim.
func (f *fixture) upload(claim, content string) api.Upload {
	f.t.Helper()
	return decode[api.Upload](f.t, f.callClaim(claim, "uploads", content, octets))
}

// changeBlobs commits a step that writes or deletes blobs: names and uploads in turn.
func (f *fixture) changeBlobs(claim string, number int, pairs ...string) response {
	f.t.Helper()
	var all []string
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, fmt.Sprintf(`{"name":%q,"upload":%q}`, pairs[i], pairs[i+1]))
	}
	return f.callClaim(claim, "entries", fmt.Sprintf(`{"number":%d,"step":{"checkpoint":%d,"blobs":[%s]}}`, number, number,
		strings.Join(all, ",")))
}

func (f *fixture) blob(claim, name string) response {
	f.t.Helper()
	return f.call("GET /v1/claims/"+claim+"/blob?name="+url.QueryEscape(name), "")
}

// wantUploads checks that the thread has as many open uploads.
func (f *fixture) wantUploads(thread string, want int) {
	f.t.Helper()
	err := f.ledger.View(f.t.Context(), func(r store.Reader) error {
		rows, err := r.Threads(store.ThreadQuery{IDs: []string{thread}})
		if err == nil && len(rows[0].Uploads) != want {
			f.t.Errorf("thread %s has %d open uploads, want %d", thread, len(rows[0].Uploads), want)
		}
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

func TestAWorkerKeepsBlobs(t *testing.T) {
	f := start(t)
	_, c := f.claimRemote()
	large := pieces("abc\x00", 3)
	sum := sha256.Sum256([]byte(large))
	up := f.upload(c.Claim, large)
	if up.Size != int64(len(large)) || up.Digest != hex.EncodeToString(sum[:]) {
		t.Errorf("the upload is %+v", up)
	}
	f.wantCode("before the step", f.blob(c.Claim, "a/ü&1"), 404, mailroom.CodeNotFound)
	first := f.changeBlobs(c.Claim, 1, "a/ü&1", up.Upload, "a/2", f.upload(c.Claim, "").Upload, "b",
		f.upload(c.Claim, "x").Upload)
	if again := f.changeBlobs(c.Claim, 1, "a/ü&1", up.Upload, "a/2", "other", "b", "x"); again.status != 409 {
		t.Errorf("another step under the number: %d", again.status)
	}
	if first.status != 200 {
		t.Fatalf("the step: %d %s", first.status, first.body)
	}
	got := f.blob(c.Claim, "a/ü&1")
	if got.body != large || got.header.Get("Content-Length") != fmt.Sprint(len(large)) ||
		got.header.Get("ETag") != `"`+up.Digest+`"` || got.header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("got %d bytes with the header %v", len(got.body), got.header)
	}
	if got := f.blob(c.Claim, "a/2"); got.status != 200 || got.body != "" {
		t.Errorf("an empty blob: %d %q", got.status, got.body)
	}
	for query, want := range map[string]string{"": "a/2 a/ü&1 b", "?prefix=a/": "a/2 a/ü&1",
		"?prefix=a/&after=a/2": "a/ü&1", "?after=b": ""} {
		page := mustCall[api.Page[api.Blob]](f, "GET /v1/claims/"+c.Claim+"/blobs"+query, "")
		var names []string
		for _, b := range page.Items {
			names = append(names, b.Name)
		}
		if got := strings.Join(names, " "); got != want || page.Next != nil {
			t.Errorf("list %q: got %q, next %v, want %q", query, got, page.Next, want)
		}
	}
	decode[api.Appended](t, f.changeBlobs(c.Claim, 2, "b", ""))
	f.wantCode("a deleted blob", f.blob(c.Claim, "b"), 404, mailroom.CodeNotFound)
	if p := f.blob(c.Claim, "b").problem(t); len(p.Errors) != 1 || p.Errors[0].Location != "query.name" {
		t.Errorf("a worker cannot see that the blob is missing and not the claim: %+v", p)
	}
}

func TestAListOfManyBlobsHasPages(t *testing.T) {
	f := start(t)
	_, c := f.claimRemote()
	var changes []string
	for i := range 1100 {
		changes = append(changes, fmt.Sprintf("%04d", i), f.upload(c.Claim, "x").Upload)
		if i%11 == 10 { // an attempt has at most 16 open uploads
			decode[api.Appended](t, f.changeBlobs(c.Claim, i/11+1, changes...))
			changes = nil
		}
	}
	page := mustCall[api.Page[api.Blob]](f, "GET /v1/claims/"+c.Claim+"/blobs", "")
	if len(page.Items) != 1000 || page.Next == nil || *page.Next != "0999" {
		t.Fatalf("the first page has %d blobs, next %v", len(page.Items), page.Next)
	}
	page = mustCall[api.Page[api.Blob]](f, "GET /v1/claims/"+c.Claim+"/blobs?after="+*page.Next, "")
	if len(page.Items) != 100 || page.Next != nil {
		t.Fatalf("the second page has %d blobs, next %v", len(page.Items), page.Next)
	}
}

func TestRefusedUploadsAndBlobsLeaveNothing(t *testing.T) {
	f := start(t)
	_, c := f.claimRemote()
	up := f.upload(c.Claim, "x").Upload
	long := strings.Repeat("n", mailroom.MaxBlobName)
	for _, tc := range []struct {
		name   string
		answer response
		status int
		code   mailroom.Code
	}{
		{"JSON", f.callClaim(c.Claim, "uploads", `{}`), 415, mailroom.CodeInvalid},
		{"a compressed body", f.callClaim(c.Claim, "uploads", "x", octets, "Content-Encoding: gzip"), 415, mailroom.CodeInvalid},
		{"too large", f.callClaim(c.Claim, "uploads", strings.Repeat("x", mailroom.MaxBlob+1), octets), 413, mailroom.CodeTooLarge},
		{"no claim", f.callClaim("none:1", "uploads", "x", octets), 404, mailroom.CodeNotFound},
		{"a later attempt", f.callClaim(c.Run.ID+":2", "uploads", pieces("x", 9), octets), 404, mailroom.CodeNotFound},
		{"an unknown upload", f.changeBlobs(c.Claim, 1, "a", "none"), 409, mailroom.CodeConflict},
		{"an upload twice", f.changeBlobs(c.Claim, 1, "a", up, "b", up), 422, mailroom.CodeInvalid},
		{"no name", f.changeBlobs(c.Claim, 1, "", up), 422, mailroom.CodeInvalid},
		{"a long name", f.changeBlobs(c.Claim, 1, long+"n", up), 422, mailroom.CodeInvalid},
		{"a name of many bytes", f.changeBlobs(c.Claim, 1, strings.Repeat("ü", 129), up), 422, mailroom.CodeInvalid},
		{"no name to get", f.call("GET /v1/claims/"+c.Claim+"/blob", ""), 422, mailroom.CodeInvalid},
		{"a long name to get", f.blob(c.Claim, long+"n"), 422, mailroom.CodeInvalid},
	} {
		f.wantCode(tc.name, tc.answer, tc.status, tc.code)
	}
	f.wantUploads("t", 1)
	decode[api.Appended](t, f.changeBlobs(c.Claim, 1, long, up))
	f.wantUploads("t", 0)
	up = f.upload(c.Claim, "y").Upload
	if a := f.callClaim(c.Claim, "settle", `{"number":2,"outcome":"release"}`); a.status != 200 {
		t.Fatalf("release: %d %s", a.status, a.body)
	}
	f.wantUploads("t", 0)
	f.wantCode("a late upload", f.callClaim(c.Claim, "uploads", "x", octets), 409, mailroom.CodeLeaseLost)
	f.wantCode("a late step", f.changeBlobs(c.Claim, 2, "a", up), 409, mailroom.CodeLeaseLost)
	f.wantCode("a late read", f.blob(c.Claim, long), 409, mailroom.CodeLeaseLost)
	f.wantCode("a late list", f.call("GET /v1/claims/"+c.Claim+"/blobs", ""), 409, mailroom.CodeLeaseLost)
}

// beginUpload sends the head of an upload and a part of its body, as a client that stops there.
func (f *fixture) beginUpload(claim, header, part string) net.Conn {
	f.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = conn.Close() }) // a test may have closed it
	if _, err := fmt.Fprintf(conn, "POST /v1/claims/%s/uploads HTTP/1.1\r\nHost: localhost\r\n"+
		"Authorization: Bearer %s\r\n%s\r\n%s\r\n\r\n%s", claim, f.secret, octets, header, part); err != nil {
		f.t.Fatal(err)
	}
	return conn
}

// waitUploads waits until the thread has as many open uploads, some with content.
func (f *fixture) waitUploads(thread string, want int) {
	f.t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); {
		var n int
		err := f.ledger.View(f.t.Context(), func(r store.Reader) error {
			rows, err := r.Threads(store.ThreadQuery{IDs: []string{thread}})
			if err == nil {
				n = len(rows[0].Uploads)
			}
			return err
		})
		if err != nil {
			f.t.Fatal(err)
		}
		if n == want {
			return
		}
		f.call("GET /healthz", "")
	}
	f.t.Fatalf("thread %s has not %d open uploads", thread, want)
}

// A worker is killed, or its network fails, in the middle of a body. What arrived is not the content. The client of
// this test still reads and sees the reason: the end of the connection alone would cancel the last commit as well.
func TestABodyThatEndsEarlyIsNoUpload(t *testing.T) {
	part := pieces("abcd", 3)
	for name, c := range map[string]struct{ header, body string }{
		"of a known length": {fmt.Sprintf("Content-Length: %d", len(part)+7), part},
		"of no length":      {"Transfer-Encoding: chunked", fmt.Sprintf("%x\r\n%s\r\n", len(part), part)},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			_, claim := f.claimRemote()
			conn := f.beginUpload(claim.Claim, c.header, c.body)
			f.waitUploads("t", 1)
			f.submit("other", "while the body is awaited, no lock is held")
			if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != 400 || !bytes.Contains(raw, []byte("ended early")) {
				t.Errorf("got %d %s, %v", resp.StatusCode, raw, err)
			}
			f.wantUploads("t", 0)
			f.wantCode("the thread", f.blob(claim.Claim, "x"), 404, mailroom.CodeNotFound)
		})
	}
}

func TestAnUploadThatStallsIsRefused(t *testing.T) {
	f := start(t, func(o *server.Options) { o.Limits.BodyTimeout = 300 * time.Millisecond })
	_, c := f.claimRemote()
	part := pieces("abcd", 2)
	conn := f.beginUpload(c.Claim, fmt.Sprintf("Content-Length: %d", len(part)+7), part)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode < 400 || !bytes.Contains(raw, []byte("did not arrive within")) {
		t.Errorf("got %d %s, %v", resp.StatusCode, raw, err)
	}
	f.wantUploads("t", 0)
}

// refusedUploads gets the refusals of uploads that need more than one request, and returns their lines of
// operations.md. Uploads of one token share its part of the budget of bodies, so that they use bounded memory.
func refusedUploads(t *testing.T) []string {
	f := start(t)
	_, c := f.claimRemote()
	for range 16 {
		f.upload(c.Claim, "x")
	}
	f.wantCode("too many uploads", f.callClaim(c.Claim, "uploads", "x", octets), 409, mailroom.CodeConflict)
	for range 21 { // of 768 KiB, in a share of 16 MiB
		f.beginUpload(c.Claim, "Content-Length: 5", "abc")
	}
	for deadline := time.Now().Add(5 * time.Minute); ; {
		if a := f.callClaim(c.Claim, "uploads", "x", octets); a.status == 429 {
			f.wantCode("too many bodies", a, 429, mailroom.CodeRateLimited)
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("one upload more is accepted")
		}
	}
	f = start(t)
	worker := f.registerRemote("far", 0).Worker
	made, err := f.client.Accounts().CreateToken(t.Context(), api.NewToken{Name: "tight",
		Scopes: []auth.Permission{auth.PermissionSubmit}, Quotas: auth.Quotas{auth.QuotaBytes: 10_000}})
	if err != nil {
		t.Fatal(err)
	}
	f.withToken(made.Secret).submitRemote("t", "hello")
	c = f.claimRound(worker, 1)[0]
	f.wantCode("too many bytes", f.callClaim(c.Claim, "uploads", pieces("x", 1), octets), 403, mailroom.CodeQuotaExceeded)
	f.wantUploads("t", 0)
	return []string{"upload 403 quota", "upload 409 conflict", "upload 429 rate_limited"}
}

// A reader of a blob that a step replaces gets the old content or a broken answer, never a mixture.
func TestABlobThatIsReplacedWhileItIsReadCutsTheAnswer(t *testing.T) {
	f := start(t)
	_, c := f.claimRemote()
	decode[api.Appended](t, f.changeBlobs(c.Claim, 1, "x", f.upload(c.Claim, pieces("old!", 60)).Upload))
	req, err := http.NewRequest("GET", f.url+"/v1/claims/"+c.Claim+"/blob?name=x", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+f.secret)
	resp, err := f.http.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	decode[api.Appended](t, f.changeBlobs(c.Claim, 2, "x", f.upload(c.Claim, "new").Upload))
	rest, err := io.ReadAll(resp.Body)
	if err == nil {
		t.Errorf("got all %d bytes without an error", len(rest))
	}
	if len(strings.Trim(string(rest), "old!")) > 0 {
		t.Error("got other content")
	}
	if got := f.blob(c.Claim, "x"); got.body != "new" {
		t.Errorf("read again: %q", got.body)
	}
}
