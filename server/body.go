package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"mailroom"
)

const (
	defaultBody = 4 << 20
	// workBody is for what is written under a claim: a whole message, in which
	// each byte may have become an escape of six, and more with it.
	workBody = 12 << 20
	maxDepth = 64
)

// readBody takes the body in, whole and in time, and refuses what is not one
// plain JSON value: the handlers' decoder would silently take the last of two
// equal fields and overlook the case of their names.
func (s *Server) readBody(out *response, r *http.Request) error {
	if r.Method != http.MethodPost && r.Method != http.MethodPatch {
		return nil
	}
	limit := int64(s.options.MaxBody)
	if strings.HasPrefix(r.URL.Path, "/v1/claims/") {
		limit = max(limit, workBody)
	}
	if r.ContentLength > limit {
		return s.unread(out, tooLarge(limit))
	}
	raw, err := io.ReadAll(http.MaxBytesReader(out, r.Body, limit))
	switch {
	case err == nil:
		s.hurry(out, 0)
	case isTooLarge(err):
		return s.unread(out, tooLarge(limit))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return s.unread(out, unreadable("body", fmt.Sprintf("did not arrive within %s", s.options.BodyTimeout)))
	default:
		return s.unread(out, unreadable("body", "broke off"))
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		r.Body = http.NoBody
		return nil
	}
	r.Body = io.NopCloser(bytes.NewReader(raw)) // as it was sent: it may be signed
	kind := r.Header.Get("Content-Type")
	if media, params, err := mime.ParseMediaType(kind); kind != "" &&
		(err != nil || media != "application/json" || params["charset"] != "" && !strings.EqualFold(params["charset"], "utf-8")) {
		return withStatus(http.StatusUnsupportedMediaType, wrong("header.Content-Type", "must be application/json", short(kind)))
	}
	if s.mux.needs[requestOf(r.Context()).route] == requests {
		return checkJSON(raw, true)
	}
	return checkBody(raw)
}

// hurry bounds how long what is left of the request may take; 0 ends that.
func (s *Server) hurry(out *response, most time.Duration) {
	end := time.Time{}
	if most > 0 {
		end = time.Now().Add(most)
	}
	// A writer without deadlines is a test's; a closed connection fails the read.
	_ = out.control.SetReadDeadline(end)
}

// unread closes the connection after the answer: what is left of the body would
// be taken for the next request.
func (s *Server) unread(out *response, err error) error {
	out.Header().Set("Connection", "close")
	return err
}

func isTooLarge(err error) bool {
	_, ok := errors.AsType[*http.MaxBytesError](err)
	return ok
}

func tooLarge(limit int64) error {
	return mailroom.Errorf(mailroom.TooLarge, "the body is larger than %d bytes", limit)
}

// checkBody checks a body of ours.
func checkBody(raw []byte) error { return checkJSON(raw, false) }

// checkJSON walks over the tokens of a body. free: the names in it are not ours.
func checkJSON(raw []byte, free bool) error {
	if !utf8.Valid(raw) {
		return unreadable("body", "is not valid UTF-8")
	}
	if halfRune(raw) {
		return unreadable("body", `has one half of a character (\ud800 to \udfff) without the other`)
	}
	w := bodyWalk{dec: json.NewDecoder(bytes.NewReader(raw))}
	w.dec.UseNumber()
	if err := w.value("body", 0, free); err != nil {
		return err
	}
	if _, err := w.dec.Token(); !errors.Is(err, io.EOF) {
		return unreadable("body", "goes on after its JSON value")
	}
	return nil
}

// halfRune finds the escape of a lone surrogate, which the decoder would
// replace without a word. A backslash is nowhere but in strings.
func halfRune(raw []byte) bool {
	for i := bytes.IndexByte(raw, '\\'); i >= 0 && i+1 < len(raw); {
		width := 2
		if r := escaped(raw[i:]); utf16.IsSurrogate(r) {
			width = 12
			if i+6 > len(raw) || utf16.DecodeRune(r, escaped(raw[i+6:])) == utf8.RuneError {
				return true
			}
		}
		next := bytes.IndexByte(raw[min(i+width, len(raw)):], '\\')
		if next < 0 {
			return false
		}
		i += width + next
	}
	return false
}

// escaped is the value of the escape \uXXXX at the start of b, -1 for none.
func escaped(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}

type bodyWalk struct{ dec *json.Decoder }

// value checks one value at the location. free: below here the names of fields
// are the caller's.
func (w *bodyWalk) value(at string, depth int, free bool) error {
	t, err := w.dec.Token()
	if err != nil {
		return notJSON(err)
	}
	d, ok := t.(json.Delim)
	if !ok {
		return nil
	}
	if depth++; depth > maxDepth {
		return unreadable("body", fmt.Sprintf("is nested deeper than %d", maxDepth))
	}
	if d == '{' {
		err = w.object(at, depth, free)
	} else {
		err = w.array(at, depth, free)
	}
	if err != nil {
		return err
	}
	if _, err := w.dec.Token(); err != nil {
		return notJSON(err)
	}
	return nil
}

func (w *bodyWalk) object(at string, depth int, free bool) error {
	seen := map[string]bool{}
	for w.dec.More() {
		t, err := w.dec.Token()
		if err != nil {
			return notJSON(err)
		}
		name, ok := t.(string)
		if !ok {
			return notJSON(nil)
		}
		where := at + "." + short(name)
		switch {
		case seen[name]:
			return wrong(where, "comes twice", nil)
		case !free && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_0123456789") != "":
			return wrong(where, "unknown field", nil)
		}
		seen[name] = true
		below := free || callers(name)
		if err := w.value(where, depth, below); err != nil {
			return err
		}
	}
	return nil
}

// callers are the fields whose value is the caller's own JSON.
func callers(name string) bool {
	switch name {
	case "options", "metadata", "data", "answer", "agents", "arguments", "body", "checkpoint", "state":
		return true
	}
	return false
}

func (w *bodyWalk) array(at string, depth int, free bool) error {
	for i := 0; w.dec.More(); i++ {
		if err := w.value(fmt.Sprintf("%s[%d]", at, i), depth, free); err != nil {
			return err
		}
	}
	return nil
}

func notJSON(err error) error {
	message := "is not JSON"
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		message = fmt.Sprintf("is not JSON: %s, at byte %d", syntax.Error(), syntax.Offset)
	} else if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		message = "is not JSON: it ends in the middle"
	}
	return unreadable("body", message)
}
