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

// depth is the nesting of attack bodies: just below the depth that the server refuses at once.
const depth = 50

// nested returns arrays nested in arrays, as JSON of at most n bytes.
func nested(n int) string {
	return "[" + fill(n-2, strings.Repeat("[", depth)+strings.Repeat("]", depth)) + "]"
}

// objects returns objects nested in objects, as JSON of at most n bytes.
func objects(n int) string {
	return `{"a":[` + fill(n-8, strings.Repeat(`{"a":`, depth)+"1"+strings.Repeat("}", depth)) + "]}"
}

// fill repeats piece, separated by commas, up to n bytes.
func fill(n int, piece string) string {
	return strings.TrimSuffix(strings.Repeat(piece+",", n/(len(piece)+1)), ",")
}

// repeatRequest sends a request count times, atOnce of them concurrently. %d in path is the number
// of the request.
func (t *target) repeatRequest(
	ctx context.Context, count, atOnce int, token, method, path string, body func(i int) string, headers ...string,
) error {
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
			// The server may close a connection.
			_, _ = t.request(ctx, token, method, strings.Replace(path, "%d", strconv.Itoa(i), 1), r, headers...)
			return nil
		})
	}
	return group.Wait()
}

// same returns a function that ignores its argument and returns s as the body.
func same(s string) func(int) string { return func(int) string { return s } }

// bodyAttack returns an attack that sends one body several times.
func bodyAttack(name string, count, atOnce int, token bool, path, body string, headers ...string) attack {
	return attack{name, func(ctx context.Context, t *target) error {
		as := ""
		if token {
			as = t.token
		}
		return t.repeatRequest(ctx, count, atOnce, as, http.MethodPost, path, same(body), headers...)
	}}
}

// bodies returns the attacks by request bodies.
func bodies() []attack {
	const submit = "/v1/messages"
	labels := &strings.Builder{}
	for i := range 250_000 {
		fmt.Fprintf(labels, `"l%d":"v",`, i)
	}
	big := func(member string) string { return `{"text":"x",` + member + `}` }
	return []attack{
		bodyAttack("hook: nested arrays", 4, 2, false, "/v1/hooks/nothing", nested(4*mebibyte-64)),
		bodyAttack("hook: nested objects", 4, 2, false, "/v1/hooks/nothing", objects(4*mebibyte-64)),
		bodyAttack("hook: a long array", 4, 2, false, "/v1/hooks/nothing", "["+strings.Repeat("1,", 2*mebibyte-64)+"1]"),
		bodyAttack("hook: of a channel, unsigned", 4, 2, false, "/v1/hooks/hook", objects(4*mebibyte-64)),
		bodyAttack("hook: of a channel, badly signed", 4, 2, false, "/v1/hooks/hook", objects(4*mebibyte-64),
			"webhook-id", "msg_1", "webhook-timestamp", "1700000000", "webhook-signature", strings.Repeat("v1,AAAA ", 500)),
		bodyAttack("submit without a token", 8, 4, false, submit, big(`"options":`+nested(4*mebibyte-64))),
		bodyAttack("submit: nested options", 4, 2, true, submit, big(`"options":`+nested(4*mebibyte-64))),
		bodyAttack("submit: options of objects", 4, 2, true, submit, big(`"options":`+objects(4*mebibyte-64))),
		bodyAttack("submit: 250,000 labels", 2, 2, true, submit, big(`"metadata":{`+labels.String()+`"z":"z"}`)),
		bodyAttack("submit: nested labels", 4, 2, true, submit, big(`"metadata":`+objects(4*mebibyte-64))),
		bodyAttack("submit: a text of 4 MB", 8, 4, true, submit, big(`"key":"k","agent":"echo","sender":"`+strings.Repeat("x",
			3*mebibyte)+`"`)),
		bodyAttack("submit: 100,000 unknown members", 4, 2, true, submit, big(labels.String()[:1_500_000]+`"z":"z"`)),
		bodyAttack("submit: one member 200,000 times", 4, 2, true, submit,
			big(strings.Repeat(`"key":"k",`, 200_000)+`"key":"k"`)),
		bodyAttack("submit: escapes", 4, 2, true, submit, `{"text":"`+strings.Repeat(`\u0000`, 600_000)+`"}`),
		bodyAttack("submit: no UTF-8", 4, 2, true, submit, `{"text":"`+strings.Repeat("\xff", 3*mebibyte)+`"}`),
		bodyAttack("submit: a number of 4 MB", 4, 2, true, submit, big(`"priority":`+strings.Repeat("9", 3*mebibyte))),
		bodyAttack("submit: 100,000 decisions", 2, 2, true, submit,
			big(`"decisions":[`+strings.Repeat(`{"ticket":"t","decision":"deny"},`, 100_000)+
				`{"ticket":"t","decision":"deny"}]`)),
		bodyAttack("submit: 100,000 parts", 2, 2, true, submit, `{"parts":[`+strings.Repeat(`{"type":"text","text":"x"},`,
			100_000)+`{"type":"text","text":"x"}]}`),
		bodyAttack("submit: 24 of 4 MB, 8 at once", 24, 8, true, submit, `{"messages":[`+
			strings.Repeat(`{"role":"user","text":"`+strings.Repeat("x", 990_000)+`"},`, 3)+`{"role":"user","text":"`+
			strings.Repeat("x", 990_000)+`"}]}`),
		bodyAttack("tickets: a large answer", 8, 4, true, "/v1/tickets/none", `{"decision":"answer","answer":`+
			nested(4*mebibyte-128)+`}`),
		{"a compressed body", compressed},
		{"a multipart body", func(ctx context.Context, t *target) error {
			return t.repeatRequest(ctx, 8, 4, t.token, http.MethodPost, submit+"",
				same(strings.Repeat("--x\r\nA: b\r\n\r\n\r\n", 200_000)), "Content-Type", "multipart/form-data; boundary=x")
		}},
	}
}

// compressed sends 4 MB that decompress to 4 GB.
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
	return t.repeatRequest(ctx, 16, 4, t.token, http.MethodPost, "/v1/messages", same(packed.String()),
		"Content-Encoding", "gzip")
}
