package bd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"time"

	"mailroom"
	"mailroom/issues/mail"
	"mailroom/issues/tracker"
)

// transition is a change of an issue by a command. was is nil if only the new state matters.
type transition struct{ was, is *tracker.Issue }

// closedIssues returns the transitions of issues that a command has closed or deleted.
func closedIssues(issues []*tracker.Issue) (moves []transition) {
	for _, it := range issues {
		moves = append(moves, transition{is: it})
	}
	return moves
}

// claimed reports whether work on the issue has started.
func (v transition) claimed() bool {
	return v.is.Status == tracker.StatusInProgress && v.was != nil && (v.was.Status != tracker.StatusInProgress ||
		v.was.Assignee != v.is.Assignee)
}

// closed reports whether the issue was closed.
func (v transition) closed() bool {
	return v.is.Status == tracker.StatusClosed && (v.was == nil || v.was.Status != tracker.StatusClosed)
}

// leavesWork reports whether work on the issue has ended, so that its reservation can be released.
func (v transition) leavesWork() bool {
	switch v.is.Status {
	case tracker.StatusInProgress, tracker.StatusHooked, tracker.StatusBlocked:
		return false
	case tracker.StatusClosed, tracker.StatusTombstone:
		return v.was == nil || v.was.Status != v.is.Status
	}
	return v.was != nil &&
		slices.Contains([]tracker.Status{tracker.StatusInProgress, tracker.StatusHooked, tracker.StatusBlocked,
			tracker.StatusClosed}, v.was.Status)
}

// mailbox returns the mail client of the command. It is nil if no server is configured, or after a
// warning about invalid settings.
func (m *Main) mailbox() *mail.Client {
	if m.mailOpened {
		return m.mailClient
	}
	m.mailOpened = true
	dir, err := m.folder()
	if err != nil {
		return nil // the command reports the error
	}
	set := mail.Settings{URL: m.Env("AGENT_MAIL_URL"), Project: m.Env("AGENT_MAIL_PROJECT")}
	named := m.trustedMail(dir)
	set.URL, set.Project = cmp.Or(set.URL, named.URL), cmp.Or(set.Project, named.Project)
	if set.URL == "" {
		return nil
	}
	if set.Token = m.Env("AGENT_MAIL_TOKEN"); set.Token != "" && m.Env("AGENT_MAIL_URL") == "" && !isLocal(set.URL) {
		m.out.logf(
			"Warning: %s names an agent mail server, which receives AGENT_MAIL_TOKEN only if AGENT_MAIL_URL names it too; continuing without it", settingsFile)
		return nil
	}
	set.Agent = m.Env("BEADS_AGENT_NAME")
	if set.Agent == "" {
		if set.Agent, err = os.Hostname(); err != nil {
			set.Agent = "beads-agent"
		}
	}
	if text := m.Env("AGENT_MAIL_TIMEOUT"); text != "" {
		longest := mail.MaxTimeout.Seconds()
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil || !(seconds > 0 && seconds <= longest) {
			m.out.logf("Warning: invalid AGENT_MAIL_TIMEOUT %q; use a positive number of seconds up to %g; continuing with %s",
				text, longest, mail.DefaultTimeout)
			seconds = mail.DefaultTimeout.Seconds()
		}
		set.Timeout = time.Duration(seconds * float64(time.Second))
	}
	box, err := mail.Open(dir.Path(), set, func(message string) { m.out.logf("Warning: %s", message) })
	if err != nil {
		m.out.logf("Warning: %v; going on without it", err)
		return nil
	}
	m.mailClient = box
	return box
}

