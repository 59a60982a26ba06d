package workflow

import (
	"fmt"
	"slices"
	"strings"
)

// The body is a template in the language Liquid. No library is used, because the kept one (osteele/liquid 1.6) takes a
// null for an unknown variable, finds unknown variables of conditions and unknown filters of branches only if a run
// reaches them or not at all, reads files for an include, and bounds neither time nor memory.

// node is a part of a template.
type node interface {
	render(r *renderer) error
}

type (
	textNode   string
	outputNode struct{ value chain }
	// branchNode is an if, an unless or a case: the first branch whose condition holds is rendered.
	branchNode struct{ branches []branch }
	branch     struct {
		when func(r *renderer) (bool, error) // nil for else
		body []node
	}
	forNode struct {
		name                string
		over, limit, offset expression // limit and offset may be nil
		reversed            bool
		body, otherwise     []node
	}
	assignNode struct {
		name  string
		value chain
	}
	captureNode struct {
		name string
		body []node
	}
	jumpNode struct{ jump error }
)

// template is a parsed body.
type template struct{ body []node }

// token is text, an output {{ … }} or a tag {% … %}.
type token struct {
	kind byte // 't', 'o' or '%'
	text string
	line int
}

// Limits of a template and of what it does.
const (
	maxBody    = 256 << 10 // bytes
	maxNesting = 50        // blocks in blocks
	maxOutput  = 1 << 20   // bytes, also of each value
	maxList    = 10_000    // elements
	maxSteps   = 1_000_000 // a step is a part, or 256 bytes or 16 elements of a value
)

// tokens splits a body whose first line has this number. A hyphen inside a delimiter removes the white space beside it.
func tokens(body string, line int) (found []token, err error) {
	trim := false
	add := func(kind byte, text string) { found = append(found, token{kind, text, line}) }
	text := func(s string, trimEnd bool) {
		shown := s
		if trim {
			shown = strings.TrimLeft(shown, " \t\r\n")
		}
		if trimEnd {
			shown = strings.TrimRight(shown, " \t\r\n")
		}
		if shown != "" {
			add('t', shown)
		}
		line += strings.Count(s, "\n")
	}
	for {
		at := strings.IndexByte(body, '{')
		for at >= 0 && !strings.HasPrefix(body[at:], "{{") && !strings.HasPrefix(body[at:], "{%") {
			next := strings.IndexByte(body[at+1:], '{')
			if at = at + 1 + next; next < 0 {
				at = -1
			}
		}
		if at < 0 {
			text(body, false)
			return found, nil
		}
		kind, end := byte('o'), "}}"
		if body[at+1] == '%' {
			kind, end = '%', "%}"
		}
		inside, rest, closed := strings.Cut(body[at+2:], end)
		if !closed {
			line += strings.Count(body[:at], "\n")
			return nil, fmt.Errorf("line %d: %s is not closed; write %s", line, body[at:at+2], end)
		}
		inner, before := strings.CutPrefix(inside, "-")
		inner, after := strings.CutSuffix(inner, "-")
		text(body[:at], before)
		trim = after
		inner = strings.TrimSpace(inner)
		if word, _, _ := strings.Cut(inner, " "); kind == '%' && (word == "raw" || word == "comment") {
			content, following, ok := cutEnd(rest, "end"+word)
			if !ok {
				return nil, fmt.Errorf("line %d: {%% %s %%} has no {%% end%s %%}", line, word, word)
			}
			line += strings.Count(inside, "\n")
			trim = false
			if word == "raw" {
				text(content, false)
			} else {
				line += strings.Count(content, "\n")
			}
			body = following
			continue
		}
		add(kind, inner)
		line += strings.Count(inside, "\n")
		body = rest
	}
}

// cutEnd cuts a body around the next tag of this name.
func cutEnd(body, name string) (before, after string, ok bool) {
	for from := 0; ; {
		at := strings.Index(body[from:], "{%")
		if at < 0 {
			return body, "", false
		}
		at += from
		inside, rest, closed := strings.Cut(body[at+2:], "%}")
		if closed && strings.Trim(inside, " \t\r\n-") == name {
			return body[:at], rest, true
		}
		from = at + 2
	}
}

