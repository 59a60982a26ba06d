package program

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mailroom/internal/version"
)

// KindACP is the kind of agents that speak the Agent Client Protocol.
const KindACP = "acp"

// acpMaxLine bounds a line of an agent, in bytes. An agent may send a large file in one line.
const acpMaxLine = 16 << 20

// knownACP is an agent that is offered without configuration if its command is installed.
type knownACP struct {
	command  []string
	modes    []string // modes in which the agent asks the client, the strictest first
	all      []string // modes for ModeAll; the client allows what the agent asks. None: the agent's own
	envAllow []string
}

func knownACPs() []knownACP {
	return []knownACP{
		{[]string{"claude-agent-acp"}, []string{"default"}, []string{"default"},
			append(claude().EnvAllow, "CLAUDE_CODE_EXECUTABLE")},
		{[]string{"codex-acp"}, []string{"read-only", "workspace-write"}, []string{"agent-full-access"},
			append(codex().EnvAllow, "CODEX_PATH")},
		{[]string{"gemini", "--acp"}, []string{"default"}, []string{"default"}, append(network(),
			"GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GEMINI_CLI_HOME", "GOOGLE_CLOUD_PROJECT",
			"GOOGLE_CLOUD_LOCATION", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_APPLICATION_CREDENTIALS")},
		{[]string{"opencode", "acp"}, nil, nil, append(network(),
			"OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR", "OPENCODE_CONFIG_CONTENT", "OPENCODE_PERMISSION",
			"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY")},
	}
}

// ACPCommands returns the commands of agents that are offered without configuration if they are installed, by the
// names of the agents.
func ACPCommands() map[string][]string {
	all := map[string][]string{}
	for _, k := range knownACPs() {
		all[filepath.Base(k.command[0])] = k.command
	}
	return all
}

// NewACP returns the profile of an agent that speaks the Agent Client Protocol. command starts it, without a shell.
// mode is the mode of the agent that is set in each session, "" to choose one in which it asks the client.
func NewACP(command []string, mode string) *Profile {
	name := acpName(command)
	known := knownACP{modes: []string{"default", "ask", "read-only", "workspace-write"}, envAllow: network()}
	for _, k := range knownACPs() {
		if k.command[0] == name {
			known = k
		}
	}
	if mode != "" {
		known.modes, known.all = []string{mode}, []string{mode}
	}
	connect := func(t Turn, prompt Prompt) Dialogue {
		modes := known.modes
		if t.Mode == ModeAll {
			modes = known.all
		}
		return newACPDialogue(modes, mode != "", t, prompt)
	}
	p := &Profile{
		Name: name, Modes: []Mode{ModeAsk, ModeAll}, EnvAllow: known.envAllow,
		// Without this variable, "@/a/file" in a message sends that file to claude's model.
		Env:         []string{"CLAUDE_CODE_DISABLE_FILE_MENTIONS=1"},
		Args:        func(t Turn) []string { return append(slices.Clone(command[1:]), t.Args...) },
		Connect:     connect,
		SessionGone: []string{acpSessionGone},
		Hello:       acpHello(),
		HelloAnswer: acpAgentVersion,
	}
	if len(command) > 0 {
		p.Program = command[0]
	}
	return p
}

// acpName returns a name for the agent of a command: of its program, or of the package that a launcher starts.
func acpName(command []string) string {
	if len(command) == 0 {
		return KindACP
	}
	name := filepath.Base(command[0])
	if slices.Contains([]string{"npx", "bunx", "uvx", "node", "env"}, name) {
		for _, arg := range command[1:] {
			if !strings.HasPrefix(arg, "-") {
				name = strings.TrimSuffix(filepath.Base(arg), ".js")
				break
			}
		}
	}
	return name
}

// acpHello returns the request that begins each connection.
func acpHello() string {
	return acpRequestLine(1, acpInitialize, acpInitializeRequest{ProtocolVersion: acpVersion,
		ClientInfo: acpImplementation{Name: "mailroom", Title: "Mailroom", Version: version.Read().Version}})
}

// acpAgentVersion returns the name and version of an agent from its answer to acpHello. ok is false for another line.
func acpAgentVersion(line []byte) (text string, ok bool) {
	var m acpMessage
	if decodeLine(line, &m) != nil || string(m.ID) != "1" || m.Method != "" {
		return "", false
	}
	var r acpInitializeResponse
	_ = json.Unmarshal(m.Result, &r) // a version that cannot be read is shown as unknown
	if r.AgentInfo == nil {
		return "ACP " + strconv.Itoa(r.ProtocolVersion), true
	}
	return strings.TrimSpace(r.AgentInfo.Name + " " + r.AgentInfo.Version), true
}

func acpRequestLine(id int, method string, params any) string {
	return acpLine(acpMessage{ID: json.RawMessage(strconv.Itoa(id)), Method: method, Params: acpJSON(params)})
}

func acpLine(m acpMessage) string {
	m.JSONRPC = "2.0"
	return line(m)
}

func acpJSON(v any) json.RawMessage {
	b, err := compact(v)
	if err != nil {
		return json.RawMessage("{}") // cannot fail: strings and parsed JSON
	}
	return b
}
