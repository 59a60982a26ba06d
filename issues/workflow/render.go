package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// renderer renders a template once, within limits.
type renderer struct {
	variables map[string]any
	out       *strings.Builder
	steps     int
}

// errBreak and errContinue end a round of a loop.
var (
	errBreak    = errors.New("{% break %} outside of a loop")
	errContinue = errors.New("{% continue %} outside of a loop")
)

// render returns the text of a template with these variables.
func (t *template) render(variables map[string]any) (string, error) {
	r := &renderer{variables: variables, out: &strings.Builder{}}
	if err := r.all(t.body); err != nil {
		return "", err
	}
	return r.out.String(), nil
}

// charge counts a step, and the size of a value that it made.
func (r *renderer) charge(v any) error {
	const bytesOfStep, elementsOfStep = 256, 16
	switch v := v.(type) {
	case string:
		if len(v) > maxOutput {
			return fmt.Errorf("a text has more than %d bytes", maxOutput)
		}
		r.steps += len(v) / bytesOfStep
	case []any:
		if len(v) > maxList {
			return fmt.Errorf("a list has more than %d elements", maxList)
		}
		r.steps += len(v) / elementsOfStep
	}
	if r.steps++; r.steps > maxSteps {
		return fmt.Errorf("the template does more than %d steps", maxSteps)
	}
	return nil
}

func (r *renderer) all(nodes []node) error {
	for _, n := range nodes {
		if err := r.charge(nil); err != nil {
			return err
		}
		if err := n.render(r); err != nil {
			return err
		}
	}
	return nil
}

func (r *renderer) write(text string) error {
	if r.out.Len()+len(text) > maxOutput {
		return fmt.Errorf("the text has more than %d bytes", maxOutput)
	}
	r.out.WriteString(text)
	return r.charge(text)
}

func (n textNode) render(r *renderer) error { return r.write(string(n)) }

func (n outputNode) render(r *renderer) error {
	v, err := n.value.value(r)
	if err != nil {
		return err
	}
	text := toText(v)
	if err := r.charge(text); err != nil {
		return atLine(n.value.line, err)
	}
	return r.write(text)
}

func (n branchNode) render(r *renderer) error {
	for _, b := range n.branches {
		holds := b.when == nil
		if !holds {
			var err error
			if holds, err = b.when(r); err != nil {
				return err
			}
		}
		if holds {
			return r.all(b.body)
		}
	}
	return nil
}

func (n forNode) render(r *renderer) error {
	over, err := n.over(r)
	if err != nil {
		return err
	}
	var list []any
	switch v := over.(type) {
	case nil:
	case []any:
		list = v
	default:
		return fmt.Errorf("for %s: %s is no list", n.name, shown(v))
	}
	for _, part := range []struct {
		of    expression
		limit bool
	}{{n.offset, false}, {n.limit, true}} {
		if part.of == nil {
			continue
		}
		v, err := part.of(r)
		if err != nil {
			return err
		}
		count := min(max(toInt(v), 0), len(list))
		if part.limit {
			list = list[:count]
		} else {
			list = list[count:]
		}
	}
	if len(list) == 0 {
		return r.all(n.otherwise)
	}
	if n.reversed {
		list = slices.Clone(list)
		slices.Reverse(list)
	}
	defer r.restore(n.name, "forloop")()
	for i, v := range list {
		r.variables[n.name] = v
		r.variables["forloop"] = map[string]any{"index": i + 1, "index0": i, "rindex": len(list) - i,
			"rindex0": len(list) - i - 1, "first": i == 0, "last": i == len(list)-1, "length": len(list)}
		if err := r.all(n.body); err == errBreak {
			break
		} else if err != nil && err != errContinue {
			return err
		}
	}
	return nil
}

// restore returns a function that sets variables back to what they are now.
func (r *renderer) restore(names ...string) func() {
	was := map[string]any{}
	for _, name := range names {
		if v, has := r.variables[name]; has {
			was[name] = v
		}
	}
	return func() {
		for _, name := range names {
			if v, has := was[name]; has {
				r.variables[name] = v
			} else {
				delete(r.variables, name)
			}
		}
	}
}

func (n assignNode) render(r *renderer) error {
	v, err := n.value.value(r)
	r.variables[n.name] = v
	return err
}

func (n captureNode) render(r *renderer) error {
	outer := r.out
	r.out = &strings.Builder{}
	err := r.all(n.body)
	r.variables[n.name], r.out = r.out.String(), outer
	return err
}

