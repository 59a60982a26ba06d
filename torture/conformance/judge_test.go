package conformance

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"mailroom"
	"mailroom/api"
	"mailroom/client"
	"mailroom/entry"
)

// judge checks a run that has ended: what its scenario wants, and what holds for every run.
func (p *play) judge(thread, run string) error {
	r, err := p.server.client().Run(p.t.Context(), run)
	if err != nil {
		return err
	}
	var log []mailroom.Entry
	for e, err := range p.server.client().EachEntry(p.t.Context(), thread, client.EntriesQuery{}) {
		if err != nil {
			return err
		}
		log = append(log, e)
	}
	lines, err := p.notes(run)
	if err != nil {
		return err
	}
	w := &p.s.Want
	found := errors.Join(w.checkRun(r), w.checkNotes(lines), w.checkLog(log, run), checkOrder(log, run))
	if found == nil {
		return nil
	}
	var kinds []string
	for _, e := range log {
		kinds = append(kinds, fmt.Sprintf("%d/%d %s %s", e.Seq, e.Attempt, e.Kind, cut(string(e.Body))))
	}
	return fmt.Errorf("%w\nlog:\n%s\nnotes: %q", found, strings.Join(kinds, "\n"), lines)
}

func cut(s string) string { return s[:min(len(s), 200)] }

func (w *want) checkRun(r api.Run) (err error) {
	bad := func(format string, values ...any) { err = errors.Join(err, fmt.Errorf(format, values...)) }
	status := w.Status
	if status == "" {
		status = string(mailroom.StatusCompleted)
	}
	if string(r.Status) != status {
		bad("the status is %s, want %s (error %+v)", r.Status, status, r.Error)
	}
	if w.Reply != nil && (r.Reply == nil || *r.Reply != *w.Reply) {
		reply := "none"
		if r.Reply != nil {
			reply = cut(*r.Reply)
		}
		bad("the reply is %q, want %q", reply, *w.Reply)
	}
	if w.Error != "" && (r.Error == nil || !strings.Contains(r.Error.Message, w.Error)) {
		bad("the error is %+v, want %q", r.Error, w.Error)
	}
	if w.Attempt != nil && (r.Attempt < w.Attempt.least || r.Attempt > w.Attempt.most) {
		bad("the run had %d attempts, want %d to %d", r.Attempt, w.Attempt.least, w.Attempt.most)
	}
	if w.Crashes != nil && r.Crashes != *w.Crashes {
		bad("the run counts %d crashes, want %d", r.Crashes, *w.Crashes)
	}
	return err
}

// checkNotes checks how often each effect happened.
func (w *want) checkNotes(lines []string) (err error) {
	for what, want := range w.Notes {
		n := 0
		for _, line := range lines {
			if line == what {
				n++
			}
		}
		if n < want.least || n > want.most {
			err = errors.Join(err, fmt.Errorf("%q happened %d times, want %d to %d", what, n, want.least, want.most))
		}
	}
	return err
}

// checkLog checks which entries the log has.
func (w *want) checkLog(log []mailroom.Entry, run string) (err error) {
	missing := w.Entries
	var texts []string
	for _, e := range log {
		if e.Run != run {
			continue
		}
		var m mailroom.Message
		if e.Kind == entry.KindMessage && e.Decode(&m) == nil && m.Role == mailroom.RoleAssistant && !m.Partial {
			texts = append(texts, m.Text)
		}
		if len(missing) > 0 && e.Kind == missing[0] {
			missing = missing[1:]
		}
		if slices.Contains(w.Without, e.Kind) {
			err = errors.Join(err, fmt.Errorf("the log has %s", e.Kind))
		}
	}
	if w.Messages != nil && !slices.Equal(texts, w.Messages) {
		err = errors.Join(err, fmt.Errorf("the run wrote %q, want %q", texts, w.Messages))
	}
	if len(missing) > 0 {
		err = errors.Join(err, fmt.Errorf("the log lacks %s, or has it in another order", missing[0]))
	}
	return err
}

// checkOrder checks what holds for the log of every run: it has no gap and one end, and an attempt that has lost its
// claim writes nothing.
func checkOrder(log []mailroom.Entry, run string) (err error) {
	bad := func(format string, values ...any) { err = errors.Join(err, fmt.Errorf(format, values...)) }
	attempt, ends := 0, 0
	for i, e := range log {
		if e.Seq != int64(i+1) {
			bad("entry %d has the number %d", i+1, e.Seq)
		}
		if e.Run != run {
			continue
		}
		switch e.Kind {
		case entry.KindStarted, entry.KindResumed:
			if e.Attempt <= attempt {
				bad("attempt %d starts after attempt %d", e.Attempt, attempt)
			}
			attempt = e.Attempt
		case entry.KindCompleted, entry.KindFailed, entry.KindCancelled:
			ends++
		case entry.KindEffectIntended, entry.KindEffectSettled, entry.KindStep, entry.KindToolStarted:
			if e.Attempt != attempt {
				bad("attempt %d wrote %s while attempt %d had the run", e.Attempt, e.Kind, attempt)
			}
		case "x.by":
			var by struct{ Attempt int }
			if e.Decode(&by) != nil || by.Attempt != e.Attempt {
				bad("a step that attempt %d made is in the log as that of attempt %d", by.Attempt, e.Attempt)
			}
		}
	}
	if ends != 1 {
		bad("the run has ended %d times", ends)
	}
	return err
}
