package thread_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/store"
	"mailroom/thread"
)

// That a refusal changes nothing is checked by fixture.apply, whatever is refused.

func badSubmits() map[string]func(s *thread.Submit) {
	minus, high := -1, 256
	part := func(p mailroom.Part) func(s *thread.Submit) {
		return func(s *thread.Submit) { s.Messages[0].Parts = []mailroom.Part{p} }
	}
	return map[string]func(s *thread.Submit){
		"no message":            func(s *thread.Submit) { s.Messages = nil },
		"no part":               func(s *thread.Submit) { s.Messages[0].Parts = nil },
		"empty text":            part(mailroom.Part{Type: "text"}),
		"blank text":            part(mailroom.Part{Type: "text", Text: " \n\t"}),
		"text that is not":      part(mailroom.Part{Type: "text", Text: "a\xff"}),
		"text with NUL":         part(mailroom.Part{Type: "text", Text: "a\x00"}),
		"large text":            part(mailroom.Part{Type: "text", Text: strings.Repeat("a", mailroom.MaxText+1)}),
		"unknown part":          part(mailroom.Part{Type: "image", URI: "x:y"}),
		"data without data":     part(mailroom.Part{Type: "data"}),
		"data that is not":      part(mailroom.Part{Type: "data", Data: json.RawMessage(`{`)}),
		"data that is not text": part(mailroom.Part{Type: "data", Data: json.RawMessage("\"\xff\"")}),
		"large data": part(mailroom.Part{Type: "data",
			Data: json.RawMessage(`"` + strings.Repeat("a", mailroom.MaxText) + `"`)}),
		"bad data elsewhere": part(mailroom.Part{Type: "text", Text: "a", Data: json.RawMessage(`{`)}),
		"file without uri":   part(mailroom.Part{Type: "file", Name: "a"}),
		"long uri":           part(mailroom.Part{Type: "file", URI: strings.Repeat("é", mailroom.MaxURI+1)}),
		"long file name":     part(mailroom.Part{Type: "file", URI: "x:y", Name: strings.Repeat("é", mailroom.MaxLabel+1)}),
		"long mime type": part(mailroom.Part{Type: "file", URI: "x:y", MimeType: strings.Repeat("é",
			mailroom.MaxLabel+1)}),
		"1001 parts": func(s *thread.Submit) {
			s.Messages[0].Parts = slices.Repeat(mailroom.Text("a"), mailroom.MaxParts+1)
		},
		"file with NUL":      part(mailroom.Part{Type: "file", URI: "x:y", Name: "\x00"}),
		"name of a text":     part(mailroom.Part{Type: "text", Text: "a", Name: "\xff"}),
		"role assistant":     func(s *thread.Submit) { s.Messages[0].Role = mailroom.RoleAssistant },
		"unknown visibility": func(s *thread.Submit) { s.Messages[0].Visibility = "some" },
		"101 messages": func(s *thread.Submit) {
			for range 100 {
				s.Messages = append(s.Messages, s.Messages[0])
			}
		},
		"second message empty": func(s *thread.Submit) { s.Messages = append(s.Messages, thread.NewMessage{}) },
		"unknown mode":         func(s *thread.Submit) { s.Mode = "hurry" },
		"negative priority":    func(s *thread.Submit) { s.Priority = &minus },
		"high priority":        func(s *thread.Submit) { s.Priority = &high },
		"no attempts":          func(s *thread.Submit) { s.MaxAttempts = -1 },
		"many attempts":        func(s *thread.Submit) { s.MaxAttempts = 101 },
		"long key":             func(s *thread.Submit) { s.Key = strings.Repeat("k", 201) },
		"key with NUL":         func(s *thread.Submit) { s.Key = "\x00" },
		"options that are not": func(s *thread.Submit) { s.Options = json.RawMessage(`{]`) },
		"large options": func(s *thread.Submit) {
			s.Options = json.RawMessage(`"` + strings.Repeat("a", mailroom.MaxOptions) + `"`)
		},
		"metadata without name": func(s *thread.Submit) { s.Metadata = map[string]string{"": "a"} },
		"metadata with NUL":     func(s *thread.Submit) { s.Metadata = map[string]string{"a": "\x00"} },
		"large metadata": func(s *thread.Submit) {
			s.Metadata = map[string]string{"a": strings.Repeat("a", mailroom.MaxMetadata)}
		},
		"expect_run and queue": func(s *thread.Submit) { s.ExpectRun = "x" },
		"a time to steer":      func(s *thread.Submit) { s.Mode, s.NotBefore = mailroom.ModeSteer, time.Unix(9e9, 0) },
		"a time to interrupt":  func(s *thread.Submit) { s.Mode, s.NotBefore = mailroom.ModeInterrupt, time.Unix(9e9, 0) },
		"a time to reject":     func(s *thread.Submit) { s.Mode, s.NotBefore = mailroom.ModeReject, time.Unix(9e9, 0) },
		"a time after all": func(s *thread.Submit) {
			s.NotBefore = time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -3600*5))
		},
		"sender with NUL":   func(s *thread.Submit) { s.Sender = "\x00" },
		"agent that is not": func(s *thread.Submit) { s.Agent = "\xff" },
		"origin with NUL":   func(s *thread.Submit) { s.Origin.RequestID = "\x00" },
		"parent with NUL":   func(s *thread.Submit) { s.Parent = "\x00" },
	}
}

