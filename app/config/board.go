package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"mailroom/internal/reserved"
	"mailroom/internal/setting"
)

// Board is one [boards.NAME] table: a board outside whose issues are assigned to agents. Its name is the name of a
// channel.
type Board struct {
	Kind      string        // BoardGitHub or BoardLinear
	Agent     string        // default agent of the issues
	Agents    []string      // other agents that an issue can select
	Labels    []string      // an issue must have all of them
	MaxClaims int           // issues in progress at once
	KeepOpen  bool          // a person closes finished issues
	Interval  time.Duration // between two polls
	URL       string        // of the API
	Workflow  string        // file with the template of the prompts; "": none
	Token     *setting.Secret
	Webhook   *setting.Secret // optional

	// Settings of GitHub.
	Repository string        // "owner/name"
	Marks      string        // prefix of the labels that show claims
	WritePause time.Duration // least time between two writes

	// Settings of Linear.
	Project string   // id at the end of the project's address; "": the whole team
	Team    string   // key, such as "ENG"
	Active  []string // states in which an issue may start; empty: all of type unstarted
	Done    string   // state of a finished issue that a person closes; "": it stays where it is
}

// Kinds of boards.
const (
	BoardGitHub = "github" // the issues of a repository
	BoardLinear = "linear" // the issues of a project or a team
)

// gitHubAPI is the base URL of the API of github.com.
const gitHubAPI = "https://api.github.com"

// boardKind is what the boards of one kind have of their own.
type boardKind struct {
	name     string
	url      string                           // default URL of the API
	settings func(b *Board) []setting.Setting // beside the settings of all boards
	place    func(b *Board) string            // names what the board shows, without the URL
}

func boardKinds() []boardKind {
	return []boardKind{
		{BoardGitHub, gitHubAPI, (*Board).gitHub, func(b *Board) string { return b.Repository }},
		{BoardLinear, "https://api.linear.app", (*Board).linear, (*Board).linearPlace},
	}
}

func boardKindNames() (names []string) {
	for _, k := range boardKinds() {
		names = append(names, k.name)
	}
	return names
}

// of returns the kind of a board.
func (b *Board) of() boardKind {
	all := boardKinds()
	return all[slices.IndexFunc(all, func(k boardKind) bool { return k.name == b.Kind })]
}

// Place names what the board shows, such as "ann/roof".
func (b *Board) Place() string { return b.of().place(b) }

func newBoard(kind string) *Board {
	b := &Board{Kind: kind, MaxClaims: 1, Interval: 30 * time.Second, Token: &setting.Secret{}, Webhook: &setting.Secret{},
		Marks: "mailroom-", WritePause: time.Second}
	b.URL = b.of().url
	return b
}

// gitHub returns the settings of a board of GitHub.
func (b *Board) gitHub() []setting.Setting {
	return []setting.Setting{
		setting.New("repository", "Repository, as owner/name.",
			setting.Checked(&b.Repository, `a repository such as "ann/roof"`, isRepository)).
			Require(`missing repository; set one such as repository = "ann/roof"`),
		setting.New("marks", "Beginning of the labels that show claims: working, done and blocked.",
			setting.Checked(&b.Marks, `up to 30 letters, digits and "._-", such as "mailroom-"`, isMarks)),
		setting.New("write_pause", "Least pause between two writes; GitHub asks for a second.",
			setting.Duration(&b.WritePause, 0, time.Minute)),
	}
}

// linear returns the settings of a board of Linear.
func (b *Board) linear() []setting.Setting {
	return []setting.Setting{
		setting.New("project", "Project: the end of its address, with or without the name before the id.",
			setting.Checked(&b.Project, `the end of the address of a project, such as "roof-1a2b3c4d5e6f"`, isLinearName)),
		setting.New("team", "Key of a team, for all its issues or for those of the project that it has.",
			setting.Checked(&b.Team, `the key of a team, such as "ENG"`, isLinearName)),
		setting.New("active", "States in which an issue may start; empty is all of the type unstarted.",
			setting.Each(&b.Active, "a state", func(s string) bool { return s != "" })),
		setting.New("done", "State of a finished issue that a person closes; empty leaves it where it is.",
			setting.Text(&b.Done)),
	}
}

func (b *Board) linearPlace() string {
	if b.Project != "" && b.Team != "" {
		return b.Project + " of " + b.Team
	}
	return b.Project + b.Team
}

// shows is Place with the id of the project alone, for a comparison in any case of letters.
func (b *Board) shows() string {
	return b.Repository + " " + b.Project[strings.LastIndexByte(b.Project, '-')+1:] + " " + b.Team
}

func isLinearName(s string) bool { return s == "" || setting.ValidName(s) }

