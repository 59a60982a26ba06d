package boardtest

import (
	"fmt"
	"strconv"
	"strings"
	"text/scanner"
)

// Object is an object of a GraphQL API: its fields by name. A list of objects is a connection.
type Object = map[string]any

// selection is a field of a query, with its arguments and what is read of it.
type selection struct {
	name   string
	args   Object
	fields []selection
}

// kinds are the types of a GraphQL schema: the types of the fields of each, "" for a scalar.
type kinds map[string]map[string]string

// parseKinds parses a schema: lines with the name of a type and its fields, as "name" or "name:Type".
func parseKinds(text string) kinds {
	all := kinds{"PageInfo": {"hasNextPage": "", "endCursor": ""}}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		fields := all[words[0]]
		if fields == nil {
			fields = map[string]string{}
			all[words[0]] = fields
		}
		for _, word := range words[1:] {
			name, kind, _ := strings.Cut(word, ":")
			fields[name] = kind
			if of, ok := strings.CutSuffix(kind, "Connection"); ok {
				all[kind] = map[string]string{"nodes": of, "pageInfo": "PageInfo"}
			}
		}
	}
	return all
}

// parser parses one operation of a query.
type parser struct {
	scan      scanner.Scanner
	next      rune
	variables Object
}

// parse returns the fields of a query. It panics for text that is no query, because the client writes it.
func parse(text string, variables Object) []selection {
	p := &parser{variables: variables}
	p.scan.Init(strings.NewReader(text))
	p.scan.Mode = scanner.ScanIdents | scanner.ScanInts | scanner.ScanStrings
	p.advance()
	if p.word("query") || p.word("mutation") {
		p.advance()
	}
	if p.next == '(' {
		for p.next != ')' && p.next != scanner.EOF {
			p.advance()
		}
		p.expect(')')
	}
	fields := p.fields()
	p.expect(scanner.EOF)
	return fields
}

func (p *parser) advance() { p.next = p.scan.Scan() }

func (p *parser) word(s string) bool { return p.next == scanner.Ident && p.scan.TokenText() == s }

func (p *parser) expect(tok rune) {
	if p.next != tok {
		panic(fmt.Sprintf("invalid query at %s: %q", p.scan.Pos(), p.scan.TokenText()))
	}
	if tok != scanner.EOF {
		p.advance()
	}
}

func (p *parser) ident() string {
	name := p.scan.TokenText()
	p.expect(scanner.Ident)
	return name
}

func (p *parser) fields() (all []selection) {
	p.expect('{')
	for p.next != '}' {
		s := selection{name: p.ident(), args: Object{}}
		if p.next == '(' {
			s.args = p.pairs('(', ')')
		}
		if p.next == '{' {
			s.fields = p.fields()
		}
		all = append(all, s)
	}
	p.expect('}')
	return all
}

// pairs parses arguments, or an object.
func (p *parser) pairs(open, end rune) Object {
	all := Object{}
	p.expect(open)
	for p.next != end {
		name := p.ident()
		p.expect(':')
		if value, has := p.value(); has {
			all[name] = value
		}
		if p.next == ',' {
			p.advance()
		}
	}
	p.expect(end)
	return all
}

// value parses a value. has is false for a variable that the request does not have.
func (p *parser) value() (v any, has bool) {
	text := p.scan.TokenText()
	switch p.next {
	case '$':
		p.advance()
		v, has = p.variables[p.ident()]
		return v, has
	case '{':
		return p.pairs('{', '}'), true
	case scanner.Int:
		p.advance()
		n, err := strconv.Atoi(text)
		if err != nil {
			panic(err)
		}
		return float64(n), true
	case scanner.Ident:
		p.advance()
		if text == "true" || text == "false" {
			return text == "true", true
		}
		return text, true
	}
	panic(fmt.Sprintf("invalid value at %s: %q", p.scan.Pos(), text))
}

// check returns what a query asks for that the schema does not have, "" for nothing.
func (k kinds) check(kind string, fields []selection) string {
	for _, s := range fields {
		of, known := k[kind][s.name]
		switch {
		case !known:
			return fmt.Sprintf("Cannot query field %q on type %q.", s.name, kind)
		case (of == "") != (len(s.fields) == 0):
			return fmt.Sprintf("Field %q of type %q must have a selection of subfields, or none.", s.name, of)
		}
		if problem := k.check(of, s.fields); problem != "" {
			return problem
		}
	}
	return ""
}

// cost returns the complexity of a query: 0.1 for each scalar, 1 for each object, and a connection multiplies what is
// read of its nodes by its page size, which is size.
func (k kinds) cost(kind string, fields []selection, size int) (points float64) {
	for _, s := range fields {
		of := k[kind][s.name]
		switch {
		case of == "":
			points += 0.1
		case s.name == "nodes":
			points += float64(size) * (1 + k.cost(of, s.fields, 0))
		default:
			points += 1 + k.cost(of, s.fields, pageSize(s.args))
		}
	}
	return points
}

// pageSize returns the size of a page that the arguments of a connection ask for.
func pageSize(args Object) int {
	if n, ok := args["first"].(float64); ok {
		return int(n)
	}
	return 50
}

// execution reads objects as a query asks, and collects the errors of fields.
type execution struct {
	kinds  kinds
	broken func(from Object, field string) bool // whether a field cannot be read
	errors []any
}

func (e *execution) object(kind string, from Object, fields []selection, path []any) Object {
	out := Object{}
	for _, s := range fields {
		of, at := e.kinds[kind][s.name], append(path[:len(path):len(path)], s.name)
		if e.broken(from, s.name) {
			out[s.name] = nil
			e.errors = append(e.errors, Object{"message": "Internal error", "path": at,
				"extensions": Object{"type": "internal error", "code": "INTERNAL_SERVER_ERROR"}})
			continue
		}
		value := from[s.name]
		if list, ok := value.([]Object); ok || value == nil && strings.HasSuffix(of, "Connection") {
			after, _ := s.args["after"].(string)
			from, _ := strconv.Atoi(after) // "" is the beginning
			until := min(from+pageSize(s.args), len(list))
			value = page(list[from:], until-from)
			value.(Object)["pageInfo"].(Object)["endCursor"] = strconv.Itoa(until)
		}
		switch v := value.(type) {
		case connection:
			value = e.list(of, v, s.fields, at)
		case Object:
			value = e.object(of, v, s.fields, at)
		}
		out[s.name] = value
	}
	return out
}

func (e *execution) list(kind string, nodes connection, fields []selection, path []any) []Object {
	all := []Object{}
	for i, node := range nodes {
		all = append(all, e.object(kind, node, fields, append(path[:len(path):len(path)], i)))
	}
	return all
}

// connection is the objects of a page.
type connection []Object

// page returns the connection with the first n objects of a list.
func page(list []Object, n int) Object {
	return Object{"nodes": connection(list[:n]), "pageInfo": Object{"hasNextPage": n < len(list), "endCursor": nil}}
}
