package ledger

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// CheckRefusals makes a ledger compare what a transaction would write, and the rows that it has loaded, before and
// after each operation that is refused. A refusal undoes nothing, so an operation must check everything before it
// changes anything. Each change is reported. Call it before Run.
//
// Large transactions are left out: a test with thousands of rows in a batch would take their square for what the small
// ones show.
func CheckRefusals(l *Ledger, report func(change string)) {
	for _, c := range l.lanes {
		c.apply = func(o *op, tx *transaction) error {
			if isLarge(tx) {
				return o.apply(tx)
			}
			before := imageOf(tx)
			err := o.apply(tx)
			if aborts := new(abortBatch); err == nil || errors.As(err, aborts) || !isRefusal(err) {
				return err // the batch runs again without the operation, or ends
			}
			if diff := before.changes(imageOf(tx)); diff != "" {
				report(fmt.Sprintf("operation %s was refused with %q after it had changed:\n%s", o.name, err, diff))
			}
			return err
		}
	}
}

// isLarge reports whether the image of a transaction has more than some hundred rows.
func isLarge(tx *transaction) bool {
	const most = 200
	n := len(tx.rows.workers) + len(tx.rows.tokens) + len(tx.rows.tokensByName)
	for _, t := range tx.rows.threads {
		n += reflect.ValueOf(t).Elem().FieldByName("Runs").FieldByName("byID").Len()
	}
	if n > most {
		return true
	}
	all := reflect.ValueOf(tx.collect()).Elem()
	for i := range all.NumField() {
		if all.Field(i).Kind() == reflect.Slice {
			n += all.Field(i).Len()
		}
	}
	return n > most
}

// image is a transaction as text, which later changes of its values leave alone.
type image struct {
	writes map[string]string // by the kind of rows
	rows   map[string]string // loaded rows, by name
}

func imageOf(tx *transaction) image {
	m := image{writes: map[string]string{}, rows: map[string]string{}}
	all := reflect.ValueOf(tx.collect()).Elem()
	for i := range all.NumField() {
		name := all.Type().Field(i).Name
		if all.Field(i).Kind() != reflect.Slice {
			m.writes[name] = dump(all.Field(i))
			continue
		}
		var rows []string
		for j := range all.Field(i).Len() {
			rows = append(rows, dump(all.Field(i).Index(j)))
		}
		slices.Sort(rows) // rows of projects have no order
		m.writes[name] = strings.Join(rows, "\n")
	}
	m.writes["use"] = dump(reflect.ValueOf(tx.changes.workers))
	for id, t := range tx.rows.threads {
		m.add("thread "+id, &t.Thread)
		m.add("outbox of thread "+id, t.Outbox)
		m.add("attempts of thread "+id, t.Attempts)
		state := reflect.ValueOf(t).Elem()
		m.addAll("run", state.FieldByName("Runs").FieldByName("byID"))
		m.addAll("ticket", state.FieldByName("Tickets").FieldByName("byID"))
	}
	for id, p := range tx.rows.projects {
		m.addAll("reservation of "+id, reflect.ValueOf(p).Elem().FieldByName("held").Elem().FieldByName("ids"))
	}
	m.addAll("worker", reflect.ValueOf(tx.rows.workers))
	m.addAll("pause", reflect.ValueOf(tx.rows.pauses))
	m.addAll("token", reflect.ValueOf(tx.rows.tokensByName))
	for _, t := range tx.rows.tokens {
		m.add("token "+t.Name, t)
	}
	return m
}

func (m *image) add(name string, row any) { m.rows[name] = dump(reflect.ValueOf(row)) }

// addAll adds the rows of a map.
func (m *image) addAll(kind string, rows reflect.Value) {
	for of := rows.MapRange(); of.Next(); {
		m.rows[kind+" "+dump(of.Key())] = dump(of.Value())
	}
}

// changes describes what differs in a later image. Rows that were loaded in between are no change.
func (m *image) changes(later image) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(m.writes)) {
		if was, is := m.writes[name], later.writes[name]; was != is {
			all = append(all, fmt.Sprintf("what is written to %s, from\n%s\nto\n%s", name, was, is))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.rows)) {
		if was, is := m.rows[name], later.rows[name]; was != is {
			all = append(all, fmt.Sprintf("loaded %s, from\n%s\nto\n%s", name, was, is))
		}
	}
	return strings.Join(all, "\n")
}

// dump is a value as text, with everything that it points to.
func dump(v reflect.Value) string {
	var b strings.Builder
	dumpTo(&b, v)
	return b.String()
}

func dumpTo(b *strings.Builder, v reflect.Value) {
	switch {
	case !v.IsValid():
		b.WriteString("nil")
		return
	case v.Type() == reflect.TypeFor[time.Time](): // without its zone
		fmt.Fprint(b, v.Field(0).Uint(), v.Field(1).Int())
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		dumpTo(b, v.Elem())
	case reflect.Struct:
		b.WriteByte('{')
		for i := range v.NumField() {
			if !v.Field(i).IsZero() {
				b.WriteString(v.Type().Field(i).Name + ":")
				dumpTo(b, v.Field(i))
				b.WriteByte(' ')
			}
		}
		b.WriteByte('}')
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			fmt.Fprintf(b, "%q", v)
			return
		}
		b.WriteByte('[')
		for i := range v.Len() {
			dumpTo(b, v.Index(i))
			b.WriteByte(' ')
		}
		b.WriteByte(']')
	case reflect.Map:
		var lines []string
		for of := v.MapRange(); of.Next(); {
			lines = append(lines, dump(of.Key())+":"+dump(of.Value()))
		}
		slices.Sort(lines)
		fmt.Fprint(b, lines)
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		b.WriteString(v.Kind().String())
	default:
		fmt.Fprint(b, v)
	}
}
