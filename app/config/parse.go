package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"mailroom/agent/exec"
	"mailroom/agent/exec/program"
	"mailroom/alert/target"
	"mailroom/internal/display"
	"mailroom/internal/lazyregexp"
	"mailroom/internal/setting"
)

// maxFile limits the size of a configuration file, in bytes.
const maxFile = 1 << 20

// Error lists all problems of a configuration, one line each, in the order of the file.
type Error struct {
	File     string
	problems []problem
}

// problem is one invalid key. line is 0 if the file has no line for it.
type problem struct {
	line     int
	key      string
	variable string // environment variable that set the key, or ""
	what     string
}

func (e *Error) Error() string {
	var b strings.Builder
	for i, p := range e.problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		if p.variable != "" {
			b.WriteString(p.variable + ": " + p.what)
			continue
		}
		b.WriteString(e.File)
		if p.line > 0 {
			fmt.Fprintf(&b, ":%d", p.line)
		}
		b.WriteString(": ")
		if p.key != "" {
			b.WriteString(p.key + ": ")
		}
		b.WriteString(p.what)
	}
	return b.String()
}

// Load reads the file at path, and the variables of env that override it (see [Variable]); env works as [os.Getenv],
// or is nil. A missing file is an error if must is set, and otherwise counts as an empty file. An [*Error] lists
// invalid settings.
func Load(path string, must bool, kinds *target.Kinds, env func(string) string) (*Config, error) {
	var changed time.Time
	if info, err := os.Stat(path); err == nil { // before the file is read: what is read is at least as new
		changed = info.ModTime().UTC()
	}
	data, err := setting.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && !must {
		path, err = "", nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	c, err := Parse(path, data, kinds, env)
	if err != nil {
		return nil, err
	}
	if path != "" {
		c.changed = changed
	}
	return c, nil
}

// plainKey matches the key of a line. Its value may be a secret, so a message does not show it.
var plainKey = lazyregexp.New(`^\s*([A-Za-z0-9_.-]{1,64})\s*=`)

// keyAt returns the key that a line of a file sets, or "".
func keyAt(data []byte, line int) string {
	lines := bytes.Split(data, []byte("\n"))
	if line < 1 || line > len(lines) {
		return ""
	}
	if found := plainKey().FindSubmatch(lines[line-1]); found != nil {
		return string(found[1])
	}
	return ""
}

// lastKey returns the number of the last line of data that sets a key, or 1 if none does.
func lastKey(data []byte) int {
	for line := bytes.Count(data, []byte("\n")) + 1; line > 1; line-- {
		if keyAt(data, line) != "" {
			return line
		}
	}
	return 1
}

// Parse reads a configuration as Load does. Errors name file, unless it is "".
func Parse(file string, data []byte, kinds *target.Kinds, env func(string) string) (*Config, error) {
	if len(data) > maxFile {
		return nil, &Error{File: file, problems: []problem{{what: fmt.Sprintf("larger than %d bytes", maxFile)}}}
	}
	var doc map[string]any
	if err := toml.Unmarshal(data, &doc); err != nil {
		p := problem{what: strings.TrimPrefix(err.Error(), "toml: ")}
		if d, ok := errors.AsType[*toml.DecodeError](err); ok {
			p.line, _ = d.Position()
			if strings.Contains(p.what, "ended here") || strings.Contains(p.what, "incomplete") {
				p.line = lastKey(data) // the library says 1: the value that has no end is the last one
			}
			if key := keyAt(data, p.line); key != "" {
				p.what += ", in the line of " + key
			}
		}
		return nil, &Error{File: file, problems: []problem{p}}
	}
	if doc == nil {
		doc = map[string]any{}
	}
	c := Default(kinds)
	c.file, c.variables = file, override(doc, env, kinds)
	r := reader{config: c, lines: keyLines(data)}
	r.top(doc)
	if len(r.problems) == 0 {
		c.inherit()
		for _, p := range c.check() {
			r.report(p.key, p.what)
		}
	}
	if len(r.problems) > 0 {
		slices.SortStableFunc(r.problems, func(a, b problem) int { return a.line - b.line })
		return nil, &Error{File: file, problems: r.problems}
	}
	return c, nil
}

// reader fills a config from a decoded document.
type reader struct {
	config   *Config
	lines    map[string]int
	problems []problem
}

func (r *reader) report(key, what string) {
	if variable := r.config.variables[key]; variable != "" {
		r.problems = append(r.problems, problem{key: key, variable: variable, what: what})
		return
	}
	line := r.lines[key]
	for k := key; line == 0 && strings.Contains(k, "."); line = r.lines[k] {
		k = k[:strings.LastIndexByte(k, '.')]
	}
	r.problems = append(r.problems, problem{line: line, key: key, what: what})
}

func (r *reader) top(doc map[string]any) {
	tables := []struct {
		key, header string
		read        func(table map[string]any)
	}{
		{"store", "[store]", func(table map[string]any) { r.table("store.", table, r.config.Store.settings()) }},
		{"postgres", "[postgres]", func(table map[string]any) { r.table("postgres.", table, r.config.Postgres.settings()) }},
		{"bus", "[bus]", func(table map[string]any) { r.table("bus.", table, r.config.Bus.settings()) }},
		{"node", "[node]", func(table map[string]any) { r.table("node.", table, r.config.Node.settings()) }},
		{"server", "[server]", func(table map[string]any) { r.table("server.", table, r.config.Server.settings()) }},
		{"token", "[token]", func(table map[string]any) { r.table("token.", table, r.config.Token.settings()) }},
		{"retry", "[retry]", func(table map[string]any) {
			r.table("retry.", table, retrySettings(&r.config.Retry))
			r.checkRetry("retry.first", "retry.most", r.config.Retry)
		}},
		{"limits", "[limits]", func(table map[string]any) { r.table("limits.", table, r.config.Limits.settings()) }},
		{"agents", "[agents.NAME]", r.agents},
		{"channels", "[channels.NAME]", r.channels},
		{"tracker", "[tracker]", r.tracker},
		{"boards", "[boards.NAME]", r.boards},
		{"targets", "[targets.NAME]", r.targets},
		{"rules", "[rules.NAME]", r.rules},
		{"schedules", "[schedules.NAME]", r.schedules},
		{"prices", `[prices."MODEL"]`, r.prices},
	}
	rest, known := maps.Clone(doc), []string{}
	for _, t := range tables {
		delete(rest, t.key)
		known = append(known, t.key)
	}
	r.table("", rest, r.config.settings(), known...)
	for _, t := range tables {
		table, ok := doc[t.key].(map[string]any)
		switch {
		case ok:
			t.read(table)
		case doc[t.key] != nil:
			r.report(t.key, "not a table; use "+t.header)
		}
	}
}

// agents reads the tables of agents.
func (r *reader) agents(tables map[string]any) {
	for _, name := range sorted(tables) {
		if key := "agents." + name; r.named(key, name, tables[name], "agent") {
			r.agent(key, name, tables[name].(map[string]any))
		}
	}
}

// named checks that v is a table and that name is a valid name for it. what says for errors whether it is an agent, a
// channel, a target or a rule.
func (r *reader) named(key, name string, v any, what string) bool {
	if _, ok := v.(map[string]any); !ok {
		r.report(key, fmt.Sprintf("%q is not a table; use [%ss.NAME] for the settings of one %s", name, what, what))
		return false
	}
	if !setting.ValidName(name) {
		r.report(key, "invalid name: use 1 to 64 letters, digits, dots, dashes and underscores")
		return false
	}
	return true
}

// agent reads one table, kind first, because the kind decides which keys exist.
func (r *reader) agent(key, name string, table map[string]any) {
	a := &Agent{}
	if given, ok := table["kind"]; ok {
		if err := a.settings()[0].Value.Set(given); err != nil {
			r.report(key+".kind", err.Error())
			return
		}
	} else if name != KindExec && name != program.KindACP && name != KindRemote && slices.Contains(kinds(), name) {
		a.Kind = name
	} else {
		what := "missing kind; use one of " + strings.Join(kinds(), ", ")
		if near := display.Suggest("kind", sorted(table)); near != "" {
			what += fmt.Sprintf(" (%q is not a known key)", near)
		}
		r.report(key, what)
		return
	}
	a = newAgent(a.Kind)
	r.table(key+".", table, a.settings())
	r.agentRetry(key, a)
	if _, given := table["env_allow"]; a.Kind == program.KindACP && !given {
		a.EnvAllow = exec.EnvAllow(a.Profile()) // it depends on the command
	}
	r.config.Agents[name] = a
}

func (r *reader) table(prefix string, table map[string]any, settings []setting.Setting, others ...string) {
	known := slices.Clone(others)
	byKey := map[string]setting.Setting{}
	for _, s := range settings {
		known = append(known, s.Key)
		byKey[s.Key] = s
	}
	for _, k := range sorted(table) {
		s, ok := byKey[k]
		if !ok {
			what := "unknown key"
			if near := display.Suggest(k, known); near != "" {
				what += fmt.Sprintf(" (did you mean %q?)", near)
			} else {
				what += "; known keys: " + strings.Join(known, ", ")
			}
			r.report(prefix+k, what)
			continue
		}
		if err := s.Value.Set(table[k]); err != nil {
			r.report(prefix+k, err.Error())
			continue
		}
		r.config.set[prefix+k] = true
	}
}

// inherit sets the values that agents inherit from the top level.
func (c *Config) inherit() {
	c.inheritRetry()
	if c.Tracker != nil && !c.set["tracker.max_claimed"] && c.worktrees(append(c.Tracker.Agents, c.Tracker.Agent)) {
		c.Tracker.MaxClaims = worktreeRuns
	}
	for name, b := range c.Boards {
		if !c.set["boards."+name+".max_claimed"] && c.worktrees(append(slices.Clone(b.Agents), b.Agent)) {
			b.MaxClaims = worktreeRuns
		}
	}
	for name, a := range c.Agents {
		if !c.set["agents."+name+".limit"] {
			a.Limit = c.limitOf(a)
		}
		if !c.set["agents."+name+".deadline"] {
			a.Deadline = c.deadlineOf(a.Kind)
		}
		if a.IsProgram() && !c.set["agents."+name+".isolation"] {
			a.Isolation = c.Isolation
		}
	}
}

// keyLines maps the dotted keys of a valid document, and their tables, to their first lines.
// It omits keys in inline tables; their errors use the line of the table.
func keyLines(data []byte) map[string]int {
	at := map[string]int{}
	var p unstable.Parser
	p.Reset(data)
	prefix := ""
	for p.NextExpression() {
		e := p.Expression()
		if e.Kind == unstable.Table || e.Kind == unstable.ArrayTable {
			prefix = ""
		} else if e.Kind != unstable.KeyValue {
			continue
		}
		key := prefix
		for it := e.Key(); it.Next(); {
			key += string(it.Node().Data)
			if at[key] == 0 {
				at[key] = p.Shape(it.Node().Raw).Start.Line
			}
			key += "."
		}
		if e.Kind != unstable.KeyValue {
			prefix = key
		}
	}
	return at
}
