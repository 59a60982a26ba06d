// Package format encodes the rows of threads, runs, entries and submit keys. The stores of databases
// share it, so that rows can be copied between them.
package format

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"mailroom"
)

// The row of a thread or a run is one blob, its body; the other columns of a table exist for
// conditions and indexes. Each column costs several driver calls per write and per read, so that
// forty columns cost more than SQLite's own work on the row.
//
// A body has its fields in the order of a function such as thread below: numbers as varints,
// texts with a length prefix, trailing zeros omitted. A new field goes to the end of the list,
// before newer, and reads as zero from older rows. A new field in a nested structure is a new
// format: it needs a migration, or a length prefix as in nested.
//
// Nodes of two versions may share a database. The fields of a body behind the last one that this
// version knows are from a newer version; newer keeps them as they are, and they are written back.

// packer visits the fields of a row: it appends them to out or, if reading, sets them from in.
type packer struct {
	reading bool
	out     []byte
	end     int // length of out up to the last field that is not zero
	in      string
	broken  bool // in ended within a field
}

var errBody = errors.New("corrupt row body")

// AppendThread appends the body of a thread to buffer. The key is not in it.
func AppendThread(buffer []byte, t *mailroom.Thread) []byte { return pack(buffer, t, (*packer).thread) }

// ParseThread sets the fields of t from its body.
func ParseThread(body string, t *mailroom.Thread) error { return unpack(body, t, (*packer).thread) }

// AppendRun appends the body of a run to buffer. The key is not in it.
func AppendRun(buffer []byte, r *mailroom.Run) []byte { return pack(buffer, r, (*packer).run) }

// ParseRun sets the fields of r from its body, and Stored.
func ParseRun(body string, r *mailroom.Run) error {
	err := unpack(body, r, (*packer).run)
	r.Stored = r.Status
	return err
}

// pack appends the fields of row to buffer.
func pack[T any](buffer []byte, row *T, fields func(*packer, *T)) []byte {
	p := packer{out: buffer, end: len(buffer)}
	fields(&p, row)
	return p.out[:p.end]
}

// unpack sets the fields of row from body, whose memory the row keeps.
func unpack[T any](body string, row *T, fields func(*packer, *T)) error {
	p := packer{reading: true, in: body}
	fields(&p, row)
	if p.broken {
		return errBody
	}
	return nil
}

func (p *packer) thread(t *mailroom.Thread) {
	text(p, &t.ID)
	text(p, &t.Agent)
	text(p, &t.Owner)
	text(p, &t.Parent)
	text(p, &t.Current)
	text(p, &t.Worker)
	number(p, &t.Round)
	p.time(&t.Due.At)
	text(p, &t.Due.Agent)
	number(p, &t.Due.Priority)
	p.flag(&t.Due.LastAttempt)
	p.time(&t.HeldAt)
	number(p, &t.FirstSeq)
	number(p, &t.LastSeq)
	number(p, &t.NextPlace)
	number(p, &t.Revision)
	p.time(&t.CreatedAt)
	p.time(&t.UpdatedAt)
	text(p, &t.Metadata)
	pairs(p, &t.State, text[json.RawMessage])
	text(p, &t.DeliverTo)
	number(p, &t.Bytes)
	p.time(&t.DeletedAt)
	number(p, &t.Inboxes)
	pairs(p, &t.Unread, number[int64])
	number(p, &t.Lapsed)
	pairs(p, &t.Nodes, text[string])
	pairs(p, &t.BlobBytes, number[int64])
	list(p, &t.Uploads, (*packer).upload)
	list(p, &t.Meters, text[string])
	text(p, &t.Gate)
	p.flag(&t.Kept)
	p.threadBudgets(t)
	p.flag(&t.Paced)
	p.newer(&t.Newer)
}

// threadBudgets packs the budgets of a thread as JSON, as the one of a run: few threads have any.
func (p *packer) threadBudgets(t *mailroom.Thread) {
	var body []byte
	if !p.reading && len(t.Budgets) > 0 {
		all, err := slices.Clone(t.Budgets), error(nil)
		for i, b := range all { // in UTC and whole microseconds, as the other times of a row
			all[i].Begin, all[i].End = b.Begin.UTC().Truncate(time.Microsecond), b.End.UTC().Truncate(time.Microsecond)
		}
		if body, err = json.Marshal(all); err != nil {
			panic(err) // numbers, checked times and names of periods
		}
	}
	text(p, &body)
	if p.reading && len(body) > 0 {
		p.broken = p.broken || json.Unmarshal(body, &t.Budgets) != nil
	}
}

