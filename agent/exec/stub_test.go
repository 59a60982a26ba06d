package exec_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	osexec "os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Variables of the stub: its behaviour, and the folder of its sessions.
const (
	stubDoes = "EXEC_TEST_STUB"
	stubHome = "EXEC_TEST_HOME"
)

// stub is a program that speaks the protocol of claude and behaves as a test asks. Its sessions are
// files with one line per request.
type stub struct {
	session string
	does    string
	in      *bufio.Scanner
}

func runStub() {
	s := &stub{does: os.Getenv(stubDoes), in: bufio.NewScanner(os.Stdin)}
	s.in.Buffer(nil, 1<<24)
	resume := slices.Contains(os.Args, "--resume")
	for i, arg := range os.Args[1:] {
		if (arg == "--resume" || arg == "--session-id") && i+2 < len(os.Args) {
			s.session = os.Args[i+2]
		}
	}
	if slices.Contains(os.Args, "--version") {
		fmt.Println("stub 1.2.3")
		return
	}
	if misbehave := s.misbehaviour(); misbehave != nil {
		misbehave()
		return
	}
	_, err := os.Stat(s.file())
	_, elsewhere := os.Stat(filepath.Join(os.Getenv(stubHome), "elsewhere"))
	switch {
	case resume && elsewhere == nil: // behaves as if the session did not exist and starts another
		s.session = "another-session"
	case resume && err != nil:
		s.writef(
			`{"is_error":true,"errors":["No conversation found with session ID: %s"],"subtype":"error_during_execution","type":"result"}`, s.session)
		os.Exit(1)
	case !resume && err == nil:
		fmt.Fprintf(os.Stderr, "Error: Session ID %s is already in use.\n", s.session)
		os.Exit(1)
	}
	if why, err := os.ReadFile(filepath.Join(os.Getenv(stubHome), "flaky")); resume && err == nil {
		rest := strings.SplitAfterN(string(why), "\n", 2) // one failed start for each line
		if rest[1] == "" {
			_ = os.Remove(filepath.Join(os.Getenv(stubHome), "flaky"))
		} else {
			_ = os.WriteFile(filepath.Join(os.Getenv(stubHome), "flaky"), []byte(rest[1]), 0o600)
		}
		fmt.Fprint(os.Stderr, rest[0])
		os.Exit(1)
	}
	exit := 0
	for s.in.Scan() {
		exit = s.turn(s.read())
	}
	os.Exit(exit)
}

func (s *stub) file() string { return filepath.Join(os.Getenv(stubHome), s.session) }

func (s *stub) writef(format string, args ...any) { fmt.Printf(format+"\n", args...) }

func (s *stub) begin(id string) { s.writef(`{"type":"system","subtype":"init","session_id":"%s"}`, id) }

func (s *stub) speak(text string) {
	b, _ := json.Marshal(text) // cannot fail
	s.writef(`{"type":"stream_event","event":{"type":"message_start","message":{"id":"msg"}},"parent_tool_use_id":null}`)
	s.writef(
		`{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":%s}},"parent_tool_use_id":null}`, b)
	s.writef(
		`{"type":"assistant","message":{"id":"msg","role":"assistant","content":[{"type":"text","text":%s}]},"parent_tool_use_id":null}`, b)
}

func (s *stub) done() int {
	s.writef(
		`{"usage":{"input_tokens":10,"output_tokens":5},"total_cost_usd":0.5,"model_usage_since_last_result":{"m":{"costUSD":0.25}},"is_error":false,"subtype":"success","result":"","terminal_reason":"completed","type":"result"}`)
	return 0
}

// read decodes the user line that was scanned.
func (s *stub) read() string {
	var l struct {
		Message struct{ Content string }
	}
	if err := json.Unmarshal(s.in.Bytes(), &l); err != nil {
		fmt.Fprintln(os.Stderr, "Error parsing streaming input line")
		os.Exit(1)
	}
	return l.Message.Content
}

