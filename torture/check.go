package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/client"
	"mailroom/doctor/fold"
	"mailroom/entry"
)

// check reads the new entries of every thread and compares them with the journal, the external
// effects and the readers' events. It returns an error if the server could not be read, which is
// harmless if the server died in the meantime.
func (t *torture) check(ctx context.Context, p *process) error {
	before, err := t.effects()
	if err != nil {
		return err
	}
	if err := t.read(ctx, p); err != nil {
		return err
	}
	after, err := t.effects()
	if err != nil {
		return err
	}
	t.collect()
	t.judgeEffects(before, after)
	t.judgeSends()
	t.judgeChildren()
	ops := t.journal.since(t.judged + 1)
	for _, o := range ops {
		t.judge(o)
	}
	t.judgeTexts(ops)
	t.judgeHistories(ops)
	t.judged = t.journal.next() - 1
	t.since = time.Now()
	t.counts.checks.Add(1)
	return context.Cause(ctx)
}

// read brings all logs up to date. Only deleted threads may disappear.
func (t *torture) read(ctx context.Context, p *process) error {
	at := t.target(p)
	defer at.http.CloseIdleConnections()
	c := client.New(at.url, at.token, client.WithHTTPClient(at.http), client.WithTimeout(waitTimeout))
	there := map[string]bool{}
	for cursor := ""; ; {
		page, err := c.Threads(ctx, client.ListQuery{Limit: 500, Cursor: cursor})
		if err != nil {
			return fmt.Errorf("list the threads: %w", err)
		}
		for _, row := range page.Items {
			there[row.ID] = true
			if err := t.readThread(ctx, c, row); err != nil {
				return err
			}
		}
		if page.Next == nil {
			break
		}
		cursor = *page.Next
	}
	for _, l := range t.allLogs() {
		if !there[l.thread] && l.length() > 0 && !strings.HasPrefix(l.thread, "gone-") {
			t.violation(l.thread, "thread %s has disappeared", l.thread)
		}
	}
	return nil
}

func (t *torture) readThread(ctx context.Context, c *client.Client, row api.Thread) error {
	l := t.log(row.ID)
	if strings.HasPrefix(row.ID, "gone-") || l.isIncomplete() {
		return nil
	}
	known := l.length()
	if row.LastSeq < known {
		t.violation(row.ID, "the row of thread %s says that its last entry is %d, but entry %d was read", row.ID,
			row.LastSeq, known)
	}
	if row.OldestSeq > known+1 {
		t.counts.incomplete.Add(1)
		l.setIncomplete()
		return nil
	}
	for known < row.LastSeq {
		page, err := c.Entries(ctx, row.ID, client.EntriesQuery{After: known, Limit: 500})
		if err != nil {
			return fmt.Errorf("read thread %s: %w", row.ID, err)
		}
		for _, e := range page.Items {
			if e.Seq != known+1 {
				t.violation(row.ID, "entry %d follows entry %d in the list of thread %s", e.Seq, known, row.ID)
			}
			known = e.Seq
			l.add(e, "the list")
		}
		if len(page.Items) == 0 {
			t.violation(row.ID, "thread %s has no entry after %d, but its row says that the last is %d", row.ID, known,
				row.LastSeq)
			return nil
		}
	}
	t.judgePurge(l, row.OldestSeq) // fails if a purge removed entries of an open run
	return nil
}

// judgePurge checks that no entry of an open run was purged.
func (t *torture) judgePurge(l *threadLog, oldest int64) {
	l.inspect(func(s *threadState) {
		for _, r := range s.log.Runs {
			open := r.State != fold.StateUnqueued && !r.State.Ended()
			if open && s.run(r.ID).retries == 0 && r.Pos < oldest {
				t.violation(l.thread, "run %s is %s but its first entry %d was purged: entry %d is the oldest", r.ID, r.State,
					r.Pos, oldest)
			}
		}
	})
}

func (t *torture) allLogs() []*threadLog {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]*threadLog, 0, len(t.logs))
	for _, l := range t.logs {
		list = append(list, l)
	}
	slices.SortFunc(list, func(a, b *threadLog) int { return strings.Compare(a.thread, b.thread) })
	return list
}

// entriesFrom returns the entries from seq on, and the time at which each entry was first seen.
func (l *threadLog) entriesFrom(seq int64) ([]mailroom.Entry, []time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries[seq-1:]), slices.Clone(l.seen[seq-1:])
}

// collect counts the occurrences of each text that must be in the logs once, and maps runs to their
// threads.
func (t *torture) collect() {
	for _, l := range t.allLogs() {
		from := t.collected[l.thread]
		entries, _ := l.entriesFrom(from + 1)
		for _, e := range entries {
			if e.Kind == entry.KindQueued {
				t.runs[e.Run] = l
			}
			if e.Kind != entry.KindMessage || e.Attempt > 0 {
				continue
			}
			var m mailroom.Message
			if err := e.Decode(&m); err != nil {
				t.violation(l.thread, "%v", err)
				continue
			}
			if !isOnce(m.Text) || l.thread == t.threads.delivered { // a delivery repeats an earlier message
				continue
			}
			if t.texts[m.Text]++; t.texts[m.Text] > 1 {
				t.violation(l.thread, "message %.60q occurs %d times", m.Text, t.texts[m.Text])
			}
		}
		t.collected[l.thread] = from + int64(len(entries))
	}
}

