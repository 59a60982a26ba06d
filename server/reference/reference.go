// Package reference completes the description of the API for its readers: what each operation does and when it is
// refused, with an example of each that a test records from a real server. All of it is made at the first request: a
// server that shows its description to no one pays nothing at its start.
package reference

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"mailroom"
	"mailroom/api"
)

// Options say what the description cannot know.
type Options struct {
	// URL is the address of the server for its users. "" means the one that the description was read from.
	URL string
	// LimitsRate reports whether requests of a route, such as "POST /v1/messages", count towards the rate of a token.
	LimitsRate func(route string) bool
}

// Complete returns the description with what its readers need. The server answers requests by the given one, so
// Complete changes a copy: the operations and their responses. The schemas stay shared.
func Complete(described *huma.OpenAPI, o Options) (*huma.OpenAPI, error) {
	texts, err := parseTexts(operations)
	if err != nil {
		return nil, err
	}
	recorded, err := parseExamples(examples)
	if err != nil {
		return nil, err
	}
	out := *described
	info := *described.Info
	info.Description = introduction
	info.License = &huma.License{Name: "Apache 2.0", Identifier: "Apache-2.0"}
	out.Info = &info
	out.Servers = []*huma.Server{{URL: "/", Description: "This server."}}
	if o.URL != "" {
		out.Servers = []*huma.Server{{URL: strings.TrimRight(o.URL, "/"), Description: "This server."}}
	}
	c := completer{options: o, texts: texts, recorded: recorded, shared: map[string]*huma.Response{}}
	components := *described.Components
	components.Responses = c.shared
	out.Components = &components
	out.Paths = map[string]*huma.PathItem{}
	for _, path := range slices.Sorted(maps.Keys(described.Paths)) { // the names of shared responses depend on the order
		out.Paths[path] = c.item(described.Paths[path])
	}
	return &out, nil
}

// introduction is the text at the top.
const introduction = "A durable mailbox for AI agents. Send a message to a thread: the server stores it, and a run " +
	"of an agent answers it. Follow the run as it works, decide what it asks, and read the log of the thread.\n\n" +
	"Requests carry `Authorization: Bearer TOKEN`. A refusal is a problem (RFC 9457) with a `code` for programs and " +
	"a `detail` that says what to do. Repeat a request with the code `rate_limited` or `unavailable` " +
	"after `Retry-After`, and a submit with the same `Idempotency-Key`.\n\n" +
	"Responses may get more fields; requests with unknown fields are refused. A list in a response is never null."

// completer completes operations.
type completer struct {
	options  Options
	texts    map[string]text
	recorded recording
	shared   map[string]*huma.Response // refusals that are the same for many operations, by name
}

func (c *completer) item(item *huma.PathItem) *huma.PathItem {
	out := *item
	for _, op := range []**huma.Operation{&out.Get, &out.Post, &out.Patch, &out.Delete} {
		if *op != nil {
			*op = c.operation(*op)
		}
	}
	return &out
}

func (c *completer) operation(op *huma.Operation) *huma.Operation {
	out := *op
	text := c.texts[op.OperationID]
	out.Description = strings.TrimSpace(text.does + "\n\n" + op.Description)
	out.Responses = maps.Clone(op.Responses)
	for _, refused := range byStatus(append(c.usual(op), text.refusals...)) {
		if refused[len(refused)-1].code == never {
			continue
		}
		out.Responses[fmt.Sprint(refused[0].status)] = c.response(refused)
	}
	if given, ok := c.recorded.Operations[op.OperationID]; ok {
		given.addTo(&out)
	}
	return &out
}

// route returns the route of an operation, as the server registers it.
func route(op *huma.Operation) string { return op.Method + " " + op.Path }

// usual returns the refusals that follow from the kind of an operation.
func (c *completer) usual(op *huma.Operation) []refusal {
	public := op.Security != nil && len(op.Security) == 0
	all := []refusal{
		{http.StatusBadRequest, mailroom.CodeInvalid, "the request cannot be read, for example malformed JSON"},
		{http.StatusUnprocessableEntity, mailroom.CodeInvalid,
			"a field or parameter is unknown, missing or out of its bounds; `errors` names it"},
	}
	if public {
		all = append(all, refusal{http.StatusForbidden, mailroom.CodeForbidden,
			"the host or the origin of the request is not one of the server's"})
	} else {
		all = append(all, refusal{http.StatusUnauthorized, mailroom.CodeUnauthenticated,
			"the token is missing, wrong, revoked or expired"},
			refusal{http.StatusForbidden, mailroom.CodeForbidden,
				"the token may not do this, or the host or the origin of the request is not one of the server's"})
	}
	if strings.Contains(op.Path, "{") {
		all = append(all, refusal{http.StatusNotFound, mailroom.CodeNotFound,
			"what the path names does not exist, or the token may not see it"})
	}
	limited := c.options.LimitsRate(route(op))
	if op.RequestBody != nil {
		full := "too many bodies are being received"
		if limited {
			full += ", or the token writes too fast"
		}
		all = append(all,
			refusal{http.StatusRequestEntityTooLarge, mailroom.CodeTooLarge,
				"the body, or a part of it, is over its bound in bytes"},
			refusal{http.StatusUnsupportedMediaType, mailroom.CodeInvalid,
				"the body is not application/json, or is compressed"},
			refusal{http.StatusTooManyRequests, mailroom.CodeRateLimited, full})
	} else if limited {
		all = append(all, refusal{http.StatusTooManyRequests, mailroom.CodeRateLimited, "the token writes too fast"})
	}
	return all
}

// byStatus groups refusals by status, in ascending order. Of two with the same status and code, the later one stays:
// what an operation says itself replaces the usual text.
func byStatus(all []refusal) (groups [][]refusal) {
	slices.SortStableFunc(all, func(a, b refusal) int { return a.status - b.status })
	for _, r := range all {
		last := len(groups) - 1
		if last < 0 || groups[last][0].status != r.status {
			groups = append(groups, []refusal{r})
			continue
		}
		if i := slices.IndexFunc(groups[last], func(o refusal) bool { return o.code == r.code }); i >= 0 {
			groups[last][i] = r
			continue
		}
		groups[last] = append(groups[last], r)
	}
	return groups
}

// response describes refusals of one status. The same text of many operations is stored once.
func (c *completer) response(refused []refusal) *huma.Response {
	var lines []string
	var codes []mailroom.Code
	for _, r := range refused {
		lines = append(lines, fmt.Sprintf("`%s`: %s.", r.code, r.when))
		codes = append(codes, r.code)
	}
	status := refused[0].status
	media := &huma.MediaType{Schema: &huma.Schema{Ref: "#/components/schemas/Problem"}}
	if p, ok := c.recorded.Refusals[fmt.Sprint(status)]; ok && slices.Contains(codes, p.Code) {
		media.Example = p
	}
	full := &huma.Response{
		Description: strings.Join(lines, " "), Content: map[string]*huma.MediaType{api.ProblemType: media},
		Extensions: map[string]any{"x-codes": codes},
	}
	name := strings.ReplaceAll(http.StatusText(status), " ", "")
	for n := 1; ; n++ {
		at := name
		if n > 1 {
			at = fmt.Sprint(name, n)
		}
		if have, ok := c.shared[at]; !ok {
			c.shared[at] = full
		} else if have.Description != full.Description {
			continue
		}
		return &huma.Response{Ref: "#/components/responses/" + at}
	}
}
