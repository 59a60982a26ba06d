package workflow

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"mailroom/internal/display"
)

// reader reads the front matter into a workflow.
type reader struct {
	env environment
	w   *Workflow
}

const maxDepth = 20 // of values in values

// read reads the keys in the order of the file.
func (r *reader) read(front []byte) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(front, &doc); err != nil {
		return fmt.Errorf("the front matter: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(doc.Content) == 0 {
		return nil
	}
	root := doc.Content[0]
	if err := checkNodes(root, maxDepth); err != nil {
		return err
	}
	if root.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: the front matter is no list of keys", root.Line)
	}
	return r.mapping("", root)
}

// checkNodes refuses what a plain file needs not: references to other parts, with which a short file becomes a large
// value, and deep nesting. Keys are texts and stand once.
func checkNodes(n *yaml.Node, depth int) error {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return fmt.Errorf("line %d: anchors and aliases are refused; write the value out", n.Line)
	}
	if depth == 0 {
		return fmt.Errorf("line %d: more than %d values in each other", n.Line, maxDepth)
	}
	seen := map[string]bool{}
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			if c.Kind != yaml.ScalarNode {
				return fmt.Errorf("line %d: a key is no text", c.Line)
			}
			if seen[c.Value] {
				return fmt.Errorf("line %d: the key %s stands twice", c.Line, c.Value)
			}
			seen[c.Value] = true
		}
		if err := checkNodes(c, depth-1); err != nil {
			return err
		}
	}
	return nil
}

// tables are the keys that hold keys.
func tables() []string {
	return []string{"tracker", "tracker.provider", "polling", "workspace", "hooks", "agent", "codex"}
}

func (r *reader) mapping(above string, n *yaml.Node) error {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := above+n.Content[i].Value, n.Content[i+1]
		if slices.Contains(tables(), key) {
			if value.Tag == "!!null" {
				continue
			}
			if value.Kind != yaml.MappingNode {
				return fmt.Errorf("line %d: %s is no list of keys", value.Line, key)
			}
			if err := r.mapping(key+".", value); err != nil {
				return err
			}
			continue
		}
		if err := r.key(key, value); err != nil {
			return fmt.Errorf("line %d: %s: %w", value.Line, key, err)
		}
	}
	return nil
}

// key reads one key that holds a value.
func (r *reader) key(key string, n *yaml.Node) error {
	here, secret := "", false
	var err error
	switch key {
	case "tracker.kind":
		here = "board"
		err = readText(n, &r.w.Kind)
	case "tracker.endpoint", "tracker.provider.endpoint":
		err = r.readValue(n, &r.w.Endpoint)
	case "tracker.api_key", "tracker.provider.api_key", "tracker.provider.token":
		secret = true
		if err = r.readValue(n, &r.w.APIKey); err == nil && !isVariable(n.Value) && n.Value != "" {
			r.note("%s is a secret in the file itself, which all readers of the repository have; write $NAME", key)
		}
	case "tracker.project_slug", "tracker.provider.project_slug":
		here = "project"
		err = r.readValue(n, &r.w.Project)
	case "tracker.provider.repo", "tracker.provider.repository":
		here = "repository"
		err = r.readValue(n, &r.w.Repository)
	case "tracker.required_labels":
		here = "labels"
		err = readList(n, &r.w.RequiredLabels)
	case "tracker.active_states":
		here = "active_states"
		err = readList(n, &r.w.ActiveStates)
	case "tracker.terminal_states":
		here = "terminal_states"
		err = readList(n, &r.w.TerminalStates)
	case "polling.interval_ms":
		here = "interval"
		err = readMillis(n, &r.w.Interval)
	case "agent.max_concurrent_agents":
		here = "max_claimed"
		err = readCount(n, &r.w.MaxAgents)
	case "workspace.root":
		err = r.readValue(n, &r.w.Root)
		r.note("workspace.root has no effect; the worktrees of an agent are in the data folder of the server")
	case "hooks.timeout_ms":
		err = readMillis(n, &r.w.HookTimeout)
	case "hooks.after_create", "hooks.before_run", "hooks.after_run", "hooks.before_remove":
		var command string
		if err = readText(n, &command); err == nil && command != "" {
			_, name, _ := strings.Cut(key, ".")
			r.w.Hooks[name] = command
			r.note("%s is not run: it is a shell command from the repository", key)
		}
	default:
		r.unknown(key)
	}
	if err == nil {
		r.w.Settings = append(r.w.Settings, Setting{Key: key, Value: r.shown(key, n, secret), Here: here})
	}
	return err
}

