package sqlite

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

// A row of a thread or a run is one blob, its body; the columns beside it are
// there for conditions and indexes. Every column costs several calls into the
// driver at each write and at each read, so forty of them cost more than all
// that SQLite does with the row.
//
// A body is its fields in the order of the functions thread and run below:
// numbers as varints, texts with their length before them, zeros at the end left
// out. So a new field goes to the end of the list, and older rows have zero
// there. Another field of what rows contain is a new format: it needs a
// migration, or the length of the older one before it as nested has.

// packer goes through the fields of a row, in either direction: it appends them
// to out, or, if reading, sets them from in.
type packer struct {
	reading bool
	out     []byte
	end     int // of the last field in out that is not zero
	in      string
	broken  bool // in ended within a field
}

var errBody = errors.New("the body of the row is damaged")

// pack returns what fields goes through, appended to buffer.
func pack[T any](buffer []byte, row *T, fields func(*packer, *T)) []byte {
	p := packer{out: buffer, end: len(buffer)}
	fields(&p, row)
	return p.out[:p.end]
}

// unpack sets what fields goes through. The row keeps body.
func unpack[T any](body string, row *T, fields func(*packer, *T)) error {
	p := packer{reading: true, in: body}
	fields(&p, row)
	if p.broken || p.in != "" {
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
	p.usage(&r.Usage)
	p.fraction(&r.Progress)
	p.flag(&r.Flushed)
	pairs(p, &r.Joined, text[string])
	p.flag(&r.NoRetry)
	p.time(&r.ClaimEnds)
	number(p, &r.StopGrace)
	list(p, &r.Spent, text[string])
	number(p, &r.InputBytes)
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

// nested is a run within a row: a body within a body, which may get longer.
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

func (p *packer) usage(u *mailroom.Usage) {
	number(p, &u.InputTokens)
	number(p, &u.OutputTokens)
	bits := p.uint(math.Float64bits(u.CostUSD))
	if p.reading {
		u.CostUSD = math.Float64frombits(bits)
	}
}

// fraction is a number in digits. Rows of old have words there, which count as
// nothing.
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

// uint is what all else is made of: it appends n, or returns what it reads. The
// row is not set while it is packed, not even to what it holds, because others
// may read it.
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
		return 0 // left out
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
	coded := p.uint(uint64(n)<<1 ^ uint64(n>>63)) // small below zero, too
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

// time is microseconds since 1970; the zero time is a flag that is not set.
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

// optional is nil, or what fields goes through.
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

// list is nil when it is empty.
func list[T any](p *packer, v *[]T, fields func(*packer, *T)) {
	n := p.uint(uint64(len(*v)))
	if n == 0 {
		return
	}
	if p.reading {
		if n > uint64(len(p.in)) { // a field has a byte at least
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

// pairs is nil when it is empty.
func pairs[V any](p *packer, m *map[string]V, field func(*packer, *V)) {
	if !p.reading && len(*m) == 0 || p.reading && (p.in == "" || p.in[0] == 0) {
		p.uint(0) // most rows have none, and sorting nothing allocates
		return
	}
	keys := slices.Sorted(maps.Keys(*m))
	list(p, &keys, func(p *packer, key *string) {
		text(p, key)
		var value V
		if !p.reading {
			value = (*m)[*key]
		} else if *m == nil {
			*m = make(map[string]V)
		}
		field(p, &value)
		if p.reading {
			(*m)[*key] = value
		}
	})
}
