package workflow

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// expression computes a value: nil, bool, int, float64, string, []any or map[string]any.
type expression func(r *renderer) (any, error)

// chain is an expression with the filters that follow it.
type chain struct {
	first   expression
	filters []filterCall
	line    int
}

type filterCall struct {
	name string
	do   filter
	args []expression
}

// lexer reads the text of a tag.
type lexer struct {
	text string
	at   int
}

func (s *lexer) skip() {
	for s.at < len(s.text) && strings.IndexByte(" \t\r\n", s.text[s.at]) >= 0 {
		s.at++
	}
}

func (s *lexer) end() bool { s.skip(); return s.at >= len(s.text) }

// rest returns the text that was not read, cut.
func (s *lexer) rest() string {
	const most = 40
	s.skip()
	return strings.ToValidUTF8(s.text[s.at:min(s.at+most, len(s.text))], "?")
}

// accept reads a mark.
func (s *lexer) accept(mark string) bool {
	s.skip()
	if !strings.HasPrefix(s.text[s.at:], mark) {
		return false
	}
	s.at += len(mark)
	return true
}

func isNameByte(c byte, first bool) bool {
	return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || !first && (c == '-' || '0' <= c && c <= '9')
}

// name reads a name, or returns "".
func (s *lexer) name() string {
	s.skip()
	from := s.at
	for s.at < len(s.text) && isNameByte(s.text[s.at], s.at == from) {
		s.at++
	}
	if s.at < len(s.text) && s.text[s.at] == '?' && s.at > from {
		s.at++
	}
	return s.text[from:s.at]
}

// word reads this name.
func (s *lexer) word(want string) bool {
	from := s.at
	if s.name() == want {
		return true
	}
	s.at = from
	return false
}

// chain parses a value with filters, up to the end of the text.
func (p *parser) chain(text string) (c chain, err error) {
	s := &lexer{text: text}
	if p.at > 0 {
		c.line = p.tokens[p.at-1].line
	}
	if c.first, err = p.expression(s); err != nil {
		return c, err
	}
	for s.accept("|") {
		call := filterCall{name: s.name()}
		known := false
		if call.do, known = filters()[call.name]; !known {
			return c, p.errorf("unknown filter %q; known are %s", call.name, strings.Join(filterNames(), ", "))
		}
		if s.accept(":") {
			for {
				arg, err := p.expression(s)
				if err != nil {
					return c, err
				}
				call.args = append(call.args, arg)
				if !s.accept(",") {
					break
				}
			}
		}
		c.filters = append(c.filters, call)
	}
	if !s.end() {
		return c, p.errorf("unexpected %q", s.rest())
	}
	return c, nil
}

// expression parses a literal, a range or a variable.
func (p *parser) expression(s *lexer) (expression, error) {
	s.skip()
	if s.at >= len(s.text) {
		return nil, p.errorf("a value is missing")
	}
	switch c := s.text[s.at]; {
	case c == '"', c == '\'':
		inside, _, closed := strings.Cut(s.text[s.at+1:], string(c))
		if !closed {
			return nil, p.errorf("a text is not closed: %s", s.rest())
		}
		s.at += len(inside) + len(`""`)
		return constant(inside), nil
	case c == '(':
		return p.rangeOf(s)
	case c == '-' || '0' <= c && c <= '9':
		return p.number(s)
	}
	name := s.name()
	switch name {
	case "":
		return nil, p.errorf("unexpected %q", s.rest())
	case "true", "false":
		return constant(name == "true"), nil
	case "nil", "null":
		return constant(nil), nil
	case "empty", "blank":
		return constant(emptyValue(name)), nil
	}
	return p.variable(s, name)
}

// emptyValue is what the words empty and blank compare with.
type emptyValue string

func constant(v any) expression { return func(*renderer) (any, error) { return v, nil } }

func (p *parser) number(s *lexer) (expression, error) {
	from := s.at
	for s.at < len(s.text) && strings.IndexByte("-0123456789.", s.text[s.at]) >= 0 &&
		!strings.HasPrefix(s.text[s.at:], "..") {
		s.at++
	}
	text := s.text[from:s.at]
	if n, err := strconv.Atoi(text); err == nil {
		return constant(n), nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, p.errorf("%q is not a number", text)
	}
	return constant(f), nil
}

func (p *parser) rangeOf(s *lexer) (expression, error) {
	s.at++
	from, err := p.expression(s)
	if err != nil {
		return nil, err
	}
	if !s.accept("..") {
		return nil, p.errorf("a range needs two dots: (1..3)")
	}
	to, err := p.expression(s)
	if err != nil {
		return nil, err
	}
	if !s.accept(")") {
		return nil, p.errorf("a range is not closed")
	}
	return func(r *renderer) (any, error) {
		a, err := from(r)
		if err != nil {
			return nil, err
		}
		b, err := to(r)
		if err != nil {
			return nil, err
		}
		first, last := toInt(a), toInt(b)
		if last < first {
			return []any{}, nil
		}
		if uint(last)-uint(first) >= maxList {
			return nil, fmt.Errorf("the range has more than %d elements", maxList)
		}
		list := make([]any, 0, last-first+1)
		for i := range last - first + 1 {
			list = append(list, first+i)
		}
		return list, r.charge(list)
	}, nil
}

