package tracker

import (
	"fmt"
	"strings"
	"time"
)

// Dependencies and comments keep their original text, so that unknown members survive.

func readDependencies(it *Issue, s *scanner) (err error) {
	it.Dependencies, err = readList(s, (*Dependency).read)
	return err
}

func (d *Dependency) read(s *scanner) (wrong error) {
	begin := s.json.Offset()
	if s.json.Peek() != '{' {
		d.raw = s.value()
		return errNotA("object", d.raw)
	}
	s.json.Open('{')
	other := "" // the name of the member in files of minibeads
	for s.json.More('}') {
		var err error
		switch s.json.Name() {
		case "depends_on_id":
			err = readText(s, &d.On)
		case "id":
			if err = readText(s, &other); err != nil {
				err = nil // a number of a row, for example
			}
		case "type":
			err = readText(s, &d.Type)
		case "created_at":
			err = readTime(s, &d.CreatedAt)
		case "created_by":
			err = readText(s, &d.CreatedBy)
		default:
			s.value()
		}
		if err != nil {
			wrong = err
		}
	}
	if d.raw = s.json.Since(begin); d.On == "" {
		d.On = other
	}
	return wrong
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

// rank orders two versions of a dependency; a merge without a base takes the lower one: the one with more
// members, because another program may have left out what it does not know.
func (d Dependency) rank(issue string) string {
	const most = 999
	text := d.text(issue)
	parts, _ := fields(text) // an element that is no object has none
	return fmt.Sprintf("%03d%s", max(most-len(parts), 0), text)
}

func readComments(it *Issue, s *scanner) (err error) {
	it.Comments, err = readList(s, (*Comment).read)
	return err
}

func (c *Comment) read(s *scanner) (wrong error) {
	begin := s.json.Offset()
	if s.json.Peek() != '{' {
		c.raw = s.value()
		return errNotA("object", c.raw)
	}
	s.json.Open('{')
	for s.json.More('}') {
		var err error
		switch s.json.Name() {
		case "id":
			if s.json.Peek() == '"' {
				err = readText(s, &c.TextID)
			} else {
				err = readNumber(s, &c.ID)
			}
		case "author":
			err = readText(s, &c.Author)
		case "text":
			err = readText(s, &c.Text)
		case "created_at":
			err = readTime(s, &c.CreatedAt)
		default:
			s.value()
		}
		if err != nil {
			wrong = err
		}
	}
	c.raw = s.json.Since(begin)
	return wrong
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

func readLabels(it *Issue, s *scanner) (err error) {
	it.Labels, err = readList(s, func(l *string, s *scanner) error { return readText(s, l) })
	return err
}

// readList reads a list, parsing each element with read.
func readList[T any](s *scanner, read func(*T, *scanner) error) (found []T, wrong error) {
	if s.json.Peek() != '[' {
		return nil, readNull(s, "list", func() {})
	}
	s.json.Open('[')
	for s.json.More(']') {
		if found == nil {
			const mostly = 2
			found = make([]T, 0, mostly)
		}
		found = append(found, *new(T))
		if err := read(&found[len(found)-1], s); err != nil {
			wrong = err
		}
	}
	return found, wrong
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
