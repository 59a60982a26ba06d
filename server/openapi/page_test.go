package openapi

import (
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"mailroom/server"
	"mailroom/web"
)

// section is an article of the page.
type section struct {
	text  string
	rows  map[string]bool // names in the tables
	links []string
}

// renderedPage is /docs/api as these tests read it.
type renderedPage struct {
	size      int
	sections  map[string]*section // by id
	anchors   map[string]bool
	addresses []string // of links and files
}

// readPage reads the page. It is well-formed, except that elements without content have no end.
func (f *fixture) readPage() *renderedPage {
	f.t.Helper()
	raw := f.call("GET /docs/api", "")
	p := &renderedPage{size: len(raw), sections: map[string]*section{}, anchors: map[string]bool{}}
	d := xml.NewDecoder(strings.NewReader(string(raw)))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	var in *section
	var open []string // names of the elements
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return p
		}
		if err != nil {
			f.t.Fatal(err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			open = append(open, e.Name.Local)
			p.start(e, &in)
		case xml.EndElement:
			open = open[:len(open)-1]
			if e.Name.Local == "article" {
				in = nil
			}
		case xml.CharData:
			if in == nil {
				continue
			}
			in.text += string(e)
			if n := len(open); n > 2 && open[n-1] == "code" && open[n-2] == "th" {
				in.rows[string(e)] = true
			}
		}
	}
}

// start reads the attributes of an element in a section.
func (p *renderedPage) start(e xml.StartElement, in **section) {
	for _, a := range e.Attr {
		switch a.Name.Local {
		case "id":
			p.anchors[a.Value] = true
			if e.Name.Local == "article" {
				*in = &section{rows: map[string]bool{}}
				p.sections[a.Value] = *in
			}
		case "href", "src":
			p.addresses = append(p.addresses, a.Value)
			if *in != nil {
				(*in).links = append((*in).links, a.Value)
			}
		}
	}
}

// lacks returns the fields of a schema that a section does not show. before is the path of the schema in the body.
func (p *renderedPage) lacks(
	d *description, in *section, s *schema, before string, seen map[string]bool,
) (all []string) {
	name := strings.TrimPrefix(s.reference(), "#/components/schemas/")
	if name != "" && before != "" || name != "" && !in.shows(d.resolve(s)) {
		if link := "#object-" + name; slices.Contains(in.links, link) {
			if seen[name] {
				return nil
			}
			seen[name] = true
			in, before = p.sections["object-"+name], ""
			if in == nil {
				return []string{link}
			}
		}
	}
	whole := d.resolve(&schema{Ref: s.reference()})
	if name == "" {
		whole = s
	}
	for _, key := range slices.Sorted(maps.Keys(whole.Properties)) {
		if !in.rows[before+key] {
			all = append(all, name+": "+before+key)
			continue
		}
		all = append(all, p.lacks(d, in, whole.Properties[key], before+key+".", seen)...)
	}
	if whole.Items != nil {
		all = append(all, p.lacks(d, in, whole.Items, strings.TrimSuffix(before, ".")+"[].", seen)...)
	}
	return all
}

// shows reports whether the section has a row for each field of the schema.
func (in *section) shows(s *schema) bool {
	for key := range s.Properties {
		if !in.rows[key] {
			return false
		}
	}
	return true
}

// reference returns the reference of a schema that is an object, or an object or null.
func (s *schema) reference() string {
	for _, one := range s.AnyOf {
		if one.Ref != "" {
			return one.Ref
		}
	}
	return s.Ref
}

func withPages(o *server.Options) { o.Parts.Pages, o.Parts.Page = web.Pages(), web.Page }

// TestThePageShowsAllOfTheDescription checks that /docs/api has a section for each operation with its parameters, the
// fields of its request and answers, what it is refused for, and an example.
func TestThePageShowsAllOfTheDescription(t *testing.T) {
	f := start(t, otherProtocols, withPages)
	d, p := f.describe(), f.readPage()
	fields := 0
	for _, op := range d.operations() {
		in := p.sections[op.ID]
		if in == nil {
			t.Errorf("%s has no section", op.ID)
			continue
		}
		if route := strings.ToUpper(op.Method) + " " + op.Path; !strings.Contains(in.text, route) {
			t.Errorf("%s does not show %s", op.ID, route)
		}
		for _, part := range op.Parameters {
			if !in.rows[part.Name] {
				t.Errorf("%s does not show the parameter %s", op.ID, part.Name)
			}
		}
		bodies := map[string]map[string]media{}
		if op.RequestBody != nil {
			bodies["the request"] = op.RequestBody.Content
		}
		for status, r := range op.Responses {
			if status[0] == '2' {
				bodies["the answer "+status] = r.Content
			}
			for _, code := range r.Codes {
				if !strings.Contains(in.text, status+" "+code) {
					t.Errorf("%s does not show the refusal %s %s", op.ID, status, code)
				}
			}
		}
		for what, content := range bodies {
			for _, m := range content {
				if lost := p.lacks(d, in, m.Schema, "", map[string]bool{}); len(lost) > 0 {
					t.Errorf("%s does not show of %s: %s", op.ID, what, lost)
				}
			}
		}
		if fields += len(in.rows); op.ID != "socket" && !strings.Contains(in.text, `"$URL/`) {
			t.Errorf("%s has no example", op.ID)
		}
	}
	if fields < 500 {
		t.Errorf("the sections have %d rows", fields)
	}
	if p.size > 450<<10 {
		t.Errorf("the page has %d bytes: make a page for each group of operations", p.size)
	}
}

// TestThePageLoadsNothingOfAnotherHost checks the addresses in the page: files and pages of the same server, relative,
// so that a proxy can serve it below a path prefix, and anchors that exist.
func TestThePageLoadsNothingOfAnotherHost(t *testing.T) {
	f := start(t, otherProtocols, withPages)
	p := f.readPage()
	base := &url.URL{Path: "/docs/api"}
	pages := web.Pages()
	for _, address := range p.addresses {
		at, err := url.Parse(address)
		if err != nil || at.IsAbs() || at.Host != "" || strings.HasPrefix(address, "/") {
			t.Errorf("%q is not relative (%v)", address, err)
			continue
		}
		switch to := base.ResolveReference(at); {
		case to.Path == "/docs/api" && !p.anchors[to.Fragment]:
			t.Errorf("%s leads nowhere", address)
		case to.Path != "/docs/api" && to.Path != "/openapi.json" && to.Path != "/docs/index.html" &&
			pages[to.Path] == nil:
			t.Errorf("%s is not served", address)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.url+"/docs/api", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, _ := f.exchange(req)
	csp := resp.Header.Get("Content-Security-Policy")
	if !strings.HasPrefix(csp, "default-src 'none'; script-src 'self';") {
		t.Errorf("without a token: %d with the policy %q", resp.StatusCode, csp)
	}
}
