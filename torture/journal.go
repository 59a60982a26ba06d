package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/store"
)

// Outcomes of an operation.
const (
	done    = "done"
	refused = "refused"
	unknown = "unknown" // no answer arrived: the operation may have happened
)

// operation is one request and its answer, as a line of the journal.
type operation struct {
	N       int    `json:"n"`
	Cycle   int    `json:"cycle"`
	Kind    string `json:"kind"`
	Thread  string `json:"thread,omitempty"`
	Run     string `json:"run,omitempty"`
	Message string `json:"message,omitempty"`
	Ticket  string `json:"ticket,omitempty"`
	Text    string `json:"text,omitempty"`
	Verdict string `json:"verdict,omitempty"`

	Submit *api.Submit `json:"submit,omitempty"`
	Again  int         `json:"again,omitempty"` // the operation that this one repeats

	Called   time.Time     `json:"called"`
	Returned time.Time     `json:"returned"`
	Outcome  string        `json:"outcome"`
	Code     mailroom.Code `json:"code,omitempty"`
	Why      string        `json:"why,omitempty"`

	Submitted   *store.Submitted `json:"submitted,omitempty"`
	State       *api.Run         `json:"state,omitempty"`
	Row         *api.Thread      `json:"row,omitempty"`
	Interrupted *api.Interrupted `json:"interrupted,omitempty"`
}

// journal keeps every operation, in memory and in a file. It is safe for concurrent use.
type journal struct {
	mu         sync.Mutex
	file       *os.File
	lines      *bufio.Writer
	all        []*operation            // owned by mu; an operation is not modified once it has an outcome
	recent     map[string][]*operation // owned by mu: answered submits, by thread
	unanswered []*operation            // owned by mu: submits with a key, to repeat
	err        error                   // owned by mu: error of the file
}

func newJournal(path string) (*journal, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("make the journal: %w", err)
	}
	return &journal{
		file: f, lines: bufio.NewWriter(f),
		recent: map[string][]*operation{},
	}, nil
}

// begin gives an operation its number before the call.
func (j *journal) begin(o *operation) *operation {
	j.mu.Lock()
	defer j.mu.Unlock()
	o.N = len(j.all) + 1
	o.Called = time.Now()
	j.all = append(j.all, o)
	return o
}

// next returns the smallest number that the next operation can get.
func (j *journal) next() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.all) + 1
}

// end records the outcome of an operation.
func (j *journal) end(o *operation, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	o.Returned = time.Now()
	switch {
	case err == nil:
		o.Outcome = done
	case mailroom.CodeOf(err) == mailroom.CodeUnavailable:
		o.Outcome, o.Why = unknown, err.Error()
	default:
		o.Outcome, o.Code, o.Why = refused, mailroom.CodeOf(err), err.Error()
	}
	j.index(o)
	line, err := json.Marshal(o)
	if err == nil {
		_, err = j.lines.Write(append(line, '\n'))
	}
	j.err = errors.Join(j.err, err)
}

// index adds a submit to the lists of unanswered or recent ones.
func (j *journal) index(o *operation) {
	if o.Submit == nil {
		return
	}
	switch {
	case o.Outcome == unknown && o.Submit.Key != "":
		j.unanswered = append(j.unanswered, o)
	case o.Outcome == done && o.Submitted.Message != "":
		const kept = 20
		list := append(j.recent[o.Thread], o)
		j.recent[o.Thread] = list[max(0, len(list)-kept):]
	}
}

// forgetRecent clears the recent submits, whose keys may be purged.
func (j *journal) forgetRecent() {
	j.mu.Lock()
	defer j.mu.Unlock()
	clear(j.recent)
}

// recentSubmits returns the recently answered submits of a thread.
func (j *journal) recentSubmits(thread string) []*operation {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]*operation(nil), j.recent[thread]...)
}

// unansweredSubmit removes and returns a submit to repeat, or nil. If tagged is false, it skips submits to the
// torture agent, which the released build does not have.
func (j *journal) unansweredSubmit(tagged bool) *operation {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i, o := range j.unanswered {
		if tagged || o.Submit.Agent != tortureAgent {
			j.unanswered = slices.Delete(j.unanswered, i, i+1)
			return o
		}
	}
	return nil
}

// since returns the operations with number n or higher that have an outcome.
func (j *journal) since(n int) []*operation {
	j.mu.Lock()
	defer j.mu.Unlock()
	var list []*operation
	for _, o := range j.all[n-1:] {
		if o.Outcome != "" {
			list = append(list, o)
		}
	}
	return list
}

// tail returns the last n lines of the journal about a thread.
func (j *journal) tail(thread string, n int) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var list []string
	for i := len(j.all) - 1; i >= 0 && len(list) < n; i-- {
		if o := j.all[i]; thread == "" || o.Thread == thread {
			line, err := json.Marshal(o)
			if err != nil {
				line = []byte(err.Error())
			}
			list = append([]string{string(line)}, list...)
		}
	}
	return list
}

func (j *journal) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return errors.Join(j.err, j.lines.Flush(), j.file.Close())
}