func (p *packer) run(r *mailroom.Run) {
	text(p, &r.ID)
	text(p, &r.Thread)
	text(p, &r.Agent)
	text(p, &r.AgentVersion)
	text(p, &r.Mode)
	number(p, &r.Priority)
	number(p, &r.Place)
	text(p, &r.SubmitKey)
	text(p, &r.Parent)
	p.origin(&r.Origin)
	number(p, &r.MaxAttempts)
	number(p, &r.FirstSeq)
	text(p, &r.Status)
	text(p, &r.Stop)
	text(p, &r.StopBy)
	p.flag(&r.Scheduled)
	p.time(&r.NotBefore)
	p.time(&r.AvailableAt)
	number(p, &r.Attempt)
	number(p, &r.Failures)
	number(p, &r.Crashes)
	number(p, &r.Lost)
	number(p, &r.Outages)
	p.time(&r.OutageSince)
	number(p, &r.Step)
	p.mark(&r.LastStep)
	p.flag(&r.Started)
	text(p, &r.Reason)
	p.time(&r.CreatedAt)
	p.time(&r.StartedAt)
	p.time(&r.FinishedAt)
	list(p, &r.Inputs, (*packer).input)
	list(p, &r.Steers, (*packer).steer)
	optional(p, &r.Reply, text[string])
	optional(p, &r.Error, (*packer).failure)
	pairs(p, &r.Metadata, text[string])
	text(p, &r.Options)
	text(p, &r.Checkpoint)
	optional(p, &r.Caller, (*packer).caller)
	list(p, &r.Lineage, text[string])
	optional(p, &r.Wait, (*packer).wait)
	p.flag(&r.Resumes)
	number(p, &r.Asked)
	p.usage(&r.Usage.InputTokens, &r.Usage.OutputTokens, &r.Usage.CostUSD)
	p.fraction(&r.Progress)
	p.flag(&r.Flushed)
	pairs(p, &r.Joined, text[string])
	p.flag(&r.NoRetry)
	p.time(&r.ClaimEnds)
	number(p, &r.StopGrace)
	list(p, &r.Spent, text[string])
	number(p, &r.InputBytes)
	text(p, &r.LastMessage)
	text(p, &r.InputText)
	p.errorGroup(r)
	p.startDelay(r)
	p.time(&r.Counted.At)
	p.usage(&r.Counted.InputTokens, &r.Counted.OutputTokens, &r.Counted.CostUSD)
	p.lastError(r)
	optional(p, &r.CrashLimit, number[int])
	p.deadline(r)
	p.flag(&r.AgentAttempts)
	number(p, &r.RetryFirst)
	number(p, &r.RetryMost)
	p.flag(&r.Joins)
	p.time(&r.JoinUntil)
	p.time(&r.JoinSince)
	p.usageDetails(&r.Usage)
	p.ofClaim(r)
	p.time(&r.Labelled.At)
	text(p, &r.Labelled.Key)
	p.retry(r)
	number(p, &r.Turns)
	p.budget(r)
	p.float(&r.Usage.ComputedUSD)
	text(p, &r.LimitKey)
	p.newer(&r.Newer)
}

func (p *packer) upload(u *mailroom.Blob) {
	text(p, &u.Name)
	number(p, &u.Size)
	text(p, &u.Digest)
	p.time(&u.WrittenAt)
}

func (p *packer) origin(o *mailroom.Origin) {
	text(p, &o.Via)
	text(p, &o.Sender)
	text(p, &o.RequestID)
}

func (p *packer) mark(m *mailroom.StepMark) {
	number(p, &m.Attempt)
	number(p, &m.Step)
	text(p, &m.Digest)
	number(p, &m.Seq)
}

func (p *packer) input(in *mailroom.Input) {
	text(p, &in.Message)
	number(p, &in.Seq)
	p.flag(&in.Retracted)
}

func (p *packer) steer(s *mailroom.Steer) {
	p.input(&s.Input)
	p.flag(&s.Read)
	optional(p, &s.Own, (*packer).nested)
}

// nested packs a run within a row as a body with a length prefix, so that its format may grow.
func (p *packer) nested(r *mailroom.Run) {
	number(p, &r.Key)
	var body string
	if !p.reading {
		body = string(pack(nil, r, (*packer).run))
	}
	text(p, &body)
	if p.reading && unpack(body, r, (*packer).run) != nil {
		p.broken = true
	}
}

func (p *packer) failure(e *mailroom.RunError) {
	text(p, &e.Class)
	text(p, &e.Message)
}

