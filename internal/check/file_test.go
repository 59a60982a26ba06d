package check

import (
	"net/url"
	"strings"
	"testing"
)

func TestAddressesOfServerFilesAreRecognized(t *testing.T) {
	hash := "cb" + strings.Repeat("f6", 31)
	for uri, want := range map[string]bool{
		FileScheme + hash + ".txt":                  true,
		"MAILROOM-FILE:" + hash:                     true,
		"file:///var/lib/mailroom/files/cb/" + hash: true,
		"FILE:///d/files/cb/" + hash + ".txt":       true,
		"file:///d/files/%63b/" + hash + ".txt":     true,
		"file:///d/files/cb/" + hash + ".txt?x=1#y": true,
		"/d/files/cb/" + hash + ".txt":              true,
		"file:///d/files/ab/" + hash + ".txt":       false, // no server stores it there
		"file:///home/ann/files/notes.txt":          false,
		"https://example.org/files/ab/" + hash[:60]: false,
		"": false,
		"file:///home/ann/files/cb/" + hash + ".tar.gz":  false,
		"telegram:file/" + url.PathEscape("cb/"+hash):    false,
		"file:///d/files/cb/" + strings.ToUpper(hash):    false,
		"file://D/files/cb/" + hash + ".txt":             true,
		"mxc://example.org/" + strings.Repeat("a", 64):   false,
		"file:///d/files/cb/" + hash + "/../" + hash:     false,
		"file:///d/files/cb/" + hash + ".txt%00":         false,
		"file:///d/files/cb/" + hash + ".toolongending1": false,
	} {
		if got := IsServerFile(uri); got != want {
			t.Errorf("%q: %t, want %t", uri, got, want)
		}
	}
}
