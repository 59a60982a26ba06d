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
	"mailroom/tracker"
	"mailroom/tracker/mail"
)

// move is what a command did to an issue. was is nil where it only matters that
// the issue has ended.
type move struct{ was, is *tracker.Issue }

// ended are the moves of issues that a command has closed or deleted.
func ended(issues []*tracker.Issue) (moves []move) {
	for _, it := range issues {
		moves = append(moves, move{is: it})
	}
	return moves
}

// claimed reports whether the move is a start of work.
func (v move) claimed() bool {
	return v.is.Status == tracker.StatusInProgress && v.was != nil && (v.was.Status != tracker.StatusInProgress || v.was.Assignee != v.is.Assignee)
}

// closed reports whether the move is the end of an issue.
func (v move) closed() bool {
	return v.is.Status == tracker.StatusClosed && (v.was == nil || v.was.Status != tracker.StatusClosed)
}

// left reports whether whoever had the issue reserved does not work on it any more.
func (v move) left() bool {
	switch v.is.Status {
	case tracker.StatusInProgress, tracker.StatusHooked, tracker.StatusBlocked:
		return false
	case tracker.StatusClosed, tracker.StatusTombstone:
		return v.was == nil || v.was.Status != v.is.Status
	}
	return v.was != nil && slices.Contains([]tracker.Status{tracker.StatusInProgress, tracker.StatusHooked, tracker.StatusBlocked, tracker.StatusClosed}, v.was.Status)
}

// mailbox is the mail of the command, nil if no server is named or what names it
// is wrong, which is told.
func (m *Main) mailbox() *mail.Client {
	if m.boxed {
		return m.box
	}
	m.boxed = true
	dir, err := m.folder()
	if err != nil {
		return nil // the command says so
	}
	set := mail.Settings{URL: m.Env("AGENT_MAIL_URL"), Project: m.Env("AGENT_MAIL_PROJECT")}
	named := m.trustedMail(dir)
	set.URL, set.Project = cmp.Or(set.URL, named.URL), cmp.Or(set.Project, named.Project)
	if set.URL == "" {
		return nil
	}
	if set.Token = m.Env("AGENT_MAIL_TOKEN"); set.Token != "" && m.Env("AGENT_MAIL_URL") == "" && !here(set.URL) {
		m.say("Warning: %s names a server of agent mail, which gets AGENT_MAIL_TOKEN only if AGENT_MAIL_URL names it too; going on without it", settingsFile)
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
			m.say("Warning: AGENT_MAIL_TIMEOUT %q is not a number of seconds above 0 and up to %g; going on with %s", text, longest, mail.DefaultTimeout)
			seconds = mail.DefaultTimeout.Seconds()
		}
		set.Timeout = time.Duration(seconds * float64(time.Second))
	}
	box, err := mail.Open(dir.Path(), set, func(message string) { m.say("Warning: %s", message) })
	if err != nil {
		m.say("Warning: %v; going on without it", err)
		return nil
	}
	m.box = box
	return box
}

// here reports whether an address is of this machine. What a repository names may be
// anybody's, and is not told a secret.
func here(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return true // nobody is asked: what is wrong with it is told
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "" || u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// reserve reserves what a command is about to start, once it is known that the
// command can do it as the file is now. moves are what do would do.
func (m *Main) reserve(ctx context.Context, do func(*tracker.Tracker) error, moves *[]move) error {
	if m.readonly || m.mailbox() == nil {
		return nil
	}
	if err := m.look(do); err != nil {
		return err
	}
	var ids []string
	for _, v := range *moves {
		if v.is.Status == tracker.StatusInProgress && !slices.Contains(ids, v.is.ID) {
			ids = append(ids, v.is.ID)
		}
	}
	return refusal(m.mailbox().Reserve(ctx, ids...))
}

// look gives f the issues, and keeps nothing of what it does to them.
func (m *Main) look(f func(*tracker.Tracker) error) error {
	dir, err := m.folder()
	if err != nil {
		return err
	}
	t, _, err := dir.Read() // of invalid the change that follows tells
	if err != nil {
		return err
	}
	return f(t)
}

// refusal is the error of a command whose issue somebody else has reserved.
func refusal(err error) error {
	if held, ok := errors.AsType[*mail.ReservedError](err); ok {
		return mailroom.Errorf(mailroom.CodeConflict, "%v; for other work: bd ready --claim", held)
	}
	return err
}

// reserveReady reserves the first ready issue that is free and that nobody else
// has reserved. It returns "" where no server is asked.
func (m *Main) reserveReady(ctx context.Context, find func(*tracker.Tracker) ([]*tracker.Issue, error), free func(*tracker.Issue) bool) (string, error) {
	const most = 50 // refusals that are worth the time
	if m.readonly || m.mailbox() == nil {
		return "", nil
	}
	var ids []string
	if err := m.look(func(t *tracker.Tracker) error {
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

// tellMail keeps for the server what it has to hear of what the command did.
// [Main.sendMail] sends it.
func (m *Main) tellMail(ctx context.Context, moves []move) {
	box := m.mailbox()
	if box == nil {
		return
	}
	var calls []mail.Call
	who := ""
	actor := func() string {
		if who == "" {
			who = m.who(ctx)
		}
		return who
	}
	for _, v := range moves {
		if v.left() {
			calls = append(calls, mail.Release(v.is.ID))
		}
		switch {
		case v.closed():
			calls = append(calls, mail.Notice("issue.closed", map[string]string{
				"id": v.is.ID, "title": v.is.Title, "reason": brief(v.is.CloseReason), "closed_by": actor(),
			}))
		case v.claimed():
			calls = append(calls, mail.Notice("issue.claimed", map[string]string{
				"id": v.is.ID, "title": v.is.Title, "claimed_by": actor(),
			}))
		}
	}
	box.Enqueue(ctx, calls...)
}

// brief is a text that others are told of: a server takes no books, and the issue
// has the rest.
func brief(text string) string {
	const most = 2000 // characters
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// sendMail sends what is kept, after a command that had to do with mail or has
// changed something.
func (m *Main) sendMail(ctx context.Context) {
	if m.changed {
		m.mailbox().Flush(ctx)
	} else {
		m.box.Flush(ctx)
	}
}

// mailShape is what info says of the mail, as JSON.
func (m *Main) mailShape() map[string]any {
	s, ok := m.mailStatus()
	if !ok {
		return map[string]any{"enabled": false}
	}
	out := map[string]any{"enabled": true, "url": s.URL, "agent": s.Agent, "asked": s.Silent.IsZero(), "kept": s.Kept}
	if !s.Silent.IsZero() {
		out["asked_again_at"], out["reason"] = s.Silent.UTC().Format(time.RFC3339), s.Reason
	}
	return out
}

func (m *Main) mailRows() [][]shown {
	s, ok := m.mailStatus()
	if !ok {
		return nil
	}
	state := "it is asked"
	if !s.Silent.IsZero() {
		state = fmt.Sprintf("it %s, and is asked again in %d s", s.Reason, int(time.Until(s.Silent).Seconds())+1)
	}
	return [][]shown{cells("mail", s.URL+", as "+s.Agent), cells("", state), cells("", fmt.Sprintf("%d kept for it", s.Kept))}
}

func (m *Main) mailStatus() (mail.Status, bool) {
	box := m.mailbox()
	if box == nil {
		return mail.Status{}, false
	}
	s, err := box.Status()
	if err != nil {
		m.say("Warning: %v", err)
	}
	return s, true
}