// errorGroup packs the error group with the end of the run. An older version may retry the run, and keeps
// both; then the end differs, and the run has no group.
func (p *packer) errorGroup(r *mailroom.Run) {
	text(p, &r.ErrorGroup)
	var ended time.Time
	if !p.reading && r.ErrorGroup != "" {
		ended = r.FinishedAt
	}
	p.time(&ended)
	if p.reading && !ended.Equal(r.FinishedAt) {
		r.ErrorGroup = ""
	}
}

// lastError packs the error of the last attempt with the attempt's number and the end of the run. An older
// version may start or end the run, and keeps them; then the run does not wait for the next attempt.
func (p *packer) lastError(r *mailroom.Run) {
	optional(p, &r.LastError, (*packer).failure)
	attempt, ended := 0, time.Time{}
	if !p.reading && r.LastError != nil {
		attempt, ended = r.Attempt, r.FinishedAt
	}
	number(p, &attempt)
	p.time(&ended)
	if p.reading && (attempt != r.Attempt || !ended.Equal(r.FinishedAt)) {
		r.LastError = nil
	}
}

// deadline packs the deadline with whether the run has ended. An older version may retry the run, and keeps both;
// then the run has no deadline, as after every retry by hand.
func (p *packer) deadline(r *mailroom.Run) {
	p.time(&r.Deadline)
	ended := !p.reading && !r.Deadline.IsZero() && r.Status.Finished()
	p.flag(&ended)
	if p.reading && ended && !r.Status.Finished() {
		r.RemoveDeadline()
	}
}

// budget packs the budget of a run as JSON, so that its format may grow: few runs have one.
func (p *packer) budget(r *mailroom.Run) {
	var body []byte
	if !p.reading && r.Budget != nil {
		var err error
		if body, err = json.Marshal(r.Budget); err != nil {
			panic(err) // numbers, times of the years that Budget.Check allows, and ids
		}
	}
	text(p, &body)
	if p.reading && len(body) > 0 {
		r.Budget = new(mailroom.RunBudget)
		p.broken = p.broken || json.Unmarshal(body, r.Budget) != nil
	}
}

// ofClaim packs what holds for one claim, with the attempt and whether it ran. An older version may end that attempt
// and start the next one, and keeps all of it; then it does not hold.
func (p *packer) ofClaim(r *mailroom.Run) {
	number(p, &r.ClaimSpare)
	attempt, ran := 0, false
	if !p.reading && (r.ClaimSpare != 0 || r.WaitsOn != "") {
		attempt, ran = r.Attempt, r.Status == mailroom.StatusRunning
	}
	number(p, &attempt)
	text(p, &r.WaitsOn)
	p.time(&r.WaitsSince)
	p.flag(&ran)
	if p.reading && (attempt != r.Attempt || ran && r.Status != mailroom.StatusRunning) {
		r.ClaimSpare, r.WaitsOn, r.WaitsSince = 0, "", time.Time{}
	}
}

// retry packs what a version before did not know of the retries of a run.
func (p *packer) retry(r *mailroom.Run) {
	p.float(&r.RetryFactor)
	number(p, &r.RetryOutageMost)
	number(p, &r.RetryOutage)
	text(p, &r.SubmitRetry)
}

// startDelay packs the delay with its start. An older version may start the run, and keeps both; then the
// start differs, and the delay is not known.
func (p *packer) startDelay(r *mailroom.Run) {
	number(p, &r.StartDelay)
	var started time.Time
	if !p.reading && r.StartDelay >= 0 {
		started = r.StartedAt
	}
	p.time(&started)
	if p.reading && !started.Equal(r.StartedAt) {
		r.StartDelay = -1
	}
}

func (p *packer) caller(c *mailroom.Caller) {
	text(p, &c.Thread)
	text(p, &c.Run)
	text(p, &c.Name)
	text(p, &c.Answer)
}

func (p *packer) wait(w *mailroom.Wait) {
	list(p, &w.Names, text[string])
	p.flag(&w.Any)
}

func (p *packer) usage(in, out *int64, cost *float64) {
	number(p, in)
	number(p, out)
	p.float(cost)
}

// float packs all bits of a number.
func (p *packer) float(v *float64) {
	bits := p.uint(math.Float64bits(*v))
	if p.reading {
		*v = math.Float64frombits(bits)
	}
}

// usageDetails packs what a version before did not know of the usage of a run.
func (p *packer) usageDetails(u *mailroom.Usage) {
	number(p, &u.CacheReadTokens)
	number(p, &u.CacheWriteTokens)
	number(p, &u.ReasoningTokens)
	text(p, &u.Model)
}

