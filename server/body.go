package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"runtime"
	"strings"
	"time"

	"mailroom"
	"mailroom/server/internal/request"
)

const (
	defaultBody = 4 << 20
	// workBody bounds bodies written under a claim: a message of the maximum size in which JSON
	// escapes every byte as six, and its envelope.
	workBody = 12 << 20
)

// bodyReceiver reads the bodies of requests within their limits.
type bodyReceiver struct {
	budget      *request.Budget // budget of the bodies of authenticated requests
	public      *request.Budget // budget of requests to public protocols, charged by address
	max         int             // bytes
	timeout     time.Duration   // longest time to receive a body
	behindProxy bool            // see Options.Access.BehindProxy
}

// readBody reads the whole body within its time limit and checks that it is one JSON value without
// duplicate fields or fields in the wrong case, which encoding/json would accept. The bodies of
// public protocols are read later, after Protocol.Admit.
func (s *Server) readBody(out *response, r *http.Request) error {
	if r.Method != http.MethodPost && r.Method != http.MethodPatch {
		return nil
	}
	need := s.mux.permissions[requestOf(r.Context()).route]
	if need == accessPublic {
		return nil
	}
	if requestOf(r.Context()).route == uploadRoute {
		return s.bodies.await(out, r)
	}
	raw, err := s.bodies.receive(out, r, int64(bodyLimit(r.URL.Path, s.options.Limits.MaxBody)))
	if err != nil || raw == nil {
		return err
	}
	q := requestOf(r.Context())
	if len(raw) > request.SmallBody {
		if err := s.parseSlots.acquire(r.Context(), &q.parsing); err != nil {
			return err
		}
	}
	if need == accessPerRequest { // the requests that the protocol makes pass here too
		defer q.parsing.release()
	}
	return request.CheckJSON(raw, need == accessPerRequest)
}

// bodyLimit returns the size limit, in bytes, of a body sent to path. most is the limit of other
// bodies.
func bodyLimit(path string, most int) int {
	if strings.HasPrefix(path, "/v1/claims/") {
		return max(most, workBody)
	}
	return most
}

// parseSlots bounds how many large bodies are parsed at a time. Parsing takes a processor, and
// memory of several times the body's size.
type parseSlots chan struct{}

// parseSlot is one of the parseSlots that a request holds. The zero value holds none.
type parseSlot struct{ slots parseSlots }

func newParseSlots() parseSlots { return make(parseSlots, max(1, runtime.GOMAXPROCS(0)/2)) }