// turn handles one request and returns the exit status.
func (s *stub) turn(text string) int {
	s.begin(s.session)
	before, _ := os.ReadFile(s.file()) // missing for a new session
	var told strings.Builder
	enc := json.NewEncoder(&told)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // cannot fail, into memory
	if err := os.WriteFile(s.file(), append(before, told.String()...), 0o600); err != nil {
		panic(err)
	}
	n := strings.Count(string(before), "\n") + 1
	history := string(before) + told.String()
	if poison := strings.LastIndex(string(before), "!poison "); poison >= 0 &&
		!strings.Contains(text, "This conversation continued") {
		why, _, _ := strings.Cut(string(before)[poison+len("!poison "):], "\"")
		s.writef(`{"is_error":true,"subtype":"success","api_error_status":400,"result":"API Error: 400 %s","type":"result"}`,
			why)
		return 1
	}
	if _, what, ok := strings.Cut(text, "!write "); ok {
		if err := os.WriteFile("text", []byte(what+"\n"), 0o600); err != nil {
			panic(err)
		}
	}
	switch at := strings.LastIndex(history, "!ask "); {
	case strings.Contains(text, "!ask ") || strings.Contains(text, "Your call of Bash was allowed"):
		command, _, _ := strings.Cut(history[at+len("!ask "):], ".")
		return s.requestPermission(command)
	case strings.Contains(text, "!hold"):
		s.writef(
			`{"type":"assistant","message":{"id":"hold","role":"assistant","content":[{"type":"tool_use","id":"hold-%d","name":"Bash","input":{}}]}}`, n)
		s.in.Scan() // a message during a tool call belongs to the same turn
		text = s.read()
		s.writef(
			`{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"hold-%d","content":"held","is_error":false}]}}`, n)
	case strings.Contains(text, "!die once") && !strings.Contains(text, "interrupted"):
		s.speak("half of it")
		os.Exit(1)
	case strings.HasSuffix(text, "!full"):
		s.speak("I have read 40 files.")
		s.writef(`{"is_error":true,"subtype":"success","api_error_status":400,"result":"Prompt is too long","type":"result"}`)
		return 1
	case strings.Contains(text, "!limit") && n == 1:
		s.writef(
			`{"type":"assistant","message":{"id":"m","role":"assistant","model":"<synthetic>","content":[{"type":"text","text":"API Error: 429"}]}}`)
		s.writef(
			`{"is_error":true,"subtype":"success","api_error_status":429,"result":"Rate limited, try again in 20ms","type":"result"}`)
		return 1
	case strings.Contains(text, "!build"):
		s.writef(
			`{"type":"assistant","message":{"id":"build","role":"assistant","content":[{"type":"tool_use","id":"build-%d","name":"Bash","input":{"command":"make test"}}]}}`, n)
		for _, err := os.Stat(filepath.Join(os.Getenv(stubHome),
			"built")); err != nil; _, err = os.Stat(filepath.Join(os.Getenv(stubHome), "built")) {
			<-time.After(5 * time.Millisecond)
		}
		s.writef(
			`{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"build-%d","content":"ok","is_error":false}]}}`, n)
	case strings.HasSuffix(text, "!logged out"):
		s.writef(
			`{"type":"assistant","message":{"id":"m","role":"assistant","model":"<synthetic>","content":[{"type":"text","text":"Not logged in · Please run /login"}]}}`)
		s.writef(
			`{"is_error":true,"subtype":"success","api_error_status":null,"result":"Not logged in · Please run /login","type":"result"}`)
		return 1
	case strings.Contains(text, "!overload"):
		s.writef(
			`{"is_error":true,"subtype":"success","api_error_status":529,"result":"Overloaded, try again in 2 seconds","type":"result"}`)
		return 1
	}
	s.speak(fmt.Sprintf("%d: %s", n, text))
	return s.done()
}

