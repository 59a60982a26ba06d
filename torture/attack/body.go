package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
)

const mebibyte = 1 << 20

// depth is how deep the bodies of attacks are nested: less than what is refused at the
// first look.
const depth = 50

// nested is JSON of at most n bytes: arrays in arrays, as many as fit.
func nested(n int) string {
	return "[" + fill(n-2, strings.Repeat("[", depth)+strings.Repeat("]", depth)) + "]"
}

// objects is JSON of at most n bytes: objects in objects, as many as fit.
func objects(n int) string {
	return `{"a":[` + fill(n-8, strings.Repeat(`{"a":`, depth)+"1"+strings.Repeat("}", depth)) + "]}"
}

// fill joins a piece with itself by commas, to at most n bytes.
func fill(n int, piece string) string {
	return strings.TrimSuffix(strings.Repeat(piece+",", n/(len(piece)+1)), ",")
}

// many repeats a request, so many at once. %d in path is the number of the request.
func (t *target) many(ctx context.Context, count, atOnce int, token, method, path string, body func(i int) string, headers ...string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range count {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			var r io.Reader
			if body != nil {
				r = strings.NewReader(body(i))
			}
			// The server may cut a connection off: that is its right.
			_, _ = t.do(ctx, token, method, strings.Replace(path, "%d", strconv.Itoa(i), 1), r, headers...)
			return nil
		})
	}
	return group.Wait()
}

// same is a body that is the same each time.
func same(s string) func(int) string { return func(int) string { return s } }

// each names an attack of requests with one body.
func each(name string, count, atOnce int, token bool, path, body string, headers ...string) attack {
	return attack{name, func(ctx context.Context, t *target) error {
		as := ""
		if token {
			as = t.token
		}
		return t.many(ctx, count, atOnce, as, http.MethodPost, path, same(body), headers...)
	}}
}

// bodies are attacks by what is in the body of a request.
func bodies() []attack {
	const submit = "/v1/messages"
	labels := &strings.Builder{}
	for i := range 250_000 {
		fmt.Fprintf(labels, `"l%d":"v",`, i)
	}
	big := func(member string) string { return `{"text":"x",` + member + `}` }
	return []attack{
		each("hook: nested arrays", 4, 2, false, "/v1/hooks/nothing", nested(4*mebibyte-64)),
		each("hook: nested objects", 4, 2, false, "/v1/hooks/nothing", objects(4*mebibyte-64)),
		each("hook: a long array", 4, 2, false, "/v1/hooks/nothing", "["+strings.Repeat("1,", 2*mebibyte-64)+"1]"),
		each("hook: of a channel, unsigned", 4, 2, false, "/v1/hooks/hook", objects(4*mebibyte-64)),
		each("hook: of a channel, badly signed", 4, 2, false, "/v1/hooks/hook", objects(4*mebibyte-64),
			"webhook-id", "msg_1", "webhook-timestamp", "1700000000", "webhook-signature", strings.Repeat("v1,AAAA ", 500)),
		each("submit without a token", 8, 4, false, submit, big(`"options":`+nested(4*mebibyte-64))),
		each("submit: nested options", 4, 2, true, submit, big(`"options":`+nested(4*mebibyte-64))),
		each("submit: options of objects", 4, 2, true, submit, big(`"options":`+objects(4*mebibyte-64))),
		each("submit: 250,000 labels", 2, 2, true, submit, big(`"metadata":{`+labels.String()+`"z":"z"}`)),
		each("submit: nested labels", 4, 2, true, submit, big(`"metadata":`+objects(4*mebibyte-64))),
		each("submit: a text of 4 MB", 8, 4, true, submit, big(`"key":"k","agent":"echo","sender":"`+strings.Repeat("x", 3*mebibyte)+`"`)),
		each("submit: 100,000 unknown members", 4, 2, true, submit, big(labels.String()[:1_500_000]+`"z":"z"`)),
		each("submit: one member 200,000 times", 4, 2, true, submit, big(strings.Repeat(`"key":"k",`, 200_000)+`"key":"k"`)),
		each("submit: escapes", 4, 2, true, submit, `{"text":"`+strings.Repeat(`\u0000`, 600_000)+`"}`),
		each("submit: no UTF-8", 4, 2, true, submit, `{"text":"`+strings.Repeat("\xff", 3*mebibyte)+`"}`),
		each("submit: a number of 4 MB", 4, 2, true, submit, big(`"priority":`+strings.Repeat("9", 3*mebibyte))),
		each("submit: 100,000 decisions", 2, 2, true, submit, big(`"decisions":[`+strings.Repeat(`{"ticket":"t","decision":"deny"},`, 100_000)+`{"ticket":"t","decision":"deny"}]`)),
		each("submit: 100,000 parts", 2, 2, true, submit, `{"parts":[`+strings.Repeat(`{"type":"text","text":"x"},`, 100_000)+`{"type":"text","text":"x"}]}`),
		each("submit: 24 of 4 MB, 8 at once", 24, 8, true, submit, `{"messages":[`+strings.Repeat(`{"role":"user","text":"`+strings.Repeat("x", 990_000)+`"},`, 3)+`{"role":"user","text":"`+strings.Repeat("x", 990_000)+`"}]}`),
		each("tickets: a large answer", 8, 4, true, "/v1/tickets/none", `{"decision":"answer","answer":`+nested(4*mebibyte-128)+`}`),
		{"a compressed body", compressed},
		{"a multipart body", func(ctx context.Context, t *target) error {
			return t.many(ctx, 8, 4, t.token, http.MethodPost, submit+"", same(strings.Repeat("--x\r\nA: b\r\n\r\n\r\n", 200_000)), "Content-Type", "multipart/form-data; boundary=x")
		}},
	}
}

// compressed sends 4 MB that would be 4 GB.
func compressed(ctx context.Context, t *target) error {
	packed := &bytes.Buffer{}
	w := gzip.NewWriter(packed)
	zeros := make([]byte, mebibyte)
	for range 1024 {
		if _, err := w.Write(zeros); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return t.many(ctx, 16, 4, t.token, http.MethodPost, "/v1/messages", same(packed.String()), "Content-Encoding", "gzip")
}
