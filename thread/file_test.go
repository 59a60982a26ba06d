package thread

import (
	"strings"
	"testing"

	"mailroom"
)

// A program may read the files that messages of its thread name, so the name of a file of another thread must
// not get into a message.
func TestOnlyAChannelAttachesFilesOfTheServer(t *testing.T) {
	hash := "cb" + strings.Repeat("f6", 31)
	for _, uri := range []string{"mailroom-file:" + hash + ".txt", "file:///var/lib/mailroom/files/cb/" + hash + ".txt"} {
		theirs := []mailroom.Part{{Type: "text", Text: "look"}, {Type: "file", Name: "a.txt", URI: uri}}
		for via, refused := range map[string]bool{"user": true, "run": true, "mcp": true, "channel:tg": false} {
			in := Submit{Thread: "t", Messages: []NewMessage{{Parts: theirs}}, Origin: mailroom.Origin{Via: via}}
			err := in.Check()
			if got := mailroom.CodeOf(err) == mailroom.CodeInvalid &&
				strings.Contains(err.Error(), "parts[1].uri"); got != refused {
				t.Errorf("%s attaches %s: %v", via, uri, err)
			}
		}
		if err := CheckFiles("", theirs, theirs); err != nil {
			t.Errorf("an edit that keeps the file: %v", err)
		}
		if err := CheckFiles("", theirs, mailroom.Text("none")); err == nil {
			t.Error("an edit adds a file of another message")
		}
	}
	own := Submit{Thread: "t",
		Messages: []NewMessage{{Parts: []mailroom.Part{{Type: "file", URI: "file:///home/ann/notes.txt"}}}}}
	if err := own.Check(); err != nil {
		t.Errorf("a file of the machine: %v", err)
	}
}