// requestPermission requests permission for a command and obeys the answer.
func (s *stub) requestPermission(command string) int {
	s.speak("Let me see.")
	input, _ := json.Marshal(map[string]string{"command": command}) // cannot fail
	s.writef(
		`{"type":"assistant","message":{"id":"msg","role":"assistant","content":[{"type":"tool_use","id":"call","name":"Bash","input":%s}]}}`, input)
	s.writef(
		`{"type":"control_request","request_id":"r1","request":{"subtype":"can_use_tool","tool_name":"Bash","tool_use_id":"call","description":"a try","input":%s}}`, input)
	s.in.Scan()
	var a struct {
		Response struct {
			ID       string `json:"request_id"`
			Response struct {
				Behavior, Message string
				Interrupt         bool
			}
		}
	}
	if err := json.Unmarshal(s.in.Bytes(), &a); err != nil || a.Response.ID != "r1" {
		panic(fmt.Sprint("no answer: ", s.in.Text()))
	}
	answer := a.Response.Response
	result := func(text string, failed bool) {
		b, _ := json.Marshal(text) // cannot fail
		s.writef(
			`{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"call","content":%s,"is_error":%v}]}}`, b, failed)
	}
	switch {
	case answer.Behavior == "allow":
		result("ran "+command, false)
		s.speak("It ran " + command)
		return s.done()
	case answer.Interrupt:
		result("The user doesn't want to proceed", true)
		s.writef(`{"is_error":true,"subtype":"error_during_execution","terminal_reason":"aborted_tools","type":"result"}`)
		return 1
	}
	result(answer.Message, true)
	s.speak("It was not to be: " + answer.Message)
	return s.done()
}

// stay ends its turn, says so in a file of the test and with one in its folder, and does not exit.
func (s *stub) stay() {
	s.begin(s.session)
	s.speak("half of it")
	s.done()
	for _, name := range []string{"made", filepath.Join(os.Getenv(stubHome), "done")} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			panic(err)
		}
	}
	<-time.After(time.Hour) // a bare select would be a deadlock, which ends the process
}

// misbehaviour returns what the stub does instead of its work, or nil.
func (s *stub) misbehaviour() func() {
	forever := func() { <-time.After(time.Hour) } // a bare select would be a deadlock, which ends the process
	half := func() { s.begin(s.session); s.speak("half of it") }
	status := `{"type":"system","subtype":"status","status":"requesting","filler":"` + strings.Repeat("x", 1000) + `"}`
	return map[string]func(){
		"hangs before the first line": forever,
		"goes silent":                 func() { half(); forever() },
		"waits for its network for ever": func() {
			const retry = `{"type":"system","subtype":"api_retry","attempt":1,"max_retries":10,"error":"connection refused"}`
			// in one write: the first retry comes in time
			s.writef(`{"type":"system","subtype":"init","session_id":"%s"}`+"\n"+retry, s.session)
			for ; ; <-time.After(20 * time.Millisecond) {
				s.writef(retry)
			}
		},
		"floods 100 MB in many lines": func() {
			s.begin(s.session)
			for range 100_000 {
				fmt.Println(status)
			}
			forever()
		},
		"floods 100 MB in one line": func() {
			for s.begin(s.session); ; {
				fmt.Print(strings.Repeat("x", 1<<20))
			}
		},
		"ends in half a line": func() { half(); fmt.Print(`{"type":"result","subtype":"succ`) },
		"ends without an end": half,
		"reports success, then fails": func() {
			half()
			s.done()
			os.Exit(3)
		},
		"is done, and does not go": s.stay,
		"ignores INT and TERM": func() {
			signal.Ignore(syscall.SIGINT, syscall.SIGTERM)
			half()
			forever()
		},
		"leaves a child in its own session": func() {
			child := osexec.Command(os.Args[0])
			child.Env = append(os.Environ(), stubDoes+"=ignores INT and TERM")
			child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			if err := child.Start(); err != nil {
				panic(err)
			}
			half()
			s.done()
		},
		"writes garbage for ever": func() {
			for ; ; <-time.After(time.Millisecond) {
				fmt.Println("\x00\xff not a line of ours {")
			}
		},
		"writes garbage, then answers": func() {
			fmt.Println("\x00\xff not a line of ours {")
			fmt.Println(strings.Repeat("x", 9<<20))
			half()
			s.done()
		},
		"has no node": func() {
			fmt.Fprintln(os.Stderr, "env: ‘node’: No such file or directory")
			os.Exit(127)
		},
		"rejects its arguments": func() {
			fmt.Fprintln(os.Stderr, "error: unknown option '--verbose'")
			os.Exit(1)
		},
		"is killed": func() {
			half()
			if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
				panic(err)
			}
			forever()
		},
		"answers from another session": func() { s.begin("another-session"); s.speak("who is this?"); forever() },
	}[s.does]
}