// codeOfCase returns the code of the refusal that a case expects. A case whose name begins with "large" has a field
// with too many bytes.
func codeOfCase(name string) mailroom.Code {
	if strings.HasPrefix(name, "large ") && name != "large jitter" {
		return mailroom.CodeTooLarge
	}
	return mailroom.CodeInvalid
}

func TestABadSubmitIsRefused(t *testing.T) {
	for name, spoil := range badSubmits() {
		t.Run(name, func(t *testing.T) {
			for state, begin := range states {
				w := newFixture(t)
				begin(w)
				s := in("", "n")
				s.Key = "k"
				spoil(&s)
				_, err := w.submit(s)
				if want := codeOfCase(name); mailroom.CodeOf(err) != want {
					t.Errorf("%s: got error %v, want %s", state, err, want)
				}
				var e *mailroom.Error
				if !errors.As(err, &e) || len(e.Fields) != 1 || e.Fields[0].Location == "" || e.Fields[0].Message == "" {
					t.Errorf("%s: %v names no field", state, err)
				}
			}
		})
	}
}

func TestValuesAtTheLimitAreAccepted(t *testing.T) {
	zero, top := 0, 255
	for name, stretch := range map[string]func(s *thread.Submit){
		"text":     func(s *thread.Submit) { s.Messages[0].Parts = mailroom.Text(strings.Repeat("a", mailroom.MaxText)) },
		"key":      func(s *thread.Submit) { s.Key = strings.Repeat("ü", 200) },
		"attempts": func(s *thread.Submit) { s.MaxAttempts = 100 },
		"first":    func(s *thread.Submit) { s.Priority = &zero },
		"last":     func(s *thread.Submit) { s.Priority = &top },
		"options": func(s *thread.Submit) {
			s.Options = json.RawMessage(`"` + strings.Repeat("a", mailroom.MaxOptions-2) + `"`)
		},
		"none": func(s *thread.Submit) { s.Options = json.RawMessage{} },
		"metadata": func(s *thread.Submit) {
			s.Metadata = map[string]string{"a": strings.Repeat("a", mailroom.MaxMetadata-1)}
		},
		"data": func(s *thread.Submit) {
			s.Messages[0].Parts = []mailroom.Part{{Type: "data", Data: json.RawMessage(`null`)}}
		},
		"messages": func(s *thread.Submit) {
			for range 99 {
				s.Messages = append(s.Messages, s.Messages[0])
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			s := in("", "n")
			s.Key = "k"
			stretch(&s)
			w.must(s)
		})
	}
}

