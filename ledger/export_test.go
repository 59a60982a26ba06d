package ledger

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"mailroom/store"
)

// CheckRefusals makes a ledger compare what a transaction would write, and the rows that it has loaded, before and
// after each operation that is refused. A refusal undoes nothing, so an operation must check everything before it
// changes anything. Each change is reported. Call it before Run.
//
// Large transactions are left out: a test with thousands of rows in a batch would take their square for what the small
// ones show.
func CheckRefusals(l *Ledger, report func(change string)) {
	for _, c := range l.lanes {
		p := printer{} // of the goroutine of the lane
		c.apply = func(o *op, tx *transaction) error {
			writes := tx.collect()
			if isLarge(tx, writes) {
				return o.apply(tx)
			}
			before := p.imageOf(tx, writes)
			err := o.apply(tx)
			if aborts := new(abortBatch); err == nil || errors.As(err, aborts) || !isRefusal(err) {
				return err // the batch runs again without the operation, or ends
			}
			if diff := before.changes(p.imageOf(tx, tx.collect())); diff != "" {
				report(fmt.Sprintf("operation %s was refused with %q after it had changed:\n%s", o.name, err, diff))
			}
			return err
		}
	}
}

// isLarge reports whether the image of a transaction has more than some hundred rows.
func isLarge(tx *transaction, writes *store.Changes) bool {
	const most = 200
	n := len(tx.rows.workers) + len(tx.rows.tokens) + len(tx.rows.tokensByName)
	for _, t := range tx.rows.threads {
		n += reflect.ValueOf(t).Elem().FieldByName("Runs").FieldByName("byID").Len()
	}
	if n > most {
		return true
	}
	all := reflect.ValueOf(writes).Elem()
	for i := range all.NumField() {
		if all.Field(i).Kind() == reflect.Slice {
			n += all.Field(i).Len()
		}
	}
	return n > most
}

// image is a transaction as text, which later changes of its values leave alone.
type image struct {
	*printer
	writes map[string]string // by the kind of rows
	rows   map[string]string // loaded rows, by name
}

func (p printer) imageOf(tx *transaction, writes *store.Changes) image {
	m := image{printer: &p, writes: map[string]string{}, rows: map[string]string{}}
	all := reflect.ValueOf(writes).Elem()
	for i, name := range p.fields(all.Type()) {
		if all.Field(i).Kind() != reflect.Slice {
			m.writes[name] = p.text(all.Field(i))
			continue
		}
		var rows []string
		for j := range all.Field(i).Len() {
			rows = append(rows, p.text(all.Field(i).Index(j)))
		}
		slices.Sort(rows) // rows of projects have no order
		m.writes[name] = strings.Join(rows, "\n")
	}
	m.writes["use"] = p.text(reflect.ValueOf(tx.changes.workers))
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

func (m *image) add(name string, row any) { m.rows[name] = m.text(reflect.ValueOf(row)) }

// addAll adds the rows of a map.
func (m *image) addAll(kind string, rows reflect.Value) {
	for of := rows.MapRange(); of.Next(); {
		m.rows[kind+" "+m.text(of.Key())] = m.text(of.Value())
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

// printer writes values as text. It knows the names of the fields of the types that it has met: each
// operation of each test is printed, and fmt and the reflection of types would take most of the time.
type printer map[reflect.Type][]string

func (p printer) fields(t reflect.Type) []string {
	names, ok := p[t]
	if !ok {
		for i := range t.NumField() {
			names = append(names, t.Field(i).Name)
		}
		p[t] = names
	}
	return names
}

// text is a value as text, with everything that it points to.
func (p printer) text(v reflect.Value) string { return string(p.append(nil, v)) }

func (p printer) append(b []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Invalid:
		return append(b, "nil"...)
	case reflect.Pointer, reflect.Interface:
		return p.append(b, v.Elem())
	case reflect.Struct:
		return p.appendStruct(b, v)
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return fmt.Appendf(b, "%q", v)
		}
		b = append(b, '[')
		for i := range v.Len() {
			b = append(p.append(b, v.Index(i)), ' ')
		}
		return append(b, ']')
	case reflect.Map:
		var lines []string
		for of := v.MapRange(); of.Next(); {
			lines = append(lines, p.text(of.Key())+":"+p.text(of.Value()))
		}
		slices.Sort(lines)
		return append(append(append(b, '['), strings.Join(lines, " ")...), ']')
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return append(b, v.Kind().String()...)
	case reflect.String:
		return append(b, v.String()...)
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool())
	}
	switch {
	case v.CanInt():
		return strconv.AppendInt(b, v.Int(), 10)
	case v.CanUint():
		return strconv.AppendUint(b, v.Uint(), 10)
	}
	return fmt.Append(b, v)
}

func (p printer) appendStruct(b []byte, v reflect.Value) []byte {
	if v.Type() == reflect.TypeFor[time.Time]() { // without its zone
		b = append(strconv.AppendUint(b, v.Field(0).Uint(), 10), ' ')
		return strconv.AppendInt(b, v.Field(1).Int(), 10)
	}
	b = append(b, '{')
	for i, name := range p.fields(v.Type()) {
		if f := v.Field(i); !f.IsZero() {
			b = append(p.append(append(append(b, name...), ':'), f), ' ')
		}
	}
	return append(b, '}')
}