// variable parses the path that follows the name of a variable. An unknown name, or an unknown field of issue, is an
// error even where no run comes to it.
func (p *parser) variable(s *lexer, name string) (expression, error) {
	if !slices.Contains(p.known, name) {
		return nil, p.errorf("unknown variable %q; known are %s", name, strings.Join(p.known, ", "))
	}
	value := func(r *renderer) (any, error) {
		v, has := r.variables[name]
		if !has {
			return nil, fmt.Errorf("variable %q has no value here", name)
		}
		return v, nil
	}
	path := name
	for s.at < len(s.text) && (s.text[s.at] == '.' || s.text[s.at] == '[') && !strings.HasPrefix(s.text[s.at:], "..") {
		var key expression
		of, shown := value, path
		if s.text[s.at] == '.' {
			s.at++
			field := s.name()
			if field == "" {
				return nil, p.errorf("a name is missing after %q", path+".")
			}
			if path == "issue" && !slices.Contains(p.fields, field) {
				return nil, p.errorf("unknown variable %q; fields of issue are %s", path+"."+field, strings.Join(p.fields, ", "))
			}
			key, path = constant(field), path+"."+field
		} else {
			s.at++
			var err error
			if key, err = p.expression(s); err != nil {
				return nil, err
			}
			if !s.accept("]") {
				return nil, p.errorf("%q is not closed", path+"[")
			}
			path += "[…]"
		}
		value = func(r *renderer) (any, error) {
			v, err := of(r)
			if err != nil {
				return nil, err
			}
			k, err := key(r)
			if err != nil {
				return nil, err
			}
			return element(v, k, shown)
		}
	}
	return value, nil
}

// element returns the member of an object, the element of a list, or a property such as its size.
func element(of, key any, path string) (any, error) {
	name, named := key.(string)
	switch v := of.(type) {
	case map[string]any:
		if found, has := v[name]; named && has {
			return found, nil
		}
		if name == "size" {
			return len(v), nil
		}
	case []any:
		i, isInt := key.(int)
		switch {
		case name == "size":
			return len(v), nil
		case named && (name == "first" || name == "last") && len(v) == 0:
			return nil, nil
		case name == "first":
			return v[0], nil
		case name == "last":
			return v[len(v)-1], nil
		case isInt && i < 0 && i+len(v) >= 0:
			return v[i+len(v)], nil
		case isInt && i >= 0 && i < len(v):
			return v[i], nil
		case isInt:
			return nil, nil // as everywhere in Liquid
		}
	case string:
		if name == "size" {
			return len([]rune(v)), nil
		}
	}
	return nil, fmt.Errorf("unknown variable %q of %s", toText(key), path)
}

// test parses a condition: comparisons joined by and and or, which are evaluated from the right.
func (p *parser) test(text string) (func(*renderer) (bool, error), error) {
	s := &lexer{text: text}
	var terms []func(*renderer) (bool, error)
	var joins []string
	for {
		term, err := p.comparison(s)
		if err != nil {
			return nil, err
		}
		terms = append(terms, term)
		switch {
		case s.word("and"):
			joins = append(joins, "and")
		case s.word("or"):
			joins = append(joins, "or")
		case s.end():
			return joined(terms, joins), nil
		default:
			return nil, p.errorf("unexpected %q in a condition", s.rest())
		}
	}
}

func joined(terms []func(*renderer) (bool, error), joins []string) func(*renderer) (bool, error) {
	return func(r *renderer) (bool, error) {
		holds, err := terms[len(terms)-1](r)
		for i := len(joins) - 1; i >= 0 && err == nil; i-- {
			var left bool
			if left, err = terms[i](r); joins[i] == "and" {
				holds = left && holds
			} else {
				holds = left || holds
			}
		}
		return holds, err
	}
}

// comparison parses one value, or two with an operator between them.
func (p *parser) comparison(s *lexer) (func(*renderer) (bool, error), error) {
	left, err := p.expression(s)
	if err != nil {
		return nil, err
	}
	operator := ""
	for _, known := range []string{"==", "!=", "<>", "<=", ">=", "<", ">"} {
		if operator == "" && s.accept(known) {
			operator = known
		}
	}
	if operator == "" && s.word("contains") {
		operator = "contains"
	}
	if operator == "" {
		return func(r *renderer) (bool, error) { v, err := left(r); return isTrue(v), err }, nil
	}
	right, err := p.expression(s)
	if err != nil {
		return nil, err
	}
	return func(r *renderer) (bool, error) {
		a, err := left(r)
		if err != nil {
			return false, err
		}
		b, err := right(r)
		if err != nil {
			return false, err
		}
		return compare(a, b, operator)
	}, nil
}