// shown returns a value for a person to read.
func (r *reader) shown(key string, n *yaml.Node, secret bool) string {
	const most = 60
	switch {
	case isVariable(n.Value):
		return n.Value
	case secret:
		return "(secret)"
	case strings.HasPrefix(key, "hooks.") && n.Tag == "!!str", key == "codex.command":
		return fmt.Sprintf("(command of %d bytes)", len(n.Value))
	case n.Kind == yaml.ScalarNode:
		if len(n.Value) > most {
			return strings.ToValidUTF8(n.Value[:most], "") + "…"
		}
		return n.Value
	}
	var list []string
	if readList(n, &list) == nil {
		return strings.Join(list, ", ")
	}
	return "(table)"
}

func (r *reader) note(format string, args ...any) {
	r.w.Notes = append(r.w.Notes, fmt.Sprintf(format, args...))
}

// withoutEffect names the keys of Symphony that mean nothing here, with the reason.
func withoutEffect() map[string]string {
	return map[string]string{
		"agent.max_turns": "a run has no limit of turns by this file; give it a budget, such as budget = " +
			`{ run = "30 turns" }`,
		"agent.max_retry_backoff_ms":           "the server retries runs by its own rule",
		"agent.max_concurrent_agents_by_state": "only max_concurrent_agents bounds the issues at work",
		"codex.command":                        "the command of an agent stands in its table of mailroom.toml",
		"codex.approval_policy":                "permissions of an agent stand in its table of mailroom.toml",
		"codex.thread_sandbox":                 "permissions of an agent stand in its table of mailroom.toml",
		"codex.turn_sandbox_policy":            "permissions of an agent stand in its table of mailroom.toml",
		"codex.turn_timeout_ms":                "the timeout of an agent stands in its table of mailroom.toml",
		"codex.read_timeout_ms":                "the timeout of an agent stands in its table of mailroom.toml",
		"codex.stall_timeout_ms":               "the timeout of an agent stands in its table of mailroom.toml",
	}
}

func (r *reader) unknown(key string) {
	if why := withoutEffect()[key]; why != "" {
		r.note("%s has no effect; %s", key, why)
		return
	}
	known := []string{"tracker.kind", "tracker.endpoint", "tracker.api_key", "tracker.project_slug",
		"tracker.required_labels", "tracker.active_states", "tracker.terminal_states", "tracker.provider",
		"polling.interval_ms", "workspace.root", "agent.max_concurrent_agents", "hooks.timeout_ms", "hooks.after_create",
		"hooks.before_run", "hooks.after_run", "hooks.before_remove"}
	if near := display.Suggest(key, known); near != "" {
		r.note("unknown key %s was ignored (did you mean %s?)", key, near)
		return
	}
	r.note("unknown key %s was ignored", key)
}

// isVariable reports whether a whole value names a variable of the environment.
func isVariable(value string) bool {
	is, err := regexp.MatchString(`^\$[A-Za-z_][A-Za-z0-9_]*$`, value)
	return err == nil && is
}

// readValue reads a text, which can be $NAME for a variable that the operator lists.
func (r *reader) readValue(n *yaml.Node, into *string) error {
	if err := readText(n, into); err != nil || !isVariable(*into) {
		return err
	}
	name := (*into)[1:]
	value, listed := r.env(name)
	if !listed {
		return fmt.Errorf("the variable $%s is not listed for this file; list it, or write the value", name)
	}
	if value == "" {
		return fmt.Errorf("the variable $%s has no value", name)
	}
	*into = value
	return nil
}

func readText(n *yaml.Node, into *string) error {
	if n.Kind != yaml.ScalarNode {
		return fmt.Errorf("a text is expected")
	}
	if n.Tag != "!!null" {
		*into = n.Value
	}
	return nil
}

// readList reads a list of texts, or texts with commas between them.
func readList(n *yaml.Node, into *[]string) error {
	var list []string
	switch n.Kind {
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			return nil
		}
		list = strings.Split(n.Value, ",")
	case yaml.SequenceNode:
		for _, c := range n.Content {
			if c.Kind != yaml.ScalarNode {
				return fmt.Errorf("a list of texts is expected")
			}
			list = append(list, c.Value)
		}
	default:
		return fmt.Errorf("a list of texts is expected")
	}
	*into = nil
	for _, one := range list {
		if one = strings.TrimSpace(one); one != "" {
			*into = append(*into, one)
		}
	}
	return nil
}

func readCount(n *yaml.Node, into *int) error {
	const most = 1_000_000_000
	v, err := strconv.Atoi(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || v <= 0 || v > most {
		return fmt.Errorf("%q is not a number from 1", n.Value)
	}
	*into = v
	return nil
}

func readMillis(n *yaml.Node, into *time.Duration) error {
	var v int
	if err := readCount(n, &v); err != nil {
		return fmt.Errorf("%w, in milliseconds", err)
	}
	*into = time.Duration(v) * time.Millisecond
	return nil
}
