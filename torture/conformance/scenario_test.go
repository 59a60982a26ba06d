package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// scenario is a row of the conformance table.
type scenario struct {
	Name string `json:"name"`
	// Text says what must hold, for those who write a worker. It becomes a paragraph of docs/workers.md.
	Text string `json:"text"`
	// Full is set if only make conformance plays the scenario. make test plays the others too.
	Full bool `json:"full"`
	// Skip names the columns for which the scenario has no meaning, with the reason.
	Skip map[string]string `json:"skip"`
	// Lease is that of the server. "" is the default of 15 s: only a scenario in which a lease ends makes it shorter,
	// because a busy machine may keep a worker from renewing a short one.
	Lease string `json:"lease"`
	// Deadline is that of each attempt; "" is that of the server, an hour.
	Deadline string `json:"deadline"`
	// Script is what the agent performs: the text of the run's first message.
	Script []operation `json:"script"`
	// Copies is how many runs with the script are submitted at once, each in its thread; 0 is one.
	Copies int `json:"copies"`
	// Pad is how many bytes of further input each run has.
	Pad int `json:"pad"`
	// Faults of the network, from the start of the worker.
	Faults []fault `json:"faults"`
	// Each plays the scenario once for each of these faults and each request that the undisturbed run makes.
	Each []string `json:"each"`
	// Play is what happens around the runs. Unless it contains submit, the runs are submitted first.
	Play []operation `json:"play"`
	Want want        `json:"want"`
}

// operation is a verb and its arguments: of a script, or of a play.
type operation []json.RawMessage

// want is what holds for each run of the scenario once it has ended.
type want struct {
	Status  string           `json:"status"` // "" is completed
	Reply   *string          `json:"reply"`
	Error   string           `json:"error"`   // part of the message of the run's error
	Attempt *count           `json:"attempt"` // the number of the last attempt
	Crashes *int             `json:"crashes"`
	Notes   map[string]count `json:"notes"`   // by effect NAME or note NAME: how many lines
	Entries []string         `json:"entries"` // kinds of entries that the log has in this order, maybe among others
	Without []string         `json:"without"` // kinds of entries that the log does not have
	// Messages are the texts of the run's messages, without partial ones.
	Messages []string `json:"messages"`
}

// count is a number, or a range of two.
type count struct{ least, most int }

func (c *count) UnmarshalJSON(raw []byte) error {
	if err := json.Unmarshal(raw, &c.least); err == nil {
		c.most = c.least
		return nil
	}
	return json.Unmarshal(raw, &[]*int{&c.least, &c.most})
}

func (op operation) String() string { return scriptText([]operation{op}) }

// verb returns the verb.
func (op operation) verb() string { return op.text(0) }

// text returns argument n as a text; "" if it is absent.
func (op operation) text(n int) (s string) {
	if n < len(op) {
		if err := json.Unmarshal(op[n], &s); err != nil {
			return string(op[n])
		}
	}
	return s
}

// number returns argument n as a number; 0 if it is absent.
func (op operation) number(n int) (i int) {
	if n < len(op) && json.Unmarshal(op[n], &i) != nil {
		return 0
	}
	return i
}

// loadScenarios reads all scenarios, in the order of the files and in them.
func loadScenarios() (all []scenario, err error) {
	files, err := filepath.Glob(filepath.Join("scenarios", "*.json"))
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var some []scenario
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		if err := d.Decode(&some); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, some...)
	}
	return all, nil
}

// plain reports whether the scenario may share a worker with others: nothing happens to the worker or its connections.
func (s *scenario) plain() bool {
	touches := []string{"kill", "start", "freeze", "thaw", "term", "faults", "kill-server", "start-server", "refused",
		"declined"}
	harms := func(verb string) bool { return strings.Contains(s.script(), verb) }
	return len(s.Faults)+len(s.Each)+s.Copies == 0 && s.Lease+s.Deadline == "" &&
		!slices.ContainsFunc([]string{"crash", "fork", "close-stdout"}, harms) &&
		!slices.ContainsFunc(s.Play, func(op operation) bool { return slices.Contains(touches, op.verb()) })
}

// script returns the script as the text of a message.
func (s *scenario) script() string { return scriptText(s.Script) }

func scriptText(ops []operation) string {
	raw, err := json.Marshal(ops)
	if err != nil {
		return err.Error() // the raw messages were decoded from JSON, so this does not happen
	}
	return string(raw)
}

func TestTheScenariosAreWhole(t *testing.T) {
	all, err := loadScenarios()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, s := range all {
		switch {
		case s.Name == "" || seen[s.Name]:
			t.Errorf("%q: the name is missing, or another scenario has it", s.Name)
		case s.Text == "":
			t.Errorf("%s: the text is missing", s.Name)
		case len(s.Script) == 0:
			t.Errorf("%s: the script is missing", s.Name)
		}
		for _, op := range s.Play {
			if actions()[op.verb()] == nil {
				t.Errorf("%s: unknown action %q", s.Name, op.verb())
			}
		}
		for name, reason := range s.Skip {
			if !slices.Contains([]string{inside, "go", "python", "python-async", "javascript"}, name) || reason == "" {
				t.Errorf("%s: it is skipped for the unknown column %q, or without a reason", s.Name, name)
			}
		}
		seen[s.Name] = true
	}
}
