package fakemodel

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func start(t *testing.T, answer func(Request) Answer) *Server {
	t.Helper()
	s, err := Start(answer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestGeminiAPI(t *testing.T) {
	s := start(t, func(r Request) Answer {
		if text, ok := r.Result(); ok {
			return Reply("It says ", text)
		}
		return Answer{Calls: []Call{{Name: "look", Input: map[string]any{"n": 1}}}}
	})
	ask := func(call, body string) string {
		t.Helper()
		resp := post(t, s.URL+"/v1beta/models/m:"+call, body)
		text, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	const said = `{"contents":[{"role":"user","parts":[{"text":"hello"}]}`
	got := ask("streamGenerateContent?alt=sse", said+`],"tools":[{"functionDeclarations":[{"name":"look"}]}]}`)
	if !strings.HasPrefix(got, "data: {") || !strings.Contains(got, `"functionCall":{"args":{"n":1},"name":"look"}`) {
		t.Errorf("the first answer is %q", got)
	}
	got = ask("generateContent", said+`,{"role":"model","parts":[{"functionCall":{"name":"look","args":{}}}]},`+
		`{"role":"user","parts":[{"functionResponse":{"name":"look","response":{"output":"blue"}}}]}]}`)
	if !strings.Contains(got, `"text":"It says blue"`) {
		t.Errorf("the second answer is %q", got)
	}
	want := []Turn{{"user", "hello"}, {"tool-call", "look {}"}, {"tool-result", "blue"}}
	if all := s.Requests(); cmp.Diff(want, all[1].Turns) != "" || cmp.Diff([]string{"look"}, all[0].Tools) != "" ||
		all[0].Model != "m" {
		t.Errorf("requests %+v", all)
	}
}

func post(t *testing.T, url, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() }) // the test has read what it needs
	return resp
}

// event is one server-sent event.
type event map[string]any

// next reads one event. It returns nil at the end of the stream.
func next(t *testing.T, r *bufio.Reader) event {
	t.Helper()
	for {
		line, err := r.ReadString('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			t.Fatal(err)
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			e := event{}
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				t.Fatal(err)
			}
			return e
		}
	}
}

func kinds(t *testing.T, resp *http.Response) []string {
	t.Helper()
	var got []string
	for r := bufio.NewReader(resp.Body); ; {
		e := next(t, r)
		if e == nil {
			return got
		}
		got = append(got, e["type"].(string))
	}
}