func (b *Board) settings() []setting.Setting {
	all := []setting.Setting{
		setting.New("kind", "Kind of the board.", setting.OneOf(&b.Kind, b.Kind)),
		setting.New("agent", "Default agent of the issues.", setting.AgentName(&b.Agent)).
			Require(`missing agent; set one such as agent = "codex"`),
		setting.New("agents", "Other agents, which an issue selects with the label agent:NAME.",
			setting.Each(&b.Agents, "an agent name", setting.ValidName)),
		setting.New("labels", "Labels that an issue must have, all of them: strangers may open issues, but not label them.",
			setting.Each(&b.Labels, `a label of up to 50 characters without a comma, such as "agent"`, isBoardLabel)).
			Require(`missing labels; set some such as labels = ["agent"], because strangers may open issues`),
	}
	all = append(all, b.Token.Settings("token", "the token of the account that comments",
		"missing token; set either token_env or token_file (the configuration never contains the token itself)")...)
	all = append(all, b.of().settings(b)...)
	all = append(all, b.Webhook.Settings("webhook", "the secret of the board's webhook, which only starts a poll", "")...)
	return append(all,
		setting.New("max_claimed",
			"Maximum number of issues in progress; by default 4 if all agents work in worktrees, else 1.",
			setting.Int(&b.MaxClaims, 1, 500)),
		setting.New("when_done",
			"What to do with an issue whose run completed: close it, or comment (a person closes it).",
			setting.Either(&b.KeepOpen, "close", "comment")),
		setting.New("workflow", "WORKFLOW.md whose template makes the prompts; empty shows the issues to agents as they are.",
			setting.Text(&b.Workflow)),
		setting.New("interval", "Interval of polling the board.",
			setting.Duration(&b.Interval, 10*time.Millisecond, time.Hour)),
		setting.New("url",
			"Base URL of the API, https://api.linear.app for Linear; a GitHub Enterprise Server has https://HOST/api/v3.",
			setting.BaseURL(&b.URL)),
	)
}

// isRepository reports whether a text is owner/name, as GitHub allows it.
func isRepository(s string) bool {
	owner, name, ok := strings.Cut(s, "/")
	return ok && isGitHubName(owner) && isGitHubName(name)
}

func isGitHubName(s string) bool {
	const most = 100
	return s != "" && s != "." && s != ".." && len(s) <= most && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r))
	})
}

func isMarks(s string) bool {
	const most = 30
	return len(s) <= most && isGitHubName(s)
}

// isBoardLabel reports whether a text is a label. GitHub separates labels with commas in a query.
func isBoardLabel(s string) bool {
	const most = 50
	return s != "" && strings.TrimSpace(s) == s && len([]rune(s)) <= most && !strings.Contains(s, ",")
}

// BoardNames returns the sorted names of the boards.
func (c *Config) BoardNames() []string { return sorted(c.Boards) }

// boards reads the tables of boards, after the tables of channels, whose names are taken.
func (r *reader) boards(tables map[string]any) {
	for _, name := range sorted(tables) {
		key := "boards." + name
		switch {
		case !r.named(key, name, tables[name], "board"):
		case reserved.Prefix(name+":") != "":
			r.report(key, fmt.Sprintf("the name %q is reserved, because ids of threads begin with it: use another name", name))
		case r.config.Channels[name] != nil:
			r.report(key, "a channel has this name too; choose another name for one of them")
		default:
			r.board(key, name, tables[name].(map[string]any))
		}
	}
}

// board reads the table of one board. It reads the kind first, because the kind decides which other keys exist.
func (r *reader) board(key, name string, table map[string]any) {
	var kind string
	if table["kind"] == nil {
		r.report(key, "missing kind; use one of "+strings.Join(boardKindNames(), ", "))
		return
	}
	if err := setting.OneOf(&kind, boardKindNames()...).Set(table["kind"]); err != nil {
		r.report(key+".kind", err.Error())
		return
	}
	b, before := newBoard(kind), len(r.problems)
	r.table(key+".", table, b.settings())
	if len(r.problems) > before {
		return
	}
	if err := setting.CheckRequired(b.settings()); err != nil {
		r.report(key, err.Error())
		return
	}
	if b.Webhook.Ambiguous() {
		r.report(key, "two secrets of the webhook; set either webhook_env or webhook_file")
		return
	}
	if b.Kind == BoardLinear && b.Project == "" && b.Team == "" {
		r.report(key, `missing project or team; set one such as team = "ENG"`)
		return
	}
	for _, other := range r.config.BoardNames() {
		if o := r.config.Boards[other]; o.Kind == b.Kind && o.URL == b.URL && strings.EqualFold(o.shows(), b.shows()) {
			r.report(key, fmt.Sprintf("board %s shows %s too, and both would do its issues; use one board, "+
				"whose issues select other agents with labels agent:NAME", other, b.Place()))
			return
		}
	}
	b.Agents = slices.DeleteFunc(b.Agents, func(s string) bool { return s == b.Agent })
	r.config.Boards[name] = b
}