// acquire waits for a slot. The budget of bodies bounds how many requests wait.
func (t parseSlots) acquire(ctx context.Context, slot *parseSlot) error {
	select {
	case t <- struct{}{}:
		slot.slots = t
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// release gives the slot back. Further calls do nothing.
func (t *parseSlot) release() {
	if t.slots != nil {
		<-t.slots
		t.slots = nil
	}
}

// bodyReader reads a body in memory. It drops the memory once WriteTo has copied the body, or take has returned it.
type bodyReader struct {
	bytes.Reader
	raw []byte // what Reader reads
}

func newBodyReader(raw []byte) *bodyReader {
	b := &bodyReader{raw: raw}
	b.Reset(raw)
	return b
}

// take returns the rest of the body.
func (b *bodyReader) take() []byte {
	raw := b.raw[len(b.raw)-b.Len():]
	b.drop()
	return raw
}

// drop forgets the body.
func (b *bodyReader) drop() {
	b.Reset(nil)
	b.raw = nil
}

// WriteTo writes the rest of the body and drops it.
func (b *bodyReader) WriteTo(w io.Writer) (int64, error) {
	n, err := b.Reader.WriteTo(w)
	b.drop()
	return n, err
}

func (b *bodyReader) Close() error { return nil }

// receive reads a body of up to most bytes, once the budget has room for it, and puts it back into the request
// unchanged. It returns nil for a body that is empty or only white space.
func (b *bodyReceiver) receive(out *response, r *http.Request, most int64) ([]byte, error) {
	switch err := checkContentType(r, "application/json"); {
	case err != nil:
		return nil, closeAfter(out, err)
	case r.ContentLength == 0:
		return nil, nil
	case r.ContentLength > most:
		drain(r)
		return nil, closeAfter(out, tooLarge(most))
	}
	c := &requestOf(r.Context()).body
	b.assignCharge(c, r)
	from := io.Reader(r.Body)
	if r.ContentLength < 0 { // net/http ends the others at their length
		from = http.MaxBytesReader(out, r.Body, most)
	}
	raw, err := request.ReadAll(r.Context(), from, r.ContentLength, c)
	_, refused := errors.AsType[*mailroom.Error](err)
	switch {
	case err == nil:
		limitReadTime(out, 0)
	case refused:
		return nil, closeAfter(out, err)
	case isTooLarge(err):
		drain(r)
		return nil, closeAfter(out, tooLarge(most))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, closeAfter(out, request.Malformed("body", fmt.Sprintf("did not arrive within %s", b.timeout)))
	default:
		return nil, closeAfter(out, request.Malformed("body", "ended early: the connection failed"))
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		r.Body = http.NoBody
		return nil, nil
	}
	r.Body = newBodyReader(raw)
	return raw, nil
}

// maxDrained bounds the bytes that drain reads.
const maxDrained = 64 << 20

// drain reads the rest of a body that is too large, within the time of a body, and keeps nothing of it. A client that
// sends its whole body before it reads the answer would otherwise see a broken connection instead of the refusal, and
// repeat the request for ever. A client that asks first (Expect) waits for the answer, and sends nothing. A stranger, at
// a public protocol, is refused unread.
func drain(r *http.Request) {
	known := requestOf(r.Context()).who.Name != ""
	if known && r.Header.Get("Expect") == "" && r.ContentLength <= maxDrained {
		_, _ = io.CopyN(io.Discard, r.Body, maxDrained) // the answer is the refusal, whether or not the rest arrives
	}
}

// checkContentType refuses bodies whose headers declare another type than want or a compression.
func checkContentType(r *http.Request, want string) error {
	if r.ContentLength == 0 {
		return nil
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return request.WithStatus(http.StatusUnsupportedMediaType,
			request.Invalid("header.Content-Encoding", "is not supported: send the body uncompressed", request.Truncate(coding)))
	}
	kind := r.Header.Get("Content-Type")
	if media, params, err := mime.ParseMediaType(kind); kind != "" &&
		(err != nil || media != want || params["charset"] != "" && !strings.EqualFold(params["charset"],
			"utf-8")) {
		return request.WithStatus(http.StatusUnsupportedMediaType,
			request.Invalid("header.Content-Type", "must be "+want, request.Truncate(kind)))
	}
	return nil
}

// assignCharge sets whose budget a body counts against: the budget of the token, or without a token
// of the client address.
func (b *bodyReceiver) assignCharge(c *request.Charge, r *http.Request) {
	who := requestOf(r.Context()).who.Name
	switch {
	case request.IsCharged(r.Context()): // made from a body that was charged
	case who != "":
		*c = request.NewCharge(b.budget, who)
	default:
		*c = request.NewCharge(b.public, clientAddr(r, b.behindProxy))
	}
}

// limitReadTime sets the time to read the rest of the request; 0 removes the limit.
func limitReadTime(out *response, most time.Duration) {
	end := time.Time{}
	if most > 0 {
		end = time.Now().Add(most)
	}
	// An error needs no handling: only test writers lack deadlines, and reading a closed
	// connection fails.
	_ = out.control.SetReadDeadline(end)
}

// closeAfter makes the server close the connection after the response. Otherwise the unread rest of
// the body would be parsed as the next request.
func closeAfter(out *response, err error) error {
	out.Header().Set("Connection", "close")
	return err
}

func isTooLarge(err error) bool {
	_, ok := errors.AsType[*http.MaxBytesError](err)
	return ok
}

func tooLarge(limit int64) error {
	return mailroom.Errorf(mailroom.CodeTooLarge, "the body exceeds the limit of %d bytes", limit)
}

// CheckJSON refuses a body that is not one JSON value in UTF-8, has a duplicate field, or exceeds
// the limits on depth and number of values. A [Protocol] that is Public calls it, because it
// receives its body unchecked.
func CheckJSON(raw []byte) error { return request.CheckJSON(raw, true) }