// isLocal reports whether an address is on this machine. A server that a repository names may
// belong to anyone and must not receive a secret.
func isLocal(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return true // no request is sent; the invalid address is reported
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "" || u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// reserve reserves the issues that a command is about to start, after a trial run of do shows that the command can
// succeed. do appends to moves the transitions of the issues that it changed.
func (m *Main) reserve(ctx context.Context, do func(*tracker.Tracker) error, moves *[]transition) error {
	if m.readonly || m.mailbox() == nil {
		return nil
	}
	if err := m.tryChange(do); err != nil {
		return err
	}
	var ids []string
	for _, v := range *moves {
		if v.is.Status == tracker.StatusInProgress && !slices.Contains(ids, v.is.ID) {
			ids = append(ids, v.is.ID)
		}
	}
	return m.refusal(m.mailbox().Reserve(ctx, ids...))
}

// tryChange calls f with the current issues and discards its changes.
func (m *Main) tryChange(f func(*tracker.Tracker) error) error {
	dir, err := m.folder()
	if err != nil {
		return err
	}
	t, _, err := dir.Read() // the following change reports invalid lines
	if err != nil {
		return err
	}
	return f(t)
}

// refusal adds hints to the error about an issue that another agent has reserved. The other agent may be this one
// under another name, such as the name of a program that reserves by itself.
func (m *Main) refusal(err error) error {
	held, ok := errors.AsType[*mail.ReservedError](err)
	if !ok {
		return err
	}
	why := "the value of BEADS_AGENT_NAME"
	if m.Env("BEADS_AGENT_NAME") == "" {
		why = "because BEADS_AGENT_NAME is not set"
	}
	return mailroom.Errorf(mailroom.CodeConflict,
		"%v; this command reserves as %s, %s: if you are %s, set it to that name; for other work: bd ready --claim",
		held, held.Self, why, held.By)
}

// reserveReady reserves the first ready issue that is unassigned and not reserved by another agent. It returns "" if
// no mail server is configured.
func (m *Main) reserveReady(
	ctx context.Context, find func(*tracker.Tracker) ([]*tracker.Issue, error), free func(*tracker.Issue) bool,
) (string, error) {
	const most = 50 // attempts; more would take too long
	if m.readonly || m.mailbox() == nil {
		return "", nil
	}
	var ids []string
	if err := m.tryChange(func(t *tracker.Tracker) error {
		found, err := find(t)
		for _, it := range found {
			if free(it) {
				ids = append(ids, it.ID)
			}
		}
		return err
	}); err != nil {
		return "", err
	}
	if len(ids) == 0 {
		return "", errNoneFree()
	}
	var first error
	for _, id := range ids[:min(len(ids), most)] {
		err := m.mailbox().Reserve(ctx, id)
		if err == nil {
			return id, nil
		}
		if _, ok := errors.AsType[*mail.ReservedError](err); !ok {
			return "", err
		}
		if first == nil {
			first = err
		}
	}
	return "", mailroom.Errorf(mailroom.CodeConflict, "no ready issue is free: %v", first.Error())
}

// enqueueMail queues the requests that report the changes of a command to the mail server. [Main.sendMail] sends
// them.
func (m *Main) enqueueMail(ctx context.Context, moves []transition) {
	box := m.mailbox()
	if box == nil {
		return
	}
	var calls []mail.Call
	who := ""
	actor := func() string {
		if who == "" {
			who = m.actorName(ctx)
		}
		return who
	}
	for _, v := range moves {
		if v.leavesWork() {
			calls = append(calls, mail.Release(v.is.ID))
		}
		switch {
		case v.closed():
			calls = append(calls, mail.Notice("issue.closed", map[string]string{
				"id": v.is.ID, "title": v.is.Title, "reason": truncate(v.is.CloseReason), "closed_by": actor(),
			}))
		case v.claimed():
			calls = append(calls, mail.Notice("issue.claimed", map[string]string{
				"id": v.is.ID, "title": v.is.Title, "claimed_by": actor(),
			}))
		}
	}
	box.Enqueue(ctx, calls...)
}

// truncate shortens a text for a notification. The issue has the full text.
func truncate(text string) string {
	const most = 2000 // characters
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// sendMail sends the queue if the command used mail or changed something.
func (m *Main) sendMail(ctx context.Context) {
	if m.changed {
		m.mailbox().Flush(ctx)
	} else {
		m.mailClient.Flush(ctx)
	}
}

// mailJSON returns the mail section of info as JSON.
func (m *Main) mailJSON() map[string]any {
	s, ok := m.mailStatus()
	if !ok {
		return map[string]any{"enabled": false}
	}
	out := map[string]any{"enabled": true, "url": s.URL, "agent": s.Agent, "asked": s.BackoffUntil.IsZero(),
		"kept": s.Queued}
	if !s.BackoffUntil.IsZero() {
		out["asked_again_at"], out["reason"] = s.BackoffUntil.UTC().Format(time.RFC3339), s.Reason
	}
	return out
}

func (m *Main) mailRows() [][]safeText {
	s, ok := m.mailStatus()
	if !ok {
		return nil
	}
	state := "available"
	if !s.BackoffUntil.IsZero() {
		state = fmt.Sprintf("%s; next attempt in %d s", s.Reason, int(time.Until(s.BackoffUntil).Seconds())+1)
	}
	return [][]safeText{cells("mail", s.URL+", as "+s.Agent), cells("", state),
		cells("", count(s.Queued, "call")+" queued")}
}

func (m *Main) mailStatus() (mail.Status, bool) {
	box := m.mailbox()
	if box == nil {
		return mail.Status{}, false
	}
	s, err := box.Status()
	if err != nil {
		m.out.logf("Warning: %v", err)
	}
	return s, true
}