// parser builds the nodes of a template, and knows which variables a place can have.
type parser struct {
	tokens []token
	at     int
	depth  int
	known  []string // names of variables
	fields []string // of issue
}

// parseTemplate parses a body, whose first line has this number, and whose variables are attempt, and issue with these
// fields. A name, a filter or a tag that is not known is an error with its line.
func parseTemplate(body string, line int, fields []string) (*template, error) {
	if len(body) > maxBody {
		return nil, fmt.Errorf("the body has %d bytes, more than the limit of %d", len(body), maxBody)
	}
	all, err := tokens(body, line)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: all, known: []string{"issue", "attempt"}, fields: fields}
	nodes, end, err := p.block()
	if err == nil && end != "" {
		err = p.errorf("{%% %s %%} ends nothing", end)
	}
	if err != nil {
		return nil, err
	}
	return &template{nodes}, nil
}

// errorf returns an error with the line of the last token.
func (p *parser) errorf(format string, args ...any) error {
	line := 1
	if p.at > 0 {
		line = p.tokens[p.at-1].line
	}
	return fmt.Errorf("line %d: %s", line, fmt.Sprintf(format, args...))
}

// block parses up to a tag that ends or divides the block, and returns that tag.
func (p *parser) block() (nodes []node, end string, err error) {
	if p.depth++; p.depth > maxNesting {
		return nil, "", p.errorf("more than %d blocks in each other", maxNesting)
	}
	defer func() { p.depth-- }()
	for p.at < len(p.tokens) {
		t := p.tokens[p.at]
		p.at++
		var n node
		switch t.kind {
		case 't':
			n = textNode(t.text)
		case 'o':
			n, err = p.output(t.text)
		default:
			word, rest := tagWord(t.text)
			if isEnd(word) {
				return nodes, t.text, nil
			}
			n, err = p.tag(word, rest)
		}
		if err != nil {
			return nil, "", err
		}
		if n != nil {
			nodes = append(nodes, n)
		}
	}
	return nodes, "", nil
}

// tagWord splits a tag into its name and the rest.
func tagWord(text string) (word, rest string) {
	at := strings.IndexFunc(text, func(r rune) bool { return r == ' ' || r == '\t' || r == '\n' || r == '\r' })
	if at < 0 {
		return text, ""
	}
	return text[:at], strings.TrimSpace(text[at:])
}

func isEnd(word string) bool {
	return slices.Contains([]string{"else", "elsif", "when", "endif", "endunless", "endcase", "endfor",
		"endcapture"}, word)
}

func (p *parser) output(text string) (node, error) {
	value, err := p.chain(text)
	return outputNode{value}, err
}

// tag parses a tag that is not the end of a block.
func (p *parser) tag(word, rest string) (node, error) {
	switch {
	case strings.HasPrefix(word, "#"):
		return nil, nil
	case word == "if", word == "unless":
		return p.condition(word, rest)
	case word == "case":
		return p.choice(rest)
	case word == "for":
		return p.loop(rest)
	case word == "echo":
		return p.output(rest)
	case word == "assign":
		return p.assign(rest)
	case word == "capture":
		return p.capture(rest)
	case word == "break":
		return jumpNode{errBreak}, nil
	case word == "continue":
		return jumpNode{errContinue}, nil
	case word == "include", word == "render":
		return nil, p.errorf("{%% %s %%} is refused: a workflow reads no other file", word)
	}
	return nil, p.errorf("unknown tag %q; use if, unless, case, for, assign, capture, echo, raw or comment", word)
}

func (p *parser) condition(word, rest string) (node, error) {
	n := branchNode{}
	for {
		when, err := p.test(rest)
		if err != nil {
			return nil, err
		}
		if word == "unless" && len(n.branches) == 0 {
			holds := when
			when = func(r *renderer) (bool, error) { ok, err := holds(r); return !ok, err }
		}
		body, end, err := p.block()
		if err != nil {
			return nil, err
		}
		n.branches = append(n.branches, branch{when, body})
		tag, more := tagWord(end)
		switch tag {
		case "elsif":
			rest = more
			continue
		case "else":
			if body, end, err = p.block(); err != nil {
				return nil, err
			}
			n.branches = append(n.branches, branch{nil, body})
		}
		if end != "end"+word {
			return nil, p.errorf("{%% %s %%} has no {%% end%s %%}", word, word)
		}
		return n, nil
	}
}