func TestABadStepIsRefused(t *testing.T) {
	send := func(change func(s *mailroom.Send)) mailroom.Step {
		s := mailroom.Send{Name: "one", Thread: "u", Parts: mailroom.Text("hello")}
		change(&s)
		return mailroom.Step{Sends: []mailroom.Send{{Name: "good", Thread: "u", Parts: mailroom.Text("hello")}, s}}
	}
	note := func(kind, body string) mailroom.Step {
		return mailroom.Step{Entries: []mailroom.AgentEntry{{Kind: kind, Body: json.RawMessage(body)}}}
	}
	many := mailroom.Step{}
	for i := range mailroom.MaxSends + 1 {
		many.Sends = append(many.Sends, mailroom.Send{Name: fmt.Sprint(i), Thread: "u", Parts: mailroom.Text("hello")})
	}
	for name, a := range map[string]thread.StepCommit{
		"name that is not text":  {Step: mailroom.Step{Name: "\xff"}},
		"our own kind":           {Step: note("run.completed", `{}`)},
		"kind without a dot":     {Step: note("x", `{}`)},
		"kind that is not text":  {Step: note("x.\xff", `{}`)},
		"no body":                {Step: note("x.a", ``)},
		"body that is not JSON":  {Step: note("x.a", `{`)},
		"body that is a list":    {Step: note("x.a", `[]`)},
		"large body":             {Step: note("x.a", `{"a":"`+strings.Repeat("a", mailroom.MaxAgentEntry)+`"}`)},
		"checkpoint that is not": {Step: mailroom.Step{Checkpoint: json.RawMessage(`{`)}},
		"large checkpoint": {Step: mailroom.Step{Checkpoint: json.RawMessage(`"` + strings.Repeat("a",
			mailroom.MaxCheckpoint) + `"`)}},
		"too many sends":       {Step: many},
		"send without name":    {Step: send(func(s *mailroom.Send) { s.Name = "" })},
		"send of a name twice": {Step: send(func(s *mailroom.Send) { s.Name = "good" })},
		"send of a long name":  {Step: send(func(s *mailroom.Send) { s.Name = strings.Repeat("a", 200) })},
		"send to a bad thread": {Step: send(func(s *mailroom.Send) { s.Thread = "a/b" })},
		"send of nothing":      {Step: send(func(s *mailroom.Send) { s.Parts = nil })},
		"send of bad data": {Step: send(func(s *mailroom.Send) {
			s.Parts = []mailroom.Part{{Type: "data", Data: json.RawMessage(`{`)}}
		})},
		"send to a bad agent":    {Step: send(func(s *mailroom.Send) { s.Agent = "\x00" })},
		"send of a bad mode":     {Step: send(func(s *mailroom.Send) { s.Mode = "later" })},
		"send of a bad priority": {Step: send(func(s *mailroom.Send) { s.Priority = new(256) })},
		"send of bad options":    {Step: send(func(s *mailroom.Send) { s.Options = json.RawMessage(`{`) })},
		"large metadata": {Step: send(func(s *mailroom.Send) {
			s.Metadata = map[string]string{"a": strings.Repeat("a", mailroom.MaxMetadata)}
		})},
		"send at two times": {Step: send(func(s *mailroom.Send) { s.NotBefore, s.Delay = time.Unix(1, 0), time.Second })},
		"send in the past":  {Step: send(func(s *mailroom.Send) { s.Delay = -time.Second })},
		"send that ends at two times": {Step: send(func(s *mailroom.Send) {
			s.Deadline, s.Timeout = time.Unix(1, 0), time.Second
		})},
		"steer that is delayed": {Step: send(func(s *mailroom.Send) { s.Mode, s.Delay = mailroom.ModeSteer, time.Second })},
		"steer with an answer": {Step: send(func(s *mailroom.Send) {
			s.Mode, s.Answer = mailroom.ModeSteer, mailroom.AnswerWake
		})},
		"collect with an answer": {Step: send(func(s *mailroom.Send) {
			s.Mode, s.Answer = mailroom.ModeCollect, mailroom.AnswerWait
		})},
		"message with NUL":     {Message: partialText("\x00")},
		"part of text":         {Message: withPart("a", mailroom.Part{Type: mailroom.PartText, Text: "b"})},
		"part of no type":      {Message: withPart("a", mailroom.Part{Text: "b"})},
		"part without address": {Message: withPart("a", mailroom.Part{Type: mailroom.PartFile})},
		"part of bad data":     {Message: withPart("a", mailroom.Part{Type: mailroom.PartData, Data: json.RawMessage(`{`)})},
		"blank part":           {Message: withPart("", mailroom.Part{Type: mailroom.PartReasoning, Text: " "})},
		"file of the server":   {Message: withPart("", mailroom.Part{Type: mailroom.PartFile, URI: "mailroom-file:a"})},
		"large part": {Message: withPart("", mailroom.Part{Type: mailroom.PartReasoning,
			Text: strings.Repeat("a", mailroom.MaxText+1)})},
		"large text with an address": {Message: withPart(strings.Repeat("a", mailroom.MaxText),
			mailroom.Part{Type: mailroom.PartFile, URI: "https://example.org/a"})},
		"parts of a record": {Step: mailroom.Step{NoProgress: true},
			Message: withPart("a", mailroom.Part{Type: mailroom.PartReasoning, Text: "b"})},
		"parts beside the message": {Step: mailroom.Step{Parts: mailroom.Text("a")}},
		"model that is not text":   {Step: mailroom.Step{Usage: mailroom.Usage{Model: "\xff"}}},
		"large message":            {Message: partialText(strings.Repeat("a", mailroom.MaxText+1))},
		"message with a bad id":    {Message: &thread.PartialText{ID: "\xff", Text: "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			states["running"](w)
			_, err := w.append(a)
			wantCode(t, err, codeOfCase(name))
		})
	}
}