// isOnce reports whether all logs together must have a text only once, as the texts of users, notes and children.
func isOnce(text string) bool {
	if strings.HasPrefix(text, "note ") || strings.HasPrefix(text, "kid ") {
		return true
	}
	n, _, _ := strings.Cut(strings.TrimPrefix(text, "m"), ".")
	_, err := strconv.Atoi(n)
	return err == nil && strings.HasPrefix(text, "m")
}

// effects reads the external effects: nonces by key.
func (t *torture) effects() (map[string][]string, error) {
	raw, err := os.ReadFile(t.effectsFile())
	if err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("read the effects: %w", err)
	}
	found := map[string][]string{}
	for line := range strings.Lines(string(raw)) {
		key, nonce, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		found[key] = append(found[key], nonce)
	}
	return found, nil
}

// judgeEffects compares the external effects with the logs. Each effect in before, which was read before the logs,
// must be intended in a log. Each effect that a log records as done must be in after, which was read after the logs.
func (t *torture) judgeEffects(before, after map[string][]string) {
	for key, nonces := range before {
		run, name, _ := strings.Cut(key, "/")
		l := t.runs[run]
		if l == nil {
			if !t.anyIncomplete() {
				t.violation("", "effect %s happened, but no log has its run", key)
			}
			continue
		}
		l.inspect(func(s *threadState) {
			f := s.run(run).effects[name]
			switch {
			case f == nil:
				t.violation(l.thread, "effect %s happened, but the log has no intent for it", key)
			case len(nonces) > f.intents:
				t.violation(l.thread, "effect %s happened %d times but was intended %d times", key, len(nonces), f.intents)
			}
		})
	}
	for _, l := range t.allLogs() {
		l.inspect(func(s *threadState) {
			for _, r := range s.runs {
				for _, f := range r.effects {
					value := strings.Trim(string(f.value), `"`)
					if r.agent == tortureAgent && f.last == entry.KindEffectSettled && !f.failed &&
						!slices.Contains(after[f.key], value) && !strings.HasPrefix(value, "{") {
						t.violation(l.thread, "effect %s settled as %s, which never happened; the calls were %v", f.key, value,
							after[f.key])
					}
				}
			}
		})
	}
	t.counts.effects.Store(int64(len(after)))
}

func (t *torture) anyIncomplete() bool { return t.counts.incomplete.Load() > 0 }

// judgeSends checks that each sent message is in its target thread. Threads are not read in one snapshot, so it
// checks a send only after all threads were read once more.
func (t *torture) judgeSends() {
	for _, sent := range t.sent {
		to := t.log(sent.Thread)
		to.inspect(func(s *threadState) {
			if s.log.Message(sent.Message) == nil && !to.incomplete {
				t.violation(sent.from, "message %s was sent from thread %s, but is not in thread %s", sent.Message, sent.from,
					sent.Thread)
			}
		})
	}
	t.sent = nil
	for _, l := range t.allLogs() {
		l.inspect(func(s *threadState) {
			for _, r := range s.runs {
				for _, sent := range r.sends[r.judged:] {
					t.sent = append(t.sent, sending{sent, l.thread})
				}
				r.judged = len(r.sends)
			}
		})
	}
	t.counts.sends.Add(int64(len(t.sent)))
}

// sending is a message that a run sent to another thread, as the log of the sender has it.
type sending struct {
	entry.Sent
	from string
}

// judgeChildren checks that each caller was told the actual outcome of its child.
func (t *torture) judgeChildren() {
	for _, e := range t.ended {
		child := t.log(e.Thread)
		child.inspect(func(s *threadState) {
			r, logged := s.run(e.Run), s.log.Runs[e.Run]
			switch {
			case child.incomplete || r.retries > 0:
			case logged == nil || logged.State.String() != string(e.Status) || !slices.Equal(given(r.reply), given(e.Reply)):
				t.violation(e.caller, "run %s of thread %s was reported as %s with reply %v; it is %+v with reply %v",
					e.Run, e.Thread, e.Status, given(e.Reply), logged, given(r.reply))
			}
		})
	}
	t.counts.children.Add(int64(len(t.ended)))
	t.ended = nil
	for _, l := range t.allLogs() {
		l.inspect(func(s *threadState) {
			for id, k := range s.log.Tickets {
				if k.Kind != mailroom.TicketChildren {
					continue
				}
				for _, d := range s.decided[id][s.judged[id]:] {
					e := ending{caller: l.thread}
					if err := json.Unmarshal(d.Answer, &e); err != nil {
						t.violation(l.thread, "ticket %s: %v", id, err)
					}
					t.ended = append(t.ended, e)
				}
				s.judged[id] = len(s.decided[id])
			}
		})
	}
}

// ending is the outcome of a child as reported to its caller.
type ending struct {
	caller string
	Run    string          `json:"run"`
	Thread string          `json:"thread"`
	Status mailroom.Status `json:"status"`
	Reply  *string         `json:"reply"`
}

func given(s *string) []string {
	if s == nil {
		return nil
	}
	return []string{*s}
}
