package config

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"mailroom/channel/kind"
	"mailroom/internal/setting"
)

var update = flag.Bool("update", false, "write the tables of the manual")

const (
	manual         = "../../docs/channels.md"
	settingsHeader = "| setting | default | meaning |"
)

func TestTheTablesOfTheManualFollowTheKinds(t *testing.T) {
	connections := manualTable{"| kind | connection | a reply after a crash |"}
	features := manualTable{"| kind | shows text while the agent writes | buttons | typing | commands begin with |"}
	for _, k := range channelKinds() {
		if !k.Chat {
			continue
		}
		connections.add(fmt.Sprintf("[`%s`](channels/%s.md)", k.Name, k.Name), k.Connection, k.AfterCrash)
		features.add("`"+k.Name+"`", edits(k), yes(k.Capabilities.Buttons), yes(k.Capabilities.Typing), prefix(k))
		settings := settingsTable(k.New().Keys)
		check(t, "../../docs/channels/"+k.Name+".md", settings)
	}
	chat := kind.NewChat()
	check(t, manual, connections, features, settingsTable(kind.Chat(&chat)))
}

func TestTheTablesOfTheManualFollowTheTargets(t *testing.T) {
	const file = "../../docs/notifications.md"
	kinds := manualTable{"| kind | after a crash in the middle of a send | what leaves the machine |"}
	all := []manualTable{}
	for _, k := range targetKinds() {
		kinds.add("[`"+k.Name+"`](#"+k.Name+")", k.AfterCrash, k.Leaves)
		settings := settingsTable(k.New().Keys)
		settings[0] = "| setting of " + k.Name + " | default | meaning |"
		all = append(all, settings)
	}
	check(t, file, append(all, kinds)...)
}

// manualTable is the lines of a table, the header first.
type manualTable []string

func (l *manualTable) add(cells ...string) {
	if len(*l) == 1 {
		*l = append(*l, "|"+strings.Repeat(" --- |", len(cells)))
	}
	line := "|"
	for _, c := range cells {
		line += " " + strings.TrimSuffix(c, ".") + " |"
	}
	*l = append(*l, strings.ReplaceAll(line, "|  |", "| |"))
}

func settingsTable(settings []setting.Setting) manualTable {
	out := manualTable{settingsHeader}
	for i := 0; i < len(settings); i++ {
		s := settings[i]
		names, doc, standard := "`"+s.Key+"`", s.Doc, value(s)
		if s.Secret != nil { // the next one is its file
			i++
			names, doc = names+", `"+settings[i].Key+"`", doc+" "+settings[i].Doc
		}
		switch {
		case s.Missing != "" && s.Secret != nil:
			standard = "one is required"
		case s.Missing != "":
			standard = "required"
		}
		out.add(names, standard, doc)
	}
	return out
}

// value returns the default of a setting, as a code span unless it is empty.
func value(s setting.Setting) string {
	v := s.Value.Get()
	text, isText := v.(string)
	if !isText {
		text = setting.TOML(v)
	}
	if text == "" || text == "[]" {
		return ""
	}
	return "`" + text + "`"
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// edits says whether messages can be edited, on some platforms only if a setting says so.
func edits(k kind.Kind) string {
	if slices.ContainsFunc(k.New().Keys, func(s setting.Setting) bool { return s.Key == "edits" }) {
		return "with `edits = true`"
	}
	return yes(k.Capabilities.Edits)
}

func prefix(k kind.Kind) string {
	if k.Capabilities.CommandPrefix == "!" {
		return "`!`"
	}
	return "`/` or `!`"
}

// check compares the tables of a file, or writes them.
func check(t *testing.T, file string, tables ...manualTable) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before := string(raw)
	after := before
	for _, want := range tables {
		begin := strings.Index(after, want[0]+"\n")
		if begin < 0 {
			t.Errorf("%s has no table %s", file, want[0])
			continue
		}
		end := begin
		for line := range strings.Lines(after[begin:]) {
			if !strings.HasPrefix(line, "|") {
				break
			}
			end += len(line)
		}
		after = after[:begin] + strings.Join(want, "\n") + "\n" + after[end:]
	}
	switch {
	case after == before:
	case *update:
		if err := os.WriteFile(file, []byte(after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s differs from the kinds; run go test ./app/config -update", file)
	}
}
