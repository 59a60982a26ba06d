package reference

import (
	"bytes"
	"cmp"
	_ "embed" // page.html
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"mailroom/api"
)

// layout is the template of the page.
//
// archtest: embedded, never written.
//
//go:embed page.html
var layout string

// Page renders the description that [Complete] returns as an HTML page for people, which needs no script. Its styles
// and its links are relative to /docs/api.
func Page(described *huma.OpenAPI, o Options) ([]byte, error) {
	complete, err := Complete(described, o)
	if err != nil {
		return nil, err
	}
	texts, err := parseTexts(operations)
	if err != nil {
		return nil, err
	}
	recorded, err := parseExamples(examples)
	if err != nil {
		return nil, err
	}
	parsed, err := template.New("page").Parse(layout)
	if err != nil {
		return nil, fmt.Errorf("read the layout of the page: %w", err)
	}
	p := newPager(complete, completer{options: o, texts: texts, recorded: recorded})
	shown, err := p.page(described)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, shown); err != nil {
		return nil, fmt.Errorf("render the description: %w", err)
	}
	return out.Bytes(), nil
}

// page is what the template shows.
type page struct {
	Version    string
	URL        string // URL of the server
	Intro      []prose
	Groups     []group
	Usual      []usualRefusal
	Problem    string // an example of a refusal
	Objects    []object
	Operations int
}

// group has the operations of a tag.
type group struct {
	ID, Name   string
	Does       prose
	Operations []shownOperation
}

// shownOperation is the section of an operation.
type shownOperation struct {
	ID, Method, Path string
	Access           prose // says who may call the operation
	Summary          prose
	Does             []prose
	Tables           []table // parameters and the request
	Curl             string
	Answers          []answer
	Refusals         []refused
	Usual            []usualRefusal // the texts are in the section about refusals
}

// table has the rows of one kind.
type table struct {
	Title string
	Note  prose
	Rows  []row
}

// answer is what an operation answers with if it does not refuse.
type answer struct {
	Status  string
	Text    prose
	Kind    []word // type of the body; none if it has no body
	Rows    []row
	Example string
}

// refused is a refusal of an operation.
type refused struct {
	Status int
	Code   string
	When   prose
}

// usualRefusal is a refusal of many operations.
type usualRefusal struct {
	refused
	ID    string
	Count int // operations
}

// object is a schema that several operations share.
type object struct {
	Name string
	Does prose
	Rows []row
}

// pager makes the parts of the page.
type pager struct {
	completer completer
	fields    fields
	usual     map[refusal]int // index in all
	all       []usualRefusal
}

func newPager(complete *huma.OpenAPI, c completer) *pager {
	return &pager{completer: c, fields: newFields(complete), usual: map[refusal]int{}}
}

// page makes all parts. The operations of described are those before they were completed.
func (p *pager) page(described *huma.OpenAPI) (page, error) {
	p.collectUsual(described)
	out := page{
		Version: described.Info.Version, Intro: p.fields.words.paragraphs(p.fields.api.Info.Description),
		URL: strings.TrimRight(cmp.Or(p.completer.options.URL, "http://127.0.0.1:8420"), "/"),
	}
	for _, tag := range p.fields.api.Tags {
		g := group{ID: tagID(tag.Name), Name: tag.Name, Does: p.fields.words.prose(tag.Description)}
		for _, op := range p.tagged(tag.Name) {
			shown, err := p.operation(op, find(described, op))
			if err != nil {
				return out, fmt.Errorf("operation %s: %w", op.OperationID, err)
			}
			g.Operations = append(g.Operations, shown)
		}
		if len(g.Operations) > 0 {
			out.Groups = append(out.Groups, g)
			out.Operations += len(g.Operations)
		}
	}
	out.Usual = p.all
	problem, err := indent(p.completer.recorded.Refusals[fmt.Sprint(http.StatusUnprocessableEntity)])
	if err != nil {
		return out, err
	}
	out.Problem = problem
	for _, name := range p.fields.shared() {
		schema := p.fields.schemas[name]
		out.Objects = append(out.Objects, object{
			Name: name, Does: p.fields.words.prose(schema.Description), Rows: p.fields.rows(name),
		})
	}
	return out, nil
}

func tagID(name string) string { return "tag-" + strings.ReplaceAll(name, " ", "-") }

// operationsOf returns the operations of a description by path and method.
func operationsOf(d *huma.OpenAPI) (all []*huma.Operation) {
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		item := d.Paths[path]
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Patch, item.Delete} {
			if op != nil {
				all = append(all, op)
			}
		}
	}
	return all
}