func withPart(text string, p mailroom.Part) *thread.PartialText {
	return &thread.PartialText{ID: "m", Text: text, Parts: []mailroom.Part{p}}
}

func TestCheckDoesNotChangeTheCallersSends(t *testing.T) {
	sends := []mailroom.Send{{Name: "one", Thread: " u ", Parts: mailroom.Text("hello")}}
	a := thread.StepCommit{Step: mailroom.Step{Sends: sends}}
	if err := a.Check(); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "the caller's and the checked", []string{sends[0].Thread, a.Step.Sends[0].Thread}, []string{" u ", "u"})
}

func TestABadSettleIsRefused(t *testing.T) {
	for name, s := range map[string]thread.Settle{
		"no outcome":             {},
		"unknown outcome":        {Outcome: "wait"},
		"failure without error":  {Outcome: thread.OutcomeFail},
		"success with an error":  {Outcome: thread.OutcomeComplete, Failure: &mailroom.Failure{}},
		"release with an error":  {Outcome: thread.OutcomeRelease, Failure: &mailroom.Failure{}},
		"negative jitter":        {Outcome: thread.OutcomeFail, Failure: &mailroom.Failure{}, Jitter: -0.1},
		"large jitter":           {Outcome: thread.OutcomeFail, Failure: &mailroom.Failure{}, Jitter: 1.1},
		"jitter without measure": {Outcome: thread.OutcomeFail, Failure: &mailroom.Failure{}, Jitter: math.NaN()},
		"message with NUL":       {Outcome: thread.OutcomeComplete, Message: partialText("\x00")},
		"large message": {Outcome: thread.OutcomeRelease,
			Message: partialText(strings.Repeat("a", mailroom.MaxText+1))},
	} {
		t.Run(name, func(t *testing.T) {
			for _, state := range []string{"running", "stopping"} {
				w := newFixture(t)
				states[state](w)
				_, err := w.settle(s)
				wantCode(t, err, codeOfCase(name))
			}
		})
	}
}

func TestABadFlushIsRefused(t *testing.T) {
	for name, p := range map[string]store.Partial{
		"half a character": {Text: "\xc3"},
		"NUL":              {Text: "\x00"},
		"before the start": {Offset: -1, Text: "a"},
		"large offset":     {Offset: mailroom.MaxText, Text: "a"},
	} {
		w := newFixture(t)
		states["running"](w)
		err := w.do(thread.ScopeRow, nil, func(l *thread.State) error { return l.Flush(w.claim(), p) })
		if want := codeOfCase(name); mailroom.CodeOf(err) != want {
			t.Errorf("%s: got error %v, want %s", name, err, want)
		}
	}
}
