package doctor_test

import (
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/doctor"
	"mailroom/store/memory"
)

// parked is a sound store: run r of thread t waits for an approval and for its
// child, run c of thread u, which is in the queue.
type parked struct {
	t, u        *mailroom.Thread
	r, c        *mailroom.Run
	asks, child *mailroom.Ticket
	more        mailroom.Changes // rows beside these
	logOf       [2]string        // the runs that the entries of t name
}

func newParked(t *testing.T) *parked {
	t.Helper()
	now := time.Now().UTC().Truncate(time.Microsecond)
	past, expiry := now.Add(-time.Hour), now.Add(time.Hour)
	p := &parked{
		t: &mailroom.Thread{
			ID: "t", Current: "r", FirstSeq: 1, LastSeq: 2, NextPlace: 2, CreatedAt: past,
			Due: mailroom.Due{At: expiry, Agent: "echo", Priority: 128},
		},
		u: &mailroom.Thread{
			ID: "u", FirstSeq: 1, LastSeq: 1, NextPlace: 2, CreatedAt: past,
			Due: mailroom.Due{At: past, Agent: "echo", Priority: 128},
		},
		r: &mailroom.Run{
			ID: "r", Thread: "t", Agent: "echo", Priority: 128, Place: 1, MaxAttempts: 5, FirstSeq: 1,
			Status: mailroom.Waiting, Attempt: 1, Started: true, StartedAt: past, CreatedAt: past,
			Asked: 2, Wait: &mailroom.Wait{Names: []string{"asks", "child"}},
		},
		c: &mailroom.Run{
			ID: "c", Thread: "u", Agent: "echo", Priority: 128, Place: 1, MaxAttempts: 5, FirstSeq: 1,
			Status: mailroom.Queued, AvailableAt: past, CreatedAt: past, Parent: "r",
			Caller: &mailroom.Caller{Thread: "t", Run: "r", Name: "child", Answer: mailroom.AnswerWait},
		},
		asks:  &mailroom.Ticket{Name: "asks", Kind: mailroom.Approval, ExpiresAt: &expiry},
		child: &mailroom.Ticket{Name: "child", Kind: mailroom.Child},
		logOf: [2]string{"r", "r"},
	}
	for _, k := range []*mailroom.Ticket{p.asks, p.child} {
		k.ID, k.Thread, k.Run, k.State = mailroom.TicketID("r", k.Name), "t", "r", mailroom.TicketOpen
	}
	return p
}