func (p *parser) choice(rest string) (node, error) {
	of, err := p.chain(rest)
	if err != nil {
		return nil, err
	}
	before, end, err := p.block()
	for _, n := range before {
		if t, is := n.(textNode); !is || strings.TrimSpace(string(t)) != "" {
			return nil, p.errorf("text between {%% case %%} and the first {%% when %%}")
		}
	}
	n := branchNode{}
	for err == nil {
		tag, more := tagWord(end)
		var b branch
		switch tag {
		case "when":
			if b.when, err = p.anyOf(of, more); err != nil {
				return nil, err
			}
		case "else":
		case "endcase":
			return n, nil
		default:
			return nil, p.errorf("{%% case %%} has no {%% endcase %%}")
		}
		b.body, end, err = p.block()
		n.branches = append(n.branches, b)
	}
	return nil, err
}

// anyOf returns the condition that a value equals one of a list.
func (p *parser) anyOf(of chain, list string) (func(*renderer) (bool, error), error) {
	s := &lexer{text: list}
	var values []expression
	for {
		e, err := p.expression(s)
		if err != nil {
			return nil, err
		}
		values = append(values, e)
		if !s.accept(",") && !s.word("or") {
			break
		}
	}
	if !s.end() {
		return nil, p.errorf("unexpected %q in {%% when %%}", s.rest())
	}
	return func(r *renderer) (bool, error) {
		is, err := of.value(r)
		if err != nil {
			return false, err
		}
		for _, e := range values {
			v, err := e(r)
			if err != nil || equal(is, v) {
				return err == nil, err
			}
		}
		return false, nil
	}, nil
}

func (p *parser) loop(rest string) (node, error) {
	s := &lexer{text: rest}
	n := forNode{name: s.name()}
	if n.name == "" || !s.word("in") {
		return nil, p.errorf("invalid {%% for %%}; write for NAME in LIST")
	}
	var err error
	if n.over, err = p.expression(s); err != nil {
		return nil, err
	}
	for !s.end() {
		switch {
		case s.word("reversed"):
			n.reversed = true
		case s.word("limit") && s.accept(":"):
			n.limit, err = p.expression(s)
		case s.word("offset") && s.accept(":"):
			n.offset, err = p.expression(s)
		case s.accept(","):
		default:
			err = p.errorf("unexpected %q in {%% for %%}", s.rest())
		}
		if err != nil {
			return nil, err
		}
	}
	before := p.known
	p.known = append(slices.Clone(before), n.name, "forloop")
	body, end, err := p.block()
	p.known = slices.DeleteFunc(p.known, func(k string) bool {
		return (k == n.name || k == "forloop") && !slices.Contains(before, k)
	})
	if n.body = body; err == nil && end == "else" {
		n.otherwise, end, err = p.block()
	}
	if err == nil && end != "endfor" {
		err = p.errorf("{%% for %%} has no {%% endfor %%}")
	}
	return n, err
}

func (p *parser) assign(rest string) (node, error) {
	name, value, ok := strings.Cut(rest, "=")
	s := &lexer{text: name}
	n := assignNode{name: s.name()}
	if !ok || n.name == "" || !s.end() {
		return nil, p.errorf("invalid {%% assign %%}; write assign NAME = VALUE")
	}
	var err error
	if n.value, err = p.chain(value); err == nil {
		p.known = append(p.known, n.name)
	}
	return n, err
}

func (p *parser) capture(rest string) (node, error) {
	s := &lexer{text: rest}
	n := captureNode{name: s.name()}
	if n.name == "" || !s.end() {
		return nil, p.errorf("invalid {%% capture %%}; write capture NAME")
	}
	body, end, err := p.block()
	if n.body = body; err == nil && end != "endcapture" {
		err = p.errorf("{%% capture %%} has no {%% endcapture %%}")
	}
	p.known = append(p.known, n.name)
	return n, err
}