func TestBothAPIsSendTheirEvents(t *testing.T) {
	s := start(t, func(Request) Answer {
		return Answer{Reasoning: "hm", Text: []string{"Hello ", "you"},
			Calls: []Call{{Name: "look", Input: map[string]string{"at": "it"}}}}
	})
	for path, want := range map[string][]string{
		"/v1/responses": {
			"response.created", "response.output_item.done", // the reasoning
			"response.output_item.added", "response.output_text.delta", "response.output_text.delta",
			"response.output_item.done",
			"response.output_item.done", "response.completed",
		},
		"/v1/messages": {
			"message_start", "content_block_start", "content_block_delta", "content_block_delta", "content_block_stop",
			"content_block_start", "content_block_delta", "content_block_delta", "content_block_stop",
			"content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop",
		},
	} {
		if diff := cmp.Diff(want, kinds(t, post(t, s.URL+path, `{"model":"m"}`))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

func TestRequestsAreRecorded(t *testing.T) {
	s := start(t, func(Request) Answer { return Reply("yes") })
	post(t, s.URL+"/v1/responses",
		`{"model":"a","instructions":"be good","tools":[{"name":"shell"},{"type":"web_search"}],"input":[
		{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>"},{"type":"input_text","text":"one"}]},
		{"type":"message","role":"assistant","content":[{"type":"output_text","text":"yes"}]},
		{"type":"reasoning"},
		{"type":"function_call","name":"shell","arguments":"{}"},
		{"type":"function_call_output","output":"done"}]}`)
	post(t, s.URL+"/v1/messages",
		`{"model":"b","system":[{"type":"text","text":"be good"}],"tools":[{"name":"Bash"}],"messages":[
		{"role":"user","content":"one"},
		{"role":"assistant","content":[{"type":"text","text":"yes"},{"type":"tool_use","name":"Bash","input":{"a":1}}]},
		{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"done"}]}]},
		{"role":"system","content":"and hurry"}]}`)
	want := []Request{
		{API: APIResponses, Model: "a", System: "be good", Tools: []string{"shell", "web_search"}, Turns: []Turn{
			{"user", "<environment_context>"}, {"user", "one"}, {"assistant", "yes"}, {"reasoning", ""},
			{"tool-call", "shell {}"}, {"tool-result", "done"},
		}},
		{API: APIMessages, Model: "b", System: "be good", Tools: []string{"Bash"}, Turns: []Turn{
			{"user", "one"}, {"assistant", "yes"}, {"tool-call", `Bash {"a":1}`}, {"tool-result", "done"}, {"system", "and hurry"},
		}},
	}
	got := s.Requests()
	for i := range got {
		if result, ok := got[i].Result(); !ok || result != "done" || got[i].Prompt() != "one" || !got[i].Contains("ye") {
			t.Errorf("request %d: result %q %v, prompt %q", i, result, ok, got[i].Prompt())
		}
		got[i].Header, got[i].Body = nil, nil
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestErrorsHaveTheFormatOfTheAPI(t *testing.T) {
	s := start(t, func(Request) Answer { return Answer{Status: 429, RetryAfter: 3 * time.Second} })
	for path, want := range map[string]string{
		"/v1/responses": `{"error":{"message":"the fake model answers 429","type":"rate_limit_error"}}` + "\n",
		"/v1/messages":  `{"error":{"message":"the fake model answers 429","type":"rate_limit_error"},"type":"error"}` + "\n",
	} {
		resp := post(t, s.URL+path, `{}`)
		body, err := io.ReadAll(resp.Body)
		if err != nil || string(body) != want || resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "3" {
			t.Errorf("%s: %d %q, %v", path, resp.StatusCode, body, err)
		}
	}
}

func TestHoldPausesAnAnswer(t *testing.T) {
	hold := make(chan struct{})
	s := start(t, func(Request) Answer { return Answer{Text: []string{"slow"}, Hold: hold} })
	r := bufio.NewReader(post(t, s.URL+"/v1/messages", `{}`).Body)
	for next(t, r)["type"] != "content_block_delta" {
	}
	close(hold)
	var last event
	for e := next(t, r); e != nil; e = next(t, r) {
		last = e
	}
	if last["type"] != "message_stop" {
		t.Errorf("the last event is %v", last)
	}
}

func TestHangLastsUntilTheServerIsClosed(t *testing.T) {
	s, err := Start(func(r Request) Answer { return Answer{Text: []string{"and then"}, Hang: true} })
	if err != nil {
		t.Fatal(err)
	}
	var bodies []*bufio.Reader
	for path, piece := range map[string]string{"/v1/responses": `"response.output_text.delta"`,
		"/v1/messages": `"content_block_delta"`, "/v1beta/models/m:streamGenerateContent": `"and then"`} {
		r := bufio.NewReader(post(t, s.URL+path, `{}`).Body)
		for !strings.Contains(encode(next(t, r)), piece) {
		}
		bodies = append(bodies, r)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, r := range bodies {
		if rest, _ := io.ReadAll(r); strings.Contains(string(rest), "data:") { // the error says that the connection was cut
			t.Errorf("got %q after the hang", rest)
		}
	}
}

func TestWaitReturnsTheRequests(t *testing.T) {
	s := start(t, func(Request) Answer { return Answer{Cut: true} })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Wait(ctx, 1); err == nil {
		t.Error("Wait returned without an error before any request")
	}
	resp := post(t, s.URL+"/v1/responses", `{"model":"m"}`)
	if got, err := s.Wait(t.Context(), 1); err != nil || len(got) != 1 {
		t.Errorf("%d requests, %v", len(got), err)
	}
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the response is complete, want it truncated")
	}
	post(t, s.URL+"/v1/nonsense", "")
	if diff := cmp.Diff([]string{"POST /v1/nonsense"}, s.OtherRequests()); diff != "" {
		t.Errorf("other requests (-want +got):\n%s", diff)
	}
}
