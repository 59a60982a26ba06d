package tracker

import (
	"cmp"
	"strings"
	"time"
)

// Dependencies and comments are read one by one, so that those which stay as
// they are keep what the tracker does not know of them.

func readDependencies(it *Issue, raw string) (err error) {
	it.Dependencies, err = readList(raw, func(f field, d *Dependency) error {
		switch f.name {
		case "depends_on_id":
			return readText(f.raw, &d.On)
		case "type":
			return readText(f.raw, &d.Type)
		case "created_at":
			return readMoment(f.raw, &d.CreatedAt)
		case "created_by":
			return readText(f.raw, &d.CreatedBy)
		}
		return nil
	}, func(d *Dependency, raw string) { d.raw = raw })
	return err
}

func writeDependencies(it *Issue) string {
	return writeList(it.Dependencies, func(d Dependency) string { return d.text(it.ID) })
}

func (d Dependency) text(issue string) string {
	if d.raw != "" {
		return d.raw
	}
	return encode(struct {
		Issue     string    `json:"issue_id"`
		On        string    `json:"depends_on_id"`
		Type      string    `json:"type"`
		CreatedAt time.Time `json:"created_at"`
		CreatedBy string    `json:"created_by"`
	}{issue, d.On, d.Type, d.CreatedAt, d.CreatedBy})
}

func readComments(it *Issue, raw string) (err error) {
	it.Comments, err = readList(raw, func(f field, c *Comment) error {
		switch f.name {
		case "id":
			return readJSON(f.raw, &c.ID)
		case "author":
			return readText(f.raw, &c.Author)
		case "text":
			return readText(f.raw, &c.Text)
		case "created_at":
			return readMoment(f.raw, &c.CreatedAt)
		}
		return nil
	}, func(c *Comment, raw string) { c.raw = raw })
	return err
}

func writeComments(it *Issue) string {
	return writeList(it.Comments, func(c Comment) string { return c.text(it.ID) })
}

func (c Comment) text(issue string) string {
	if c.raw != "" {
		return c.raw
	}
	return encode(struct {
		ID        int64     `json:"id"`
		Issue     string    `json:"issue_id"`
		Author    string    `json:"author"`
		Text      string    `json:"text"`
		CreatedAt time.Time `json:"created_at"`
	}{c.ID, issue, c.Author, c.Text, c.CreatedAt})
}

func readTexts(raw string, into *[]string) error {
	if raw == "null" {
		return nil
	}
	texts, err := elements(raw)
	if err != nil {
		return notA("list", raw)
	}
	for _, one := range texts {
		var s string
		if err := readText(one, &s); err != nil {
			return err
		}
		*into = append(*into, s)
	}
	return nil
}

func readText(raw string, into *string) error {
	s, ok := plainString(raw)
	if !ok && raw != "null" {
		return notA("text", raw)
	}
	*into = s
	return nil
}

// readList reads a list of objects. keep is given each one's own text.
func readList[T any](raw string, read func(f field, into *T) error, keep func(*T, string)) ([]T, error) {
	if raw == "null" {
		return nil, nil
	}
	texts, err := elements(raw)
	if err != nil {
		return nil, notA("list", raw)
	}
	var found []T
	for _, one := range texts {
		var v T
		var wrong error
		if err := walk(one, func(f field) { wrong = cmp.Or(wrong, read(f, &v)) }); err != nil {
			return nil, notA("list of objects", raw)
		}
		if wrong != nil {
			return nil, wrong
		}
		keep(&v, one)
		found = append(found, v)
	}
	return found, nil
}

func writeList[T any](list []T, write func(T) string) string {
	if len(list) == 0 {
		return ""
	}
	var texts []string
	for _, v := range list {
		texts = append(texts, write(v))
	}
	return "[" + strings.Join(texts, ",") + "]"
}

// patched is an object, as it was read, with another text under a name that it
// has.
func patched(raw, name, text string) string {
	if raw == "" {
		return ""
	}
	parts, err := fields(raw)
	if err != nil {
		panic(err) // it was read before
	}
	for i, f := range parts {
		if had, ok := plainString(f.raw); f.name == name && ok && had != text {
			parts[i].raw = encode(text)
			raw = joined(parts)
		}
	}
	return raw
}
