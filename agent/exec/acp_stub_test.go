package exec_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// acpStub is an agent of the Agent Client Protocol that behaves as a test asks. Its sessions are files with one line
// for each message and each call.
type acpStub struct {
	does    string
	in      *bufio.Scanner
	session string
	mode    string
	next    int      // id of its last request
	early   []string // lines that came while it waited for an answer
}

// acpLine is a line that the stub reads.
type acpLine struct {
	ID     json.RawMessage
	Method string
	Params struct {
		SessionID string
		ModeID    string
		Prompt    []struct{ Text string }
		Meta      struct {
			Steering struct{ IdleBehavior string }
		} `json:"_meta"`
	}
	Result struct {
		Outcome struct{ Outcome, OptionID string }
	}
	Error *struct{ Code int }
}

// acpRecord is a line of a session's file.
type acpRecord struct{ Role, Text string }

func runACPStub() {
	s := &acpStub{does: os.Getenv(stubDoes), in: bufio.NewScanner(os.Stdin)}
	s.in.Buffer(nil, 1<<24)
	for {
		line, ok := s.read()
		if !ok {
			if s.does == "is done, and does not go" {
				<-time.After(time.Hour)
			}
			return
		}
		s.handle(line)
	}
}

func (s *acpStub) read() (l acpLine, ok bool) {
	var text string
	if len(s.early) > 0 {
		text, s.early = s.early[0], s.early[1:]
	} else if s.in.Scan() {
		text = s.in.Text()
	} else {
		return l, false
	}
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		panic(fmt.Sprintf("%v: %s", err, text))
	}
	return l, true
}

