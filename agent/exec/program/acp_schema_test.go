package program

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// acpSchema is the schema of the protocol; see testdata/acp/README.md.
type acpSchema struct {
	t    *testing.T
	text []byte
	defs map[string]struct {
		Side       string `json:"x-side"`
		Method     string `json:"x-method"`
		Properties map[string]any
	}
}

func readACPSchema(t *testing.T) *acpSchema {
	t.Helper()
	s := &acpSchema{t: t}
	var err error
	if s.text, err = os.ReadFile("testdata/acp/schema.json"); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(s.text, &struct{ Defs any }{}); err != nil {
		t.Fatal(err)
	}
	var root struct {
		Defs json.RawMessage `json:"$defs"`
	}
	if err := json.Unmarshal(s.text, &root); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(root.Defs, &s.defs); err != nil {
		t.Fatal(err)
	}
	return s
}

// check validates a value of JSON against a definition.
func (s *acpSchema) check(def string, raw json.RawMessage) error {
	s.t.Helper()
	if _, ok := s.defs[def]; !ok {
		s.t.Fatalf("the schema has no definition %s", def)
	}
	var root jsonschema.Schema
	if err := json.Unmarshal(s.text, &root); err != nil {
		s.t.Fatal(err)
	}
	root.AnyOf, root.Ref = nil, "#/$defs/"+def
	resolved, err := root.Resolve(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		s.t.Fatal(err)
	}
	return resolved.Validate(v)
}

// of returns the definition of the parameters or of the result of a method.
func (s *acpSchema) of(method, suffix string) string {
	s.t.Helper()
	for name, d := range s.defs {
		if d.Method == method && strings.HasSuffix(name, suffix) {
			return name
		}
	}
	s.t.Fatalf("the schema has no %s of %s", suffix, method)
	return ""
}

func TestWhatACPAgentsAreSentFollowsTheSchema(t *testing.T) {
	s := readACPSchema(t)
	settings := `"modes":{"currentModeId":"auto","availableModes":[{"id":"default","name":"D"}]},` +
		`"configOptions":[{"id":"m","name":"M","category":"model","type":"select","currentValue":"a",` +
		`"options":[{"value":"a","name":"A"},{"group":"g","name":"G","options":[{"value":"b","name":"B"}]}]}]`
	methods := map[string]int{}
	for _, resume := range []bool{false, true} {
		for _, capability := range []string{`"loadSession":true`, `"sessionCapabilities":{"resume":{}}`} {
			turn := Turn{Mode: ModeAsk, Model: "b", Dir: "/work", Resume: resume}
			if resume {
				turn.Session = "s"
			}
			lines := []string{
				`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{` + capability + `}}}`,
				`{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s",` + settings + `}}`,
				`{"jsonrpc":"2.0","id":3,"result":{}}`,
				`{"jsonrpc":"2.0","id":4,"result":{"configOptions":[]}}`,
				`{"jsonrpc":"2.0","id":"p","method":"session/request_permission","params":{"sessionId":"s","toolCall":` +
					`{"toolCallId":"c","rawInput":{"a":1}},"options":[{"optionId":"n","kind":"reject_once","name":"N"},` +
					`{"optionId":"y","kind":"allow_once","name":"Y"}]}}`,
				`{"jsonrpc":"2.0","id":5,"result":{"stopReason":"end_turn"}}`,
			}
			for _, m := range []int{1, 4} {
				var a acpMessage
				if err := json.Unmarshal([]byte(lines[m]), &a); err != nil {
					t.Fatal(err)
				}
			}
			events, sent := acpTalk(t, turn, Prompt{Text: "go", Mark: "r.1.1", Run: "r."}, lines...)
			if end, ok := events[len(events)-1].(End); !ok || !end.OK {
				t.Fatalf("the turn ended with %+v", events[len(events)-1])
			}
			for _, m := range sent {
				def, raw := "", m.Params
				switch {
				case m.Method == "" && string(m.ID) == `"p"`:
					def, raw = "RequestPermissionResponse", m.Result
				case len(m.ID) > 0:
					def = s.of(m.Method, "Request")
				}
				methods[m.Method]++
				if err := s.check(def, raw); err != nil {
					t.Errorf("%s %s: %v", m.Method, raw, err)
				}
			}
		}
	}
	d := &acpDialogue{open: acpPrompt, session: "s"}
	var cancel acpMessage
	if err := json.Unmarshal([]byte(d.stop()), &cancel); err != nil {
		t.Fatal(err)
	}
	if err := s.check("CancelNotification", cancel.Params); err != nil {
		t.Error(err)
	}
	for _, m := range []string{acpInitialize, acpNew, acpLoad, acpResume, acpSetMode, acpSetOption, acpPrompt, ""} {
		if methods[m] == 0 {
			t.Errorf("%q was not sent, in %v", m, methods)
		}
	}
}

