package storetest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/store"
)

// base returns a time in the precision of rows: UTC, with microseconds.
func base() time.Time { return time.Date(2026, 5, 4, 3, 2, 1, 123456000, time.UTC) }

// after returns the time some seconds after base.
func after(seconds int) time.Time { return base().Add(time.Duration(seconds) * time.Second) }

func thread(id string) *mailroom.Thread {
	return &mailroom.Thread{ID: id, Agent: "echo", FirstSeq: 1, NextPlace: 1, CreatedAt: base(), UpdatedAt: base()}
}

func dueThread(id, agent string, priority int, at time.Time, alone bool) *mailroom.Thread {
	t := thread(id)
	t.Due = mailroom.Due{At: at, Agent: agent, Priority: priority, LastAttempt: alone}
	return t
}

func run(id, thread string) *mailroom.Run {
	return &mailroom.Run{
		ID: id, Thread: thread, Agent: "echo", Mode: mailroom.ModeQueue, Priority: 128, Place: 1,
		MaxAttempts: 5, Status: mailroom.StatusQueued, CreatedAt: base(), AvailableAt: base(),
	}
}

func key(thread, key string) store.SubmitKey {
	return store.SubmitKey{Thread: thread, Key: key, Digest: "digest of " + key}
}

func partial(run string, offset int, text string) store.Partial {
	return store.Partial{Thread: "t", Run: run, Attempt: 1, Message: "m", Offset: offset, Text: text}
}

func ticket(id, run, thread string) *mailroom.Ticket {
	return &mailroom.Ticket{
		ID: id, Thread: thread, Run: run, Agent: "echo", Name: "name of " + id, Kind: mailroom.TicketApproval,
		Digest: "digest of " + id, State: mailroom.TicketOpen,
	}
}

// entries returns consecutive entries of a thread, one per kind.
func entries(thread string, first int64, run string, kinds ...string) []mailroom.Entry {
	var list []mailroom.Entry
	for i, kind := range kinds {
		seq := first + int64(i)
		e, err := entry.New(thread, seq, kind, run, 1, after(int(seq)),
			json.RawMessage(fmt.Sprintf(`{"n":%d,"text":"line\nbreak, ünïcödé"}`, seq)))
		if err != nil {
			panic(err) // the arguments are this package's own
		}
		list = append(list, e)
	}
	return list
}

// waitingThread returns a thread with every field set but Worker and Round, which no thread has that is due for an
// agent.
func waitingThread(seed int) mailroom.Thread {
	t := filled[mailroom.Thread](seed)
	t.Worker, t.Round = "", 0
	return t
}

// claimedThread returns a thread with every field set that a claimed thread can have.
func claimedThread(seed int) mailroom.Thread {
	t := filled[mailroom.Thread](seed)
	t.Due = mailroom.Due{At: t.Due.At}
	return t
}

// fullChanges returns Changes with one row of each kind, with every field set that the row can have.
func fullChanges() *store.Changes {
	t := waitingThread(1)
	t.Key, t.ID, t.DeletedAt = 0, "t", time.Time{} // so that lists contain it
	r := filled[mailroom.Run](2)
	r.Key, r.ID, r.Thread = 0, "r", "t"
	k := filled[store.SubmitKey](3)
	k.Thread, k.Key = "t", "k"
	p := filled[store.Partial](4)
	p.Thread, p.Run = "t", "r"
	w := filled[store.Worker](5)
	w.ID = "w"
	q := filled[mailroom.Ticket](6)
	q.Key, q.ID, q.Thread, q.Run, q.Agent = 0, "q", "t", "r", r.Agent
	a := filled[auth.Token](8)
	a.Key, a.Name = 0, "ann"
	v := filled[store.Reservation](10)
	v.ID, v.Thread = "v", "t"
	b := filled[store.Blob](13)
	b.Thread, b.Upload = "t", "1"
	y := filled[store.Summary](12)
	y.Key.Step, y.Key.At = store.StepMinute, base()
	return &store.Changes{
		Threads:     []*mailroom.Thread{&t, thread("bare")},
		Runs:        []*mailroom.Run{&r},
		Entries:     [][]mailroom.Entry{entries("t", 1, "r", entry.KindMessage, entry.KindQueued)},
		Keys:        []store.SubmitKey{k},
		Partials:    []store.Partial{p},
		Workers:     []*store.Worker{&w},
		Tickets:     []*mailroom.Ticket{&q},
		Tokens:      []*auth.Token{&a},
		Definitions: []store.Definition{filled[store.Definition](7)},
		Cursors:     []store.Cursor{filled[store.Cursor](9)},
		Pauses:      []store.Pause{filled[store.Pause](11)},
		Summaries:   []store.Summary{y},
		Meters:      []store.Meter{filled[store.Meter](14)},

		Reservations: []store.Reservation{v},
		Blobs:        []store.Blob{b},
		BlobPieces:   []store.BlobPiece{piece("t", "1", 0, "blob")},
	}
}

// filled returns a T with every field set to a non-zero value, different for each seed, so that a
// field that a store drops is noticed.
func filled[T any](seed int) T {
	var v T
	f := filler{n: seed * 1000}
	f.fill(reflect.ValueOf(&v).Elem(), 2)
	return v
}

type filler struct{ n int }

// fill sets v; depth bounds nested rows of the same type.
func (f *filler) fill(v reflect.Value, depth int) {
	f.n++
	switch p := v.Addr().Interface().(type) {
	case *time.Time:
		*p = base().Add(time.Duration(f.n) * time.Microsecond)
		return
	case *json.RawMessage:
		*p = json.RawMessage(fmt.Sprintf(`{"n": %d, "text": "<ünïcödé> & \"quotes\""}`, f.n))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d <&> \"quoted\" back\\slash\nünïcödé", f.n))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(f.n))
	case reflect.Float64:
		v.SetFloat(1 / float64(f.n)) // Progress lies between 0 and 1
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		if depth > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem(), depth-1)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			f.fill(v.Index(i), depth)
		}
	case reflect.Array:
		for i := range v.Len() {
			f.fill(v.Index(i), depth)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			f.fill(k, depth)
			f.fill(e, depth)
			v.SetMapIndex(k, e)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Name == "Newer" && v.Type() != reflect.TypeFor[mailroom.Thread]() &&
				v.Type() != reflect.TypeFor[mailroom.Run]() {
				continue // only stores that keep these rows as bodies keep it; see Rewrite
			}
			if v.Type() == reflect.TypeFor[store.Submitted]() && v.Type().Field(i).Name == "Lent" {
				continue // not stored
			}
			if v.Type() == reflect.TypeFor[store.Worker]() && v.Type().Field(i).Name == "Tables" {
				continue // only stores that several servers share keep it
			}
			f.fill(v.Field(i), depth)
		}
	default:
		panic(fmt.Sprintf("fill: unsupported kind %s", v.Kind()))
	}
}
