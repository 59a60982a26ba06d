package tracker

import (
	"cmp"
	"slices"
	"strings"
)

// Newer programs keep records of other types in the file, such as memories, each with its type in
// the member _type. This package does not interpret them: it keeps them in their places, and merges
// them by type and key.

// memberType names the type of a record. An issue may have it too.
const memberType = "_type"

// memberSchema names the format of a file, in a line without an issue that other programs write before the issues.
const memberSchema = "_schema"

// isHeader reports whether a line without an id names the format of the file.
func isHeader(line string) bool {
	parts, err := fields(line)
	_, has := fieldOf(parts, memberSchema)
	return err == nil && has
}

// fieldOf returns the text of a member as written, and whether there is one.
func fieldOf(parts []field, name string) (raw string, has bool) {
	at := slices.IndexFunc(parts, func(f field) bool { return f.name == name })
	if at < 0 {
		return "", false
	}
	return parts[at].raw, true
}

// otherRecord returns errRecord for an object of another type than issue, and errBlank for a blank
// line.
func otherRecord(line string) error {
	if strings.Contains(line, `"`+memberType+`"`) {
		if _, is := recordKey(line); is {
			return errRecord
		}
	}
	if strings.TrimSpace(line) == "" {
		return errBlank
	}
	return nil
}

// recordKey returns the key by which a merge recognizes a record of another type than issue: its type with its key or
// id, or else its whole text.
func recordKey(line string) (key string, is bool) {
	parts, err := fields(line)
	if err != nil {
		return "", false
	}
	text := func(name string) (found string) {
		for _, f := range parts {
			if f.name == name && readJSON(f.raw, &found) == nil && found != "" {
				return found
			}
		}
		return ""
	}
	kind := text(memberType)
	if _, schema := fieldOf(parts, memberSchema); kind == "" && schema && text("id") == "" {
		return memberSchema, true
	}
	return kind + "\x00" + cmp.Or(text("key"), text("id"), line), kind != "" && kind != "issue"
}

// Record is a line of another type than issue.
type Record struct {
	Number int // number of the record's line; 0 if the record is new
	Line   string
}

// Records returns the lines that are records of other types, in the order of the file.
func (t *Tracker) Records() (found []Record) {
	for _, o := range t.others {
		if o.err == errRecord {
			found = append(found, Record{o.number, o.text})
		}
	}
	return found
}

// Each calls issue for all issues and record for all records of other types, in the order of the
// file.
func (t *Tracker) Each(issue func(*Issue), record func(line string)) {
	t.issues.all()
	rest := t.Records()
	for _, it := range t.inFileOrder() {
		for len(rest) > 0 && rest[0].Number > 0 && rest[0].Number < it.number {
			record(rest[0].Line)
			rest = rest[1:]
		}
		issue(it)
	}
	for _, r := range rest {
		record(r.Line)
	}
}

// uniteOthers merges the records of other: as with issues, a side that is equal to the base loses. If both sides
// changed a record, the newer version wins, or else the one with the greater text. Lines that cannot be read are all
// kept.
func uniteOthers(t *Tracker, other, base *Tracker) {
	ours := indexOthers(t)
	their := indexOthers(other)
	at := map[string]int{}
	for i := range t.others {
		at[t.others[i].key()] = i
	}
	was := map[string]otherLine{}
	if base != nil {
		was = indexOthers(base)
	}
	for _, o := range other.others {
		if o.err == errBlank {
			continue
		}
		key := o.key()
		mine, has := ours[key]
		old, hadBefore := was[key]
		switch {
		case !has && hadBefore && old.text == o.text: // removed in ours
		case !has:
			ours[key] = o
			o.number, o.cr = 0, false
			at[key] = len(t.others)
			t.others = append(t.others, o)
		case mine.text == o.text || hadBefore && old.text == o.text:
		case hadBefore && old.text == mine.text || newerRecord(o.text, mine.text):
			t.others[at[key]].text = o.text
		}
	}
	if base == nil {
		return
	}
	t.others = slices.DeleteFunc(t.others, func(o otherLine) bool {
		if o.err == errBlank {
			return false
		}
		old, hadBefore := was[o.key()]
		_, stays := their[o.key()]
		return hadBefore && !stays && old.text == o.text
	})
}

func (o *otherLine) key() string {
	if o.err == errRecord {
		key, _ := recordKey(o.text)
		return key
	}
	return "\x00" + o.text
}

func indexOthers(t *Tracker) map[string]otherLine {
	found := map[string]otherLine{}
	for _, o := range t.others {
		if o.err != errBlank {
			found[o.key()] = o
		}
	}
	return found
}

// newerRecord reports whether a record wins over another one.
func newerRecord(a, b string) bool {
	at := func(line string) string {
		parts, _ := fields(line) // read before
		for _, f := range parts {
			if f.name == "updated_at" {
				return f.raw
			}
		}
		return ""
	}
	return cmp.Or(cmp.Compare(at(a), at(b)), cmp.Compare(a, b)) > 0
}
