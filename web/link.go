package web

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"mailroom/internal/lazyregexp"
)

// The forms of the imports and exports in the modules of the pages, and of the names in their braces. A linker refuses
// all others.
var (
	importForm   = lazyregexp.New(`^(import|export) \{([^{}]*)\} from '(\.[^']+)';\n$`)
	exportForm   = lazyregexp.New(`^export ((?:async )?function\*?|const|class) ([\w$]+)`)
	variableForm = lazyregexp.New(`^export let ([\w$]+) = `)
	nameForm     = lazyregexp.New(`^([\w$]+)(?: as ([\w$]+))?$`)
)

// isEntry reports whether a file is a module that a page names in its HTML.
func isEntry(at string) bool {
	return at == "/console/main.js" || at == "/chat/chat.js" || at == "/decide/decide.js"
}

// link returns the module at a path and all modules that it imports as one module without imports. A browser gets it
// with one request, instead of one for each of up to 80 files, and asks once whether it has changed.
func link(at string, read func(at string) ([]byte, error)) ([]byte, error) {
	l := &linker{read: read, modules: map[string]*module{}, variables: map[string]string{}}
	if _, err := l.add(at); err != nil {
		return nil, err
	}
	var script bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(l.variables)) {
		fmt.Fprintf(&script, "let %s;\n", name)
	}
	_, _ = l.out.WriteTo(&script) // a write to a buffer does not fail
	return script.Bytes(), nil
}

// linker writes each module as a function that runs once and returns what the module exports. Modules come after those
// that they import, so an import becomes a constant.
//
// The exception is an exported variable, which importers see change: it is a variable of the whole script, so no other
// module may export one of the same name.
type linker struct {
	read      func(at string) ([]byte, error) // returns the module at a path of the server
	out       bytes.Buffer
	modules   map[string]*module
	variables map[string]string // path of the module that exports a variable, by its name
}

// module is a module that a linker has written.
type module struct {
	name    string            // of the constant with its exports; "" before it is written
	exports map[string]string // expression of each exported name; "" for a variable
}

// add writes the module at a path, if it is not written yet.
func (l *linker) add(at string) (*module, error) {
	if m := l.modules[at]; m != nil {
		if m.name == "" {
			return nil, fmt.Errorf("%s imports itself through other modules", at)
		}
		return m, nil
	}
	m := &module{exports: map[string]string{}}
	l.modules[at] = m
	name := fmt.Sprintf("module%d", len(l.modules))
	body, err := l.read(at)
	if err != nil {
		return nil, err
	}
	text, err := l.resolve(at, m, string(body))
	if err != nil {
		return nil, err
	}
	var properties []string
	for _, name := range slices.Sorted(maps.Keys(m.exports)) {
		if expression := m.exports[name]; expression != "" {
			properties = append(properties, name+": "+expression)
		}
	}
	m.name = name
	fmt.Fprintf(&l.out, "// %s\nconst %s = (() => {\n%sreturn { %s };\n})();\n",
		at, m.name, text, strings.Join(properties, ", "))
	return m, nil
}

// resolve replaces the imports of a module by constants, after it has written the imported modules. It removes the
// exports, and keeps their names.
func (l *linker) resolve(at string, m *module, text string) (string, error) {
	if i := strings.LastIndex(text, "export{"); i >= 0 { // at the end of a bundle of esbuild
		names, err := parseNames(strings.TrimSuffix(strings.TrimSpace(text[i+len("export{"):]), "};"))
		if err != nil {
			return "", fmt.Errorf("%s: %w", at, err)
		}
		for _, n := range names {
			m.exports[n.to] = n.from
		}
		text = text[:i] + "\n"
	}
	var out strings.Builder
	for text != "" {
		var statement string
		statement, text = cutStatement(text)
		if strings.HasPrefix(statement, "import") || strings.HasPrefix(statement, "export") {
			var err error
			if statement, err = l.rewrite(at, m, statement); err != nil {
				return "", err
			}
		}
		out.WriteString(statement)
	}
	return out.String(), nil
}

// cutStatement cuts the first line of a text, or an import or export of several lines.
func cutStatement(text string) (statement, rest string) {
	end := "\n"
	if strings.HasPrefix(text, "import {") || strings.HasPrefix(text, "export {") {
		end = ";\n"
	}
	if i := strings.Index(text, end); i >= 0 {
		return text[:i+len(end)], text[i+len(end):]
	}
	return text, ""
}

// rewrite returns what stands in the script for a statement that begins with import or export.
func (l *linker) rewrite(at string, m *module, statement string) (string, error) {
	if form := importForm().FindStringSubmatch(statement); form != nil {
		names, err := parseNames(form[2])
		if err != nil {
			return "", fmt.Errorf("%s: %w", at, err)
		}
		return l.bind(at, path.Join(path.Dir(at), form[3]), m, names, form[1] == "export")
	}
	if form := exportForm().FindStringSubmatch(statement); form != nil {
		m.exports[form[2]] = form[2]
		return strings.TrimPrefix(statement, "export "), nil
	}
	if form := variableForm().FindStringSubmatch(statement); form != nil {
		if other := l.variables[form[1]]; other != "" {
			return "", fmt.Errorf("%s and %s export a variable %s", other, at, form[1])
		}
		m.exports[form[1]], l.variables[form[1]] = "", at
		return strings.TrimPrefix(statement, "export let "), nil
	}
	return "", fmt.Errorf("%s has an import or export of a form that is not linked: %.80s", at, statement)
}

// bind returns the constants of names that a module imports from another one, which it writes before. If the module
// forwards the names, it exports them and has no constants.
func (l *linker) bind(at, from string, m *module, names []renaming, forward bool) (string, error) {
	imported, err := l.add(from)
	if err != nil {
		return "", err
	}
	var constants []string
	for _, n := range names {
		expression, exported := imported.exports[n.from]
		switch {
		case !exported:
			return "", fmt.Errorf("%s imports %s from %s, which does not export it", at, n.from, from)
		case expression == "" && (forward || n.from != n.to):
			return "", fmt.Errorf("%s exports the variable %s of %s, or gives it another name", at, n.from, from)
		case forward:
			m.exports[n.to] = imported.name + "." + n.from
		case expression != "":
			constants = append(constants, n.from+": "+n.to)
		}
	}
	if len(constants) == 0 {
		return "", nil
	}
	return "const { " + strings.Join(constants, ", ") + " } = " + imported.name + ";\n", nil
}

// renaming is "from as to" in a list of imports or exports.
type renaming struct{ from, to string }

// parseNames parses the text between the braces of an import or an export.
func parseNames(list string) ([]renaming, error) {
	var names []renaming
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue // after the last comma
		}
		form := nameForm().FindStringSubmatch(name)
		if form == nil {
			return nil, fmt.Errorf("the name %q cannot be linked", name)
		}
		names = append(names, renaming{form[1], cmp.Or(form[2], form[1])})
	}
	return names, nil
}