// once reports whether the stub has to do something that it does only in its first process.
func (s *acpStub) once(does string) bool {
	if s.does != does {
		return false
	}
	f, err := os.OpenFile(filepath.Join(os.Getenv(stubHome), "done"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

func (s *acpStub) die(does string) {
	if s.once(does) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		<-time.After(time.Hour)
	}
}

func (s *acpStub) write(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", b)
}

type object = map[string]any

func (s *acpStub) answer(l acpLine, result any) {
	s.write(object{"jsonrpc": "2.0", "id": l.ID, "result": result})
}

func (s *acpStub) refuse(l acpLine, code int, why string) {
	s.write(object{"jsonrpc": "2.0", "id": l.ID, "error": object{"code": code, "message": why}})
}

func (s *acpStub) update(u object) {
	s.write(object{"jsonrpc": "2.0", "method": "session/update",
		"params": object{"sessionId": s.session, "update": u}})
}

func (s *acpStub) chunk(kind, id, text string) {
	s.update(object{"sessionUpdate": kind, "messageId": id, "content": object{"type": "text", "text": text}})
}

func (s *acpStub) file() string { return filepath.Join(os.Getenv(stubHome), s.session) }

func (s *acpStub) record(role, text string) {
	b, err := json.Marshal(acpRecord{role, text})
	if err != nil {
		panic(err)
	}
	f, err := os.OpenFile(s.file(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.Write(append(b, '\n'))
	}
	if err != nil || f.Close() != nil {
		panic(fmt.Sprint("write the session: ", err))
	}
}

func (s *acpStub) records() (all []acpRecord) {
	raw, _ := os.ReadFile(s.file()) // missing for a new session
	for line := range strings.Lines(string(raw)) {
		var r acpRecord
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			panic(err)
		}
		all = append(all, r)
	}
	return all
}

func (s *acpStub) handle(l acpLine) {
	s.die("dies at " + l.Method)
	forever := func() { <-time.After(time.Hour) }
	switch l.Method {
	case "initialize":
		switch s.does {
		case "dies, and then prepares its files":
			s.die(s.does)
			s.prepare()
		case "prepares its files":
			s.prepare()
		case "never answers":
			forever()
		case "answers late":
			<-time.After(200 * time.Millisecond)
		case "speaks another version":
			s.answer(l, object{"protocolVersion": 2})
			return
		}
		capabilities := object{"loadSession": true, "sessionCapabilities": object{"resume": object{}}}
		if s.does == "keeps no sessions" {
			capabilities = object{}
		}
		hello := object{"protocolVersion": 1, "agentCapabilities": capabilities,
			"agentInfo": object{"name": "stub", "version": "1.2.3"}, "authMethods": []any{object{"id": "a", "name": "A login"}}}
		if strings.Contains(s.does, "a message") {
			hello["_meta"] = object{"steering": object{"supported": true}}
		}
		s.answer(l, hello)
	case "session/new":
		if s.does == "has no login" {
			s.refuse(l, -32000, "Authentication required")
			return
		}
		s.session = fmt.Sprintf("session-%d-%d", os.Getpid(), time.Now().UnixNano())
		if err := os.WriteFile(s.file(), nil, 0o600); err != nil {
			panic(err)
		}
		s.answer(l, s.settings(object{"sessionId": s.session}))
	case "session/load", "session/resume":
		s.session = l.Params.SessionID
		if _, err := os.Stat(s.file()); err != nil {
			s.refuse(l, -32603, "no rollout found for "+s.session)
			return
		}
		if l.Method == "session/load" {
			s.replay()
		}
		s.answer(l, s.settings(object{}))
	case "session/set_mode":
		s.mode = l.Params.ModeID
		s.answer(l, object{})
	case "session/prompt":
		s.prompt(l)
	}
}

// prepare does what an agent does in its first process. It fails if another process does so at the same time.
func (s *acpStub) prepare() {
	ready, busy := filepath.Join(os.Getenv(stubHome), "ready"), filepath.Join(os.Getenv(stubHome), "busy")
	if _, err := os.Stat(ready); err == nil {
		return
	}
	if err := os.Mkdir(busy, 0o700); err != nil {
		fmt.Fprintln(os.Stderr, "the table exists already")
		os.Exit(1)
	}
	<-time.After(300 * time.Millisecond)
	if err := os.WriteFile(ready, nil, 0o600); err != nil {
		panic(err)
	}
}

func (s *acpStub) settings(o object) object {
	if s.does != "has no modes" {
		o["modes"] = object{"currentModeId": "auto", "availableModes": []any{object{"id": "auto", "name": "Auto"},
			object{"id": "default", "name": "Ask"}}}
	}
	return o
}

func (s *acpStub) replay() {
	for i, r := range s.records() {
		id := fmt.Sprint("replay-", i)
		switch r.Role {
		case "user":
			s.chunk("user_message_chunk", id, r.Text)
		case "agent":
			s.chunk("agent_message_chunk", id, r.Text)
		case "call":
			s.update(object{"sessionUpdate": "tool_call", "toolCallId": id, "title": r.Text, "status": "completed"})
		}
	}
}

// prompt works on a request. Its text begins with the mark of the prompt.
func (s *acpStub) prompt(l acpLine) {
	text := l.Params.Prompt[0].Text
	s.record("user", text)
	_, request, _ := strings.Cut(text, "]\n\n")
	s.die("dies after it has the prompt")
	if s.misbehave(l) {
		return
	}
	history := s.records()
	asked := ""
	for _, r := range history {
		if _, rest, ok := strings.Cut(r.Text, "!ask "); ok {
			asked, _, _ = strings.Cut(rest, ".")
		}
	}
	switch {
	case s.mode != "default" && s.does != "has no modes":
		s.speak("the mode is " + s.mode)
	case strings.HasPrefix(request, "!hold"):
		if s.hold(l) {
			return
		}
	case strings.Contains(request, "!ask ") || strings.Contains(request, "was allowed"):
		s.permission(l, asked)
		return
	case strings.Contains(request, "!work"):
		s.chunk("agent_message_chunk", "m", "half of it")
		s.untilCancelled(l)
		return
	case strings.Contains(request, "!think"):
		s.chunk("agent_thought_chunk", "t", "let me see")
		s.call("1", object{"path": "a.go"}, "read")
		s.speak("done")
	default:
		n := 0
		for _, r := range history {
			if r.Role == "user" {
				n++
			}
		}
		s.speak(fmt.Sprintf("%d: %s", n, request))
	}
	s.die("dies before it ends the turn")
	s.end(l, "end_turn")
}

func (s *acpStub) speak(text string) {
	s.record("agent", text)
	s.chunk("agent_message_chunk", "m", text)
}

func (s *acpStub) call(id string, input any, kind string) {
	s.record("call", kind)
	s.update(object{"sessionUpdate": "tool_call", "toolCallId": id, "title": "a call", "kind": kind, "status": "pending",
		"rawInput": object{}})
	s.update(object{"sessionUpdate": "tool_call_update", "toolCallId": id, "rawInput": input})
	s.update(object{"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "completed",
		"content": []any{object{"type": "content", "content": object{"type": "text", "text": "ran it"}}}})
}

func (s *acpStub) end(l acpLine, reason string) {
	s.update(object{"sessionUpdate": "usage_update", "used": 1, "size": 2,
		"cost": object{"amount": 0.5, "currency": "USD"}})
	s.answer(l, object{"stopReason": reason, "usage": object{"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}})
}

// untilCancelled waits for the cancellation of the turn and ends it.
func (s *acpStub) untilCancelled(l acpLine) {
	if s.does == "ignores the cancellation" {
		<-time.After(time.Hour)
	}
	for {
		next, ok := s.read()
		switch {
		case !ok:
			os.Exit(1)
		case next.Method == "session/cancel" && next.Params.SessionID == s.session:
			reason := "cancelled"
			if s.does == "ends the turn when cancelled" {
				reason = "end_turn"
			}
			s.record("agent", "stopped")
			s.end(l, reason)
			return
		}
	}
}

// ask sends a request and waits for its answer.
func (s *acpStub) ask(method string, params any) acpLine {
	s.next++
	s.write(object{"jsonrpc": "2.0", "id": fmt.Sprint("ask-", s.next), "method": method, "params": params})
	for {
		if !s.in.Scan() {
			os.Exit(1)
		}
		var l acpLine
		if err := json.Unmarshal(s.in.Bytes(), &l); err != nil {
			panic(err)
		}
		if string(l.ID) == fmt.Sprintf(`"ask-%d"`, s.next) && l.Method == "" {
			return l
		}
		s.early = append(s.early, s.in.Text())
	}
}

// permission asks for permission for a command and obeys.
func (s *acpStub) permission(l acpLine, command string) {
	id := fmt.Sprint("call-", time.Now().UnixNano()) // another one in each process
	s.update(object{"sessionUpdate": "tool_call", "toolCallId": id, "title": "a try", "kind": "execute",
		"status": "pending"})
	option := func(id, kind, name string) object { return object{"optionId": id, "kind": kind, "name": name} }
	options := []object{option("rule", "allow_always", "Always"), option("no", "reject_once", "No"),
		option("yes", "allow_once", "Yes")}
	switch s.does {
	case "offers two ways":
		options = append(options, option("yes-2", "allow_once", "Yes, in a sandbox"))
	case "offers only a rule":
		options = options[:2]
	}
	if s.once("dies in the question") {
		s.next++
		s.write(object{"jsonrpc": "2.0", "id": "ask-0", "method": "session/request_permission", "params": object{
			"sessionId": s.session, "toolCall": object{"toolCallId": id, "rawInput": object{"command": command}},
			"options": options}})
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	got := s.ask("session/request_permission", object{"sessionId": s.session, "options": options,
		"toolCall": object{"toolCallId": id, "rawInput": object{"command": command}}}).Result.Outcome
	done := func(status string) {
		s.record("call", command)
		s.update(object{"sessionUpdate": "tool_call_update", "toolCallId": id, "status": status})
	}
	switch {
	case got.Outcome == "cancelled":
		done("failed")
		s.untilCancelled(l)
		return
	case got.OptionID == "yes" || got.OptionID == "yes-2":
		done("completed")
		s.speak("It ran " + command + " by " + got.OptionID)
	default:
		done("failed")
		s.speak("It was not to be: " + got.OptionID)
	}
	s.end(l, "end_turn")
}

// misbehave does what a faulty agent does during a turn, and reports whether the turn is over.
func (s *acpStub) misbehave(l acpLine) bool {
	switch s.does {
	case "never ends the turn":
		s.chunk("agent_message_chunk", "m", "half of it")
		<-time.After(time.Hour)
	case "writes a line of 10 MB":
		s.update(object{"sessionUpdate": "tool_call_update", "toolCallId": "none",
			"rawOutput": strings.Repeat("x", 10<<20)})
	case "writes a line of 20 MB":
		fmt.Println(strings.Repeat("x", 20<<20))
		<-time.After(time.Hour)
	case "asks for what is not offered":
		for _, method := range []string{"fs/read_text_file", "terminal/create", "elicitation/create", "x/unknown"} {
			if got := s.ask(method, object{"sessionId": s.session}); got.Error == nil || got.Error.Code != -32601 {
				s.speak(method + " was not refused")
			}
		}
		if got := s.ask("session/request_permission", object{}); got.Error == nil || got.Error.Code != -32602 {
			s.speak("a broken request was not refused")
		}
	case "writes what is not JSON":
		fmt.Print("starting\n\x00\xff {\n[]\n{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}\n")
		s.write(object{"jsonrpc": "2.0", "method": "_stub/news", "params": 1})
		s.update(object{"sessionUpdate": "from_the_future", "content": 7})
	case "ends with refusal":
		s.end(l, "refusal")
		return true
	case "fails with 529":
		s.refuse(l, -32603, "Internal error: API error, status 529 overloaded")
		return true
	}
	return false
}
