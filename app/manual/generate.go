package manual

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"mailroom/internal/version"
	"mailroom/server"
)

// generated returns the parts of pages that the code describes, by the names of their markers.
func generated(root *cobra.Command) map[string]func() (string, error) {
	return map[string]func() (string, error){
		"commands": func() (string, error) { return commandList(root), nil },
		"settings": settingList, "api": operationList, "events": eventList, "filters": filterList, "metrics": metricList,
		"errors": errorList, "limits": limitList,
	}
}

// table is a table of Markdown.
type table struct{ strings.Builder }

func newTable(titles ...string) *table {
	t := &table{}
	t.add(titles...)
	t.WriteString("|" + strings.Repeat(" --- |", len(titles)) + "\n")
	return t
}

// add adds a row. Its cells are Markdown.
func (t *table) add(cells ...string) {
	for _, cell := range cells {
		t.WriteString("| " + strings.ReplaceAll(strings.ReplaceAll(cell, "\n", " "), "|", `\|`) + " ")
	}
	t.WriteString("|\n")
}

// span returns text as a code span.
func span(text string) string {
	if strings.Contains(text, "`") {
		return "`` " + text + " ``"
	}
	return "`" + text + "`"
}

// prose returns a text for people as Markdown: a sign that begins markup stays what it is.
func prose(text string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "<", `\<`, "[", `\[`, "#", `\#`).Replace(text)
}

// fenced returns a block of code.
func fenced(language, code string) string {
	return "```" + language + "\n" + strings.TrimRight(code, "\n") + "\n```\n"
}

// apiPath is the path of the reference of the HTTP API in a site. A server has it at /docs/api, with its own limits.
const apiPath = "api.html"

// recorder keeps an answer.
type recorder struct {
	header http.Header
	status int // 0: as for 200
	body   bytes.Buffer
}

// Header implements [http.ResponseWriter].
func (r *recorder) Header() http.Header {
	if r.header == nil {
		r.header = http.Header{}
	}
	return r.header
}

// WriteHeader implements [http.ResponseWriter].
func (r *recorder) WriteHeader(status int) { r.status = status }

// Write implements [http.ResponseWriter].
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }

// ask returns what a server without a ledger and other parts answers.
func ask(path string) ([]byte, error) {
	s := server.New(server.Options{
		Version: version.Read().Version,
		Parts: server.Parts{Page: func(html []byte) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write(html) // a recorder never fails
			})
		}},
	})
	r, err := http.NewRequest(http.MethodGet, "http://localhost"+path, nil)
	if err != nil {
		return nil, fmt.Errorf("describe the API: %w", err)
	}
	var w recorder
	if s.ServeHTTP(&w, r); w.status > http.StatusOK {
		return nil, fmt.Errorf("describe the API: %d %s", w.status, w.body.Bytes())
	}
	return w.body.Bytes(), nil
}

// apiPage returns the reference of the HTTP API for a site, which has no console and has the styles beside it.
func apiPage() ([]byte, error) {
	page, err := ask("/docs/api")
	if err != nil {
		return nil, err
	}
	return []byte(strings.NewReplacer(
		`"../chat/icon.svg"`, `"icon.svg"`, `"../chat/base.css"`, `"base.css"`, `"../openapi.json"`, `"openapi.json"`,
		` · <a href="../">Console</a> · <a href="../chat">Chat</a>`, "",
	).Replace(string(page))), nil
}

// operationList lists the operations of the HTTP API.
func operationList() (string, error) {
	raw, err := ask("/openapi.json")
	if err != nil {
		return "", err
	}
	var described struct {
		Tags []struct {
			Name, Description string
		}
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
			Summary     string
			Tags        []string
		}
	}
	if err := json.Unmarshal(raw, &described); err != nil {
		return "", fmt.Errorf("read the description of the API: %w", err)
	}
	var b strings.Builder
	for _, tag := range described.Tags {
		t, rows := newTable("operation", "request", "what it does"), 0
		for _, path := range sortedKeys(described.Paths) {
			for _, method := range []string{"get", "post", "patch", "delete"} {
				op, ok := described.Paths[path][method]
				if !ok || len(op.Tags) == 0 || op.Tags[0] != tag.Name {
					continue
				}
				rows++
				t.add(fmt.Sprintf("[%s](../api.html#%s)", op.OperationID, op.OperationID),
					span(strings.ToUpper(method)+" "+path), prose(op.Summary))
			}
		}
		if rows > 0 {
			fmt.Fprintf(&b, "\n## %s\n\n%s\n\n%s", strings.ToUpper(tag.Name[:1])+tag.Name[1:], prose(tag.Description), t)
		}
	}
	return b.String(), nil
}
