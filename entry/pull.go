package entry

import (
	"encoding/json"
	"fmt"
	"time"

	"mailroom/internal/reserved"
)

// States of a pull request.
const (
	PullOpen   = "open"
	PullMerged = "merged"
	PullClosed = "closed" // without a merge
)

// Pull is what the server knows of the pull request of a thread's branch. It is the state of [reserved.Puller] in the
// thread of [reserved.PullsID]; no agent writes it. The commands that look at the data folder have a copy.
type Pull struct {
	Thread string `json:"thread"` // whose branch it is
	Agent  string `json:"agent"`  // that published the branch last
	Run    string `json:"run"`    // in which it did so
	// Repo is the folder of the repository that a message of the thread named; "" is the one of the agent.
	Repo   string `json:"repo,omitempty"`
	Branch string `json:"branch,omitempty"` // "": none was pushed yet
	// Address is the web page of the pull request; "" if it was not opened. Unopened says why, and Again that the server
	// tries again by itself.
	Address  string `json:"address,omitempty"`
	Unopened string `json:"unopened,omitempty"`
	Again    bool   `json:"again,omitempty"`
	// State is what the platform said at At, "" if it has said nothing yet, and Head the newest commit of the pull
	// request, if it said so. Trouble is what keeps it from a merge, or that the branch went on after its end. Unread
	// says why a later look failed.
	State   string    `json:"state,omitempty"`
	Head    string    `json:"head,omitempty"`
	Trouble string    `json:"trouble,omitempty"`
	At      time.Time `json:"at,omitzero"`
	Unread  string    `json:"unread,omitempty"`
	// Since is when a run or a person asked last, Next when the server looks again by itself, Misses how many looks
	// have failed in a row, and Tag the mark of the last answer, for conditional requests.
	Since  time.Time `json:"since,omitzero"`
	Next   time.Time `json:"next,omitzero"`
	Misses int       `json:"misses,omitempty"`
	Tag    string    `json:"tag,omitempty"`
}

// PullOf returns the state of a thread as a Pull, or nil if it has none.
func PullOf(state map[string]json.RawMessage) *Pull {
	raw := state[reserved.Puller]
	var p Pull
	if raw == nil || json.Unmarshal(raw, &p) != nil || p.Thread == "" {
		return nil
	}
	return &p
}

// IsFinal reports whether the pull request was merged or closed.
func (p *Pull) IsFinal() bool { return p.State == PullMerged || p.State == PullClosed }

// Summary says in one sentence what is known.
func (p *Pull) Summary() string {
	switch {
	case p.Unopened != "":
		again := ""
		if p.Again {
			again = " The server tries again by itself."
		}
		return fmt.Sprintf("No pull request was opened: %s.%s", p.Unopened, again)
	case p.Address == "":
		return "No branch of the thread was pushed yet."
	}
	text := fmt.Sprintf("The pull request of the branch %s is %s", p.Branch, p.Address)
	if p.State != "" {
		text += " and is " + p.State
	}
	if p.Trouble != "" {
		text += "; " + p.Trouble
	}
	if p.Unread != "" {
		text += "; its state could not be read: " + p.Unread
	}
	return text
}