// Real agents send what the schema says, and are understood: each asks once, by the same digest in each process.
func TestRecordedACPAgentsAreUnderstood(t *testing.T) {
	s := readACPSchema(t)
	const command = "touch made && echo so be it"
	for agent, tool := range map[string]string{"codex-acp": "execute", "claude-agent-acp": "Bash", "gemini": "execute",
		"opencode": "execute"} {
		raw, err := os.ReadFile("testdata/acp/" + agent + ".jsonl")
		if err != nil {
			t.Fatal(err)
		}
		d := &acpDialogue{open: acpPrompt, session: "s", working: true, turn: Turn{Mode: ModeAsk},
			asked: map[string]acpAsked{}}
		var reply, answer string
		var started, finished int
		var used int64
		for line := range strings.Lines(string(raw)) {
			var m acpMessage
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				t.Fatal(err)
			}
			switch m.Method {
			case "":
				d.id = 4
				m.ID = json.RawMessage("4")
				line = acpLine(m)
				err = s.check("PromptResponse", m.Result)
			case acpUpdate:
				err = s.check("SessionNotification", m.Params)
			case acpPermission:
				err = s.check("RequestPermissionRequest", m.Params)
			}
			if err != nil {
				t.Errorf("%s: %s: %v", agent, line, err)
			}
			events, err := d.decode([]byte(line))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events {
				switch e := e.(type) {
				case Question:
					var input struct{ Command, Title string } // gemini sends no input
					if json.Unmarshal(e.Arguments, &input) != nil || input.Command+input.Title != command ||
						e.Tool != tool {
						t.Errorf("%s asks %+v, want %s for the command", agent, e, tool)
					}
					answer += d.allow(e)
				case Text:
					reply += e.Text
				case ToolStarted:
					started++
					if !strings.Contains(string(e.Arguments), command) {
						t.Errorf("%s: the call is reported with the input %s", agent, e.Arguments)
					}
				case ToolFinished:
					finished++
				case Usage:
					used += e.InputTokens + e.OutputTokens
				}
			}
		}
		if used == 0 {
			t.Errorf("%s: no tokens are counted", agent)
		}
		if !strings.Contains(reply, "It says: ") || started != 1 || finished != 1 || d.open != "" {
			t.Errorf("%s: reply %q, %d calls began and %d ended", agent, reply, started, finished)
		}
		if !strings.Contains(answer, `"optionId":"allow_once"`) && !strings.Contains(answer, `"optionId":"allow-once"`) &&
			!strings.Contains(answer, `"optionId":"once"`) && !strings.Contains(answer, `"optionId":"proceed_once"`) {
			t.Errorf("%s is allowed by %s, want its option for one call", agent, answer)
		}
	}
}

// The schema judges, so it must be able to refuse.
func TestTheSchemaOfACPRefuses(t *testing.T) {
	s := readACPSchema(t)
	if err := s.check("NewSessionRequest", json.RawMessage(`{"cwd":"/"}`)); err == nil {
		t.Error("a request without its required list of servers was accepted")
	}
}

// Each field of our types is one of the protocol, under its name there.
func TestFieldsOfACPAreThoseOfTheSchema(t *testing.T) {
	s := readACPSchema(t)
	unstable := map[string]bool{"PromptResponse.usage": true}
	fields := 0
	var compare func(def string, typ reflect.Type)
	compare = func(def string, typ reflect.Type) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			if f.Anonymous {
				compare(def, f.Type)
				continue
			}
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			fields++
			if !unstable[def+"."+name] && s.defs[def].Properties[name] == nil {
				t.Errorf("%s has no field %q", def, name)
			}
		}
	}
	for def, v := range map[string]any{
		"InitializeRequest": acpInitializeRequest{}, "ClientCapabilities": acpClientCapabilities{},
		"Implementation": acpImplementation{}, "InitializeResponse": acpInitializeResponse{},
		"AgentCapabilities":   acpInitializeResponse{}.AgentCapabilities,
		"SessionCapabilities": acpInitializeResponse{}.AgentCapabilities.Session,
		"LoadSessionRequest":  acpSessionRequest{}, "ResumeSessionRequest": acpSessionRequest{},
		"NewSessionResponse": acpSessionResponse{}, "SessionMode": acpMode{},
		"SetSessionModeRequest": acpSetModeRequest{}, "PromptRequest": acpPromptRequest{},
		"CancelNotification": acpCancelNotification{}, "PromptResponse": acpPromptResponse{},
		"SessionNotification": acpSessionNotification{}, "Cost": acpCost{}, "ToolCall": acpToolCall{},
		"ToolCallUpdate": acpToolCall{}, "ToolCallLocation": acpLocation{},
		"RequestPermissionRequest": acpPermissionRequest{}, "PermissionOption": acpPermissionOption{},
		"RequestPermissionResponse": acpPermissionResponse{},
	} {
		compare(def, reflect.TypeOf(v))
	}
	if fields < 40 {
		t.Errorf("%d fields compared, want all", fields)
	}
}