// check writes the rows and returns what Check finds.
func (p *parked) check(t *testing.T) []string {
	t.Helper()
	s := memory.New()
	c := p.more
	c.Threads = []*mailroom.Thread{p.t, p.u}
	c.Runs = append([]*mailroom.Run{p.r, p.c}, c.Runs...)
	c.Tickets = append([]*mailroom.Ticket{p.asks, p.child}, c.Tickets...)
	for i, run := range p.logOf {
		if seq := int64(i + 1); seq >= p.t.FirstSeq {
			c.Entries = append(c.Entries, []mailroom.Entry{entry(t, "t", seq, run)})
		}
	}
	c.Entries = append(c.Entries, []mailroom.Entry{entry(t, "u", 1, "c")})
	if err := s.Update(t.Context(), func(tx mailroom.Tx) error { return tx.Write(&c) }); err != nil {
		t.Fatal(err)
	}
	report, err := doctor.Check(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return sentences(report)
}

func sentences(r doctor.Report) []string {
	var said []string
	for _, f := range r.Findings {
		said = append(said, f.String())
	}
	return said
}

func entry(t *testing.T, thread string, seq int64, run string) mailroom.Entry {
	t.Helper()
	e, err := mailroom.NewEntry(thread, seq, mailroom.KindStep, run, 0, time.Time{}, mailroom.StepNamed{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func decide(k *mailroom.Ticket) {
	at := time.Now().UTC()
	k.State, k.DecidedAt = mailroom.TicketDecided, &at
}

// end finishes a run that its thread has nothing behind.
func end(t *mailroom.Thread, r *mailroom.Run) {
	r.Status, r.Wait, r.Resumes = mailroom.Completed, nil, false
	t.Current, t.Due = "", mailroom.Due{}
}

func TestCheckFindsNothingInASoundStore(t *testing.T) {
	for name, change := range map[string]func(*parked){
		"parked": func(*parked) {},
		"parked, one answer has come": func(p *parked) {
			decide(p.child)
			end(p.u, p.c)
		},
		"about to go on": func(p *parked) {
			decide(p.asks)
			p.r.Wait.Any, p.r.Status, p.r.Resumes, p.r.AvailableAt = true, mailroom.Queued, true, p.r.StartedAt
			p.t.Due.At = p.r.StartedAt
		},
		"ended, what it asked is void and its child goes on": func(p *parked) {
			end(p.t, p.r)
			p.asks.State, p.child.State = mailroom.TicketVoid, mailroom.TicketVoid
		},
		"a child of a run that is gone": func(p *parked) {
			p.c.Caller.Run, p.c.Parent = "gone", "gone"
			decide(p.child)
		},
		"purged, with an entry of a run that is gone": func(p *parked) {
			p.t.FirstSeq, p.r.FirstSeq = 2, 2
			p.logOf[1] = "gone"
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newParked(t)
			change(p)
			for _, sentence := range p.check(t) {
				t.Errorf("got %q, want nothing", sentence)
			}
		})
	}
}

func TestCheckFindsWhatBreaksAnInvariantOfWaits(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*parked)
		want   string
	}{
		"an open ticket of a finished run": {func(p *parked) {
			end(p.t, p.r)
			p.child.State = mailroom.TicketVoid
		}, "is open and its run r is completed"},
		"a due time that is not the earliest expiry": {func(p *parked) { p.t.Due.At = p.r.StartedAt }, "due is"},
		"a due time without an expiry":               {func(p *parked) { p.asks.ExpiresAt = nil }, "due is"},
		"an expiry without a due time":               {func(p *parked) { p.t.Due = mailroom.Due{} }, "due is"},
		"a parked run without a wait":                {func(p *parked) { p.r.Wait = nil }, "run r is waiting for nothing"},
		"a parked run that may go on": {func(p *parked) {
			decide(p.asks)
			p.r.Wait.Any = true
		}, `run r is waiting for ["asks" "child"], which has come`},
		"a run that is not parked and waits": {func(p *parked) { p.c.Wait = &mailroom.Wait{Names: []string{"x"}} },
			`run c is queued and waits for ["x"]`},
		"a parked run that goes on": {func(p *parked) { p.c.Status, p.c.Resumes = mailroom.Failed, true },
			"run c is failed and about to go on"},
		"a wait for a child that has ended":   {func(p *parked) { end(p.u, p.c) }, `waits for the child "child" of run r`},
		"a wait for a child that nobody sent": {func(p *parked) { p.c.Caller = nil }, `waits for the child "child" of run r`},
		"a child that is not waited for": {func(p *parked) { p.c.Caller.Name = "other" },
			`run c is the child "other" of run r, which has no ticket for it`},
		"a run that forgot what it asked": {func(p *parked) { p.r.Asked = 0 }, "says that it asked nothing"},
		"a ticket under another name":     {func(p *parked) { p.asks.Name = "asked" }, `is not the one that run r asked as "asked"`},
		"a decision without its time":     {func(p *parked) { p.child.State = mailroom.TicketDecided }, "is decided, decided at"},
		"a run older than its log":        {func(p *parked) { p.t.FirstSeq = 2 }, "run r begins at 1, before the first entry kept, 2"},
		"an entry of no run":              {func(p *parked) { p.logOf[1] = "none" }, "names run none, which does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newParked(t)
			c.change(p)
			found := p.check(t)
			if !strings.Contains(strings.Join(found, "\n"), c.want) {
				t.Errorf("got %q, want one that says %q", found, c.want)
			}
		})
	}
}