func (n jumpNode) render(*renderer) error { return n.jump }

// value computes a chain.
func (c chain) value(r *renderer) (any, error) {
	v, err := c.first(r)
	if err != nil {
		return nil, atLine(c.line, err)
	}
	for _, call := range c.filters {
		args := make([]any, len(call.args))
		for i, arg := range call.args {
			if args[i], err = arg(r); err != nil {
				return nil, atLine(c.line, err)
			}
		}
		if v, err = call.do(v, args); err == nil {
			err = r.charge(v)
		}
		if err != nil {
			return nil, atLine(c.line, fmt.Errorf("filter %s: %w", call.name, err))
		}
	}
	return v, nil
}

func atLine(line int, err error) error { return fmt.Errorf("line %d: %w", line, err) }

func isTrue(v any) bool { return v != nil && v != false }

// equal compares two values. A whole number equals the same number with a fraction.
func equal(a, b any) bool {
	if e, is := a.(emptyValue); is {
		a, b = b, e
	}
	if e, is := b.(emptyValue); is {
		text, isText := a.(string)
		if e == "blank" && isText {
			a = strings.TrimSpace(text)
		}
		return a == "" || e == "blank" && !isTrue(a) || sizeOf(a) == 0
	}
	x, isNumber := toNumber(a)
	y, other := toNumber(b)
	if isNumber && other {
		return x == y
	}
	switch a.(type) {
	case []any, map[string]any:
		return shown(a) == shown(b)
	}
	switch b.(type) {
	case []any, map[string]any:
		return false
	}
	return a == b
}

// sizeOf returns the number of elements, or -1 for a value without elements.
func sizeOf(v any) int {
	switch v := v.(type) {
	case []any:
		return len(v)
	case map[string]any:
		return len(v)
	}
	return -1
}

// compare applies an operator.
func compare(a, b any, operator string) (bool, error) {
	switch operator {
	case "==":
		return equal(a, b), nil
	case "!=", "<>":
		return !equal(a, b), nil
	case "contains":
		switch v := a.(type) {
		case nil:
			return false, nil
		case string:
			return b != nil && strings.Contains(v, toText(b)), nil
		case []any:
			return slices.ContainsFunc(v, func(one any) bool { return equal(one, b) }), nil
		}
		return false, fmt.Errorf("%s contains nothing", shown(a))
	}
	if a == nil || b == nil {
		return false, nil // as everywhere in Liquid
	}
	x, isNumber := toNumber(a)
	y, other := toNumber(b)
	order := 0
	if isNumber && other {
		order = int(math.Copysign(1, x-y))
		if x == y {
			order = 0
		}
	} else if s, is := a.(string); is {
		t, both := b.(string)
		if !both {
			return false, fmt.Errorf("%s cannot be compared with %s", shown(a), shown(b))
		}
		order = strings.Compare(s, t)
	} else {
		return false, fmt.Errorf("%s cannot be compared with %s", shown(a), shown(b))
	}
	return operator[0] == '<' && order < 0 || operator[0] == '>' && order > 0 || len(operator) == 2 && order == 0, nil
}

func toNumber(v any) (float64, bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// toInt returns the whole number of a value, or 0.
func toInt(v any) int {
	switch v := v.(type) {
	case int:
		return v
	case float64:
		if math.Abs(v) < math.MaxInt32 {
			return int(v)
		}
	case string:
		n, _ := strconv.Atoi(strings.TrimSpace(v)) // a text without a number is 0
		return n
	}
	return 0
}

// toText returns a value as a template prints it. A list is the text of its elements, an object is JSON.
func toText(v any) string {
	switch v := v.(type) {
	case nil, emptyValue:
		return ""
	case string:
		return v
	case []any:
		var b strings.Builder
		for _, one := range v {
			if b.WriteString(toText(one)); b.Len() > maxOutput {
				break // longer than any limit: the caller refuses it
			}
		}
		return b.String()
	case map[string]any:
		raw, err := json.Marshal(v)
		if err != nil {
			return "" // cannot happen: it has values of JSON
		}
		return string(raw)
	}
	return fmt.Sprint(v)
}

// shown returns a value for an error, cut.
func shown(v any) string {
	const most = 60
	if v == nil {
		return "nothing"
	}
	text := toText(v)
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return strconv.Quote(text)
}