// newer keeps the rest of a body.
func (p *packer) newer(v *string) {
	if p.reading {
		*v, p.in = p.in, ""
		return
	}
	if *v != "" {
		p.out = append(p.out, *v...)
		p.end = len(p.out)
	}
}

// fraction packs a number as digits. Older rows may contain words, which read as zero.
func (p *packer) fraction(v *float64) {
	var digits string
	if !p.reading && *v != 0 {
		digits = strconv.FormatFloat(*v, 'g', -1, 64)
	}
	text(p, &digits)
	if p.reading {
		if n, err := strconv.ParseFloat(digits, 64); err == nil && n >= 0 && n <= 1 {
			*v = n
		}
	}
}

// uint is the primitive of all fields: it appends n, or returns the number that it reads. Packing
// never writes to the row, because other goroutines may read it.
func (p *packer) uint(n uint64) uint64 {
	if p.reading {
		return p.next()
	}
	p.out = binary.AppendUvarint(p.out, n)
	if n != 0 {
		p.end = len(p.out)
	}
	return n
}

func (p *packer) next() (n uint64) {
	if p.in == "" {
		return 0 // omitted
	}
	for i := range min(len(p.in), binary.MaxVarintLen64) {
		c := p.in[i]
		n |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			p.in = p.in[i+1:]
			return n
		}
	}
	p.broken, p.in = true, ""
	return 0
}

func number[T int | int64 | time.Duration](p *packer, v *T) {
	n := int64(*v)
	coded := p.uint(uint64(n)<<1 ^ uint64(n>>63)) // zigzag: small for small negatives, too
	if p.reading {
		*v = T(int64(coded>>1) ^ -int64(coded&1))
	}
}

func (p *packer) flag(v *bool) {
	n := uint64(0)
	if *v {
		n = 1
	}
	n = p.uint(n)
	if p.reading {
		*v = n != 0
	}
}

// time packs microseconds since 1970 behind a flag, which is false for the zero time.
func (p *packer) time(t *time.Time) {
	there := !t.IsZero()
	p.flag(&there)
	if !there {
		return
	}
	n := int64(0)
	if !p.reading {
		n = t.UnixMicro()
	}
	number(p, &n)
	if p.reading {
		*t = time.UnixMicro(n).UTC()
	}
}

// timeOrNil packs a time that may be missing. A zero time is missing too, as in a column.
func (p *packer) timeOrNil(t **time.Time) {
	given := *t
	if !p.reading && given != nil && given.IsZero() {
		given = nil
	}
	optional(p, &given, (*packer).time)
	if p.reading && given != nil && !given.IsZero() {
		*t = given
	}
}

func text[T ~string | ~[]byte](p *packer, v *T) {
	n := p.uint(uint64(len(*v)))
	switch {
	case !p.reading:
		if n > 0 {
			p.out = append(p.out, *v...)
			p.end = len(p.out)
		}
	case n > uint64(len(p.in)):
		p.broken, p.in = true, ""
	case n > 0:
		*v, p.in = T(p.in[:n]), p.in[n:]
	}
}

// optional packs a flag and, unless v is nil, the fields.
func optional[T any](p *packer, v **T, fields func(*packer, *T)) {
	there := *v != nil
	p.flag(&there)
	if !there {
		return
	}
	if p.reading {
		*v = new(T)
	}
	fields(p, *v)
}

// list packs a length and the elements. An empty list reads as nil.
func list[T any](p *packer, v *[]T, fields func(*packer, *T)) {
	n := p.uint(uint64(len(*v)))
	if n == 0 {
		return
	}
	if p.reading {
		if n > uint64(len(p.in)) { // a field has at least one byte
			p.broken, p.in = true, ""
			return
		}
		*v = make([]T, n)
	}
	for i := range *v {
		fields(p, &(*v)[i])
	}
	p.end = len(p.out)
}

// pairs packs a map in the order of its keys. An empty map reads as nil.
func pairs[K ~string, V any](p *packer, m *map[K]V, field func(*packer, *V)) {
	if !p.reading && len(*m) == 0 || p.reading && (p.in == "" || p.in[0] == 0) {
		p.uint(0) // most rows have none, and an empty sort allocates
		return
	}
	keys := slices.Sorted(maps.Keys(*m))
	list(p, &keys, func(p *packer, key *K) {
		text(p, key)
		var value V
		if !p.reading {
			value = (*m)[*key]
		} else if *m == nil {
			*m = make(map[K]V)
		}
		field(p, &value)
		if p.reading {
			(*m)[*key] = value
		}
	})
}