// tagged returns the operations of a tag in the order of operations.md, which is that of a reader.
func (p *pager) tagged(tag string) []*huma.Operation {
	all := slices.DeleteFunc(operationsOf(p.fields.api), func(op *huma.Operation) bool {
		return !slices.Contains(op.Tags, tag)
	})
	slices.SortStableFunc(all, func(a, b *huma.Operation) int {
		return p.completer.texts[a.OperationID].place - p.completer.texts[b.OperationID].place
	})
	return all
}

// find returns the operation of d with the method and path of op.
func find(d *huma.OpenAPI, op *huma.Operation) *huma.Operation {
	item := d.Paths[op.Path]
	return map[string]*huma.Operation{
		http.MethodGet: item.Get, http.MethodPost: item.Post, http.MethodPatch: item.Patch, http.MethodDelete: item.Delete,
	}[op.Method]
}

// collectUsual counts the refusals that follow from the kind of an operation, and orders them by status.
func (p *pager) collectUsual(described *huma.OpenAPI) {
	counts := map[refusal]int{}
	for _, op := range operationsOf(described) {
		for _, r := range p.completer.usual(op) {
			counts[r]++
		}
	}
	for _, r := range slices.SortedFunc(maps.Keys(counts), func(a, b refusal) int {
		if a.status != b.status {
			return a.status - b.status
		}
		return strings.Compare(a.when, b.when)
	}) {
		p.usual[r] = len(p.all)
		p.all = append(p.all, usualRefusal{
			refused: p.refused(r), ID: fmt.Sprint("refusal-", len(p.all)+1), Count: counts[r],
		})
	}
}

func (p *pager) refused(r refusal) refused {
	return refused{Status: r.status, Code: string(r.code), When: p.fields.words.prose(r.when + ".")}
}

// operation makes the section of an operation. plain is the operation before it was completed.
func (p *pager) operation(op, plain *huma.Operation) (shownOperation, error) {
	access, more, _ := strings.Cut(plain.Description, ". ")
	text := p.completer.texts[op.OperationID]
	out := shownOperation{
		ID: op.OperationID, Method: op.Method, Path: op.Path, Summary: p.fields.words.prose(op.Summary),
		Access: p.fields.words.prose(strings.TrimSuffix(access, ".") + "."),
		Does:   p.fields.words.paragraphs(text.does + "\n\n" + more),
	}
	for _, in := range []struct{ kind, title string }{
		{"path", "Path"}, {"query", "Query parameters"}, {"header", "Headers"},
	} {
		if rows := p.fields.parameters(op.Parameters, in.kind); len(rows) > 0 {
			out.Tables = append(out.Tables, table{Title: in.title, Rows: rows})
		}
	}
	if op.RequestBody != nil {
		out.Tables = append(out.Tables, p.request(op.RequestBody))
	}
	for _, group := range byStatus(append(p.completer.usual(plain), text.refusals...)) {
		if group[len(group)-1].code == never {
			continue
		}
		for _, r := range group {
			if at, ok := p.usual[r]; ok {
				out.Usual = append(out.Usual, p.all[at])
			} else {
				out.Refusals = append(out.Refusals, p.refused(r))
			}
		}
	}
	example := p.completer.recorded.Operations[op.OperationID]
	var err error
	if out.Curl, err = example.curl(op); err != nil {
		return out, err
	}
	out.Answers, err = p.answers(op, example)
	return out, err
}

// request describes the body of a request.
func (p *pager) request(body *huma.RequestBody) table {
	out := table{Title: "Request", Note: p.fields.words.prose(body.Description)}
	if !body.Required {
		out.Note = p.fields.words.prose("The body may be left out. " + body.Description)
	}
	for _, kind := range slices.Sorted(maps.Keys(body.Content)) {
		out.Rows = append(out.Rows, p.fields.body(body.Content[kind].Schema, true)...)
	}
	return out
}

// answers describes the answers of an operation without its refusals.
func (p *pager) answers(op *huma.Operation, example Example) (all []answer, err error) {
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		r := op.Responses[status]
		if r.Ref != "" || status == "default" {
			continue
		}
		shown := answer{Status: status}
		if n, err := strconv.Atoi(status); err != nil || r.Description != http.StatusText(n) {
			shown.Text = p.fields.words.prose(r.Description)
		}
		for kind, media := range r.Content {
			if kind == api.ProblemType {
				continue // the section about refusals has it
			}
			shown.Kind = p.fields.kind(media.Schema)
			if kind != "application/json" {
				shown.Kind = []word{{Text: kind, Code: true}}
			}
			shown.Rows = p.fields.body(media.Schema, false)
		}
		if status == fmt.Sprint(example.Status) {
			if shown.Example, err = example.answer(); err != nil {
				return nil, err
			}
		}
		all = append(all, shown)
	}
	return all, nil
}
