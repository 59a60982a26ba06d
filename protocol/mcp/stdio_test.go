package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"mailroom/client"
	"mailroom/protocol/mcp"
)

// TestBatchesAreOnlyOfTheRevisionsThatHaveThem sends a batch before and after each initialize.
func TestBatchesAreOnlyOfTheRevisionsThatHaveThem(t *testing.T) {
	const batch = `[{"jsonrpc":"2.0","id":7,"method":"ping"},{"jsonrpc":"2.0","id":"b","method":"ping"}]`
	for revision, want := range map[string]string{
		"2025-03-26": "results 7,b", "2025-06-18": "errors 7,b", "2025-11-25": "errors 7,b", "2026-07-28": "errors 7,b",
	} {
		in, send := io.Pipe()
		receive, out := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			o := mcp.Options{Dial: func() (*client.Client, error) { return nil, io.ErrClosedPipe }}
			ended <- mcp.Serve(context.Background(), o, mcp.Stdio(in, out))
		}()
		lines := bufio.NewReader(receive)
		next := func() string {
			t.Helper()
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			return line
		}
		say := func(text string) {
			t.Helper()
			if _, err := io.WriteString(send, text+"\n"); err != nil {
				t.Fatal(err)
			}
		}
		say(batch)
		if got := answers(t, next(), next()); got != "errors 7,b" {
			t.Errorf("%s: a batch before initialize gets %s", revision, got)
		}
		say(`[]`)
		if got := next(); !strings.Contains(got, `"id":null`) || !strings.Contains(got, "batches are no part") {
			t.Errorf("%s: an empty batch gets %s", revision, got)
		}
		say(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},`+
			`"clientInfo":{"name":"x","version":"1"}}}`, revision))
		if hello := next(); !strings.Contains(hello, `"protocolVersion":"2025-`) {
			t.Fatalf("%s: initialize gets %s", revision, hello)
		}
		say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		say(batch)
		got := ""
		if first := next(); first[0] == '[' {
			var all []json.RawMessage
			if err := json.Unmarshal([]byte(first), &all); err != nil || len(all) < 2 {
				t.Fatalf("%s: %v, %s", revision, err, first)
			}
			got = answers(t, string(all[0]), string(all[len(all)-1]))
		} else {
			got = answers(t, first, next())
		}
		if got != want {
			t.Errorf("%s: a batch gets %s, want %s", revision, got, want)
		}
		say(`{"jsonrpc":"2.0","id":9,"method":"ping"}`)
		if got := next(); !strings.Contains(got, `"id":9`) || !strings.Contains(got, `"result"`) {
			t.Errorf("%s: the session goes on with %s", revision, got)
		}
		if err := send.Close(); err != nil {
			t.Error(err)
		}
		<-ended
	}
}

// answers says what two answers are, and to which calls.
func answers(t *testing.T, both ...string) string {
	t.Helper()
	var ids []string
	kind := ""
	for _, raw := range both {
		var a struct {
			ID     any
			Result json.RawMessage
			Error  *struct {
				Code    int
				Message string
			}
		}
		if err := json.Unmarshal([]byte(raw), &a); err != nil {
			t.Fatal(err, raw)
		}
		kind = "results"
		if a.Error != nil {
			if kind = "errors"; a.Error.Code != -32600 || !strings.Contains(a.Error.Message, "batches") {
				t.Errorf("the error is %+v", a.Error)
			}
		}
		ids = append(ids, fmt.Sprint(a.ID))
	}
	return kind + " " + strings.Join(ids, ",")
}
