package check

import (
	"net/url"
	"strings"

	"mailroom/internal/lazyregexp"
)

// FileScheme begins the URI of a file that every server on a database can read. After it stands the file's name in
// the folder of attachments.
const FileScheme = "mailroom-file:"

// stored matches the end of the path of an attachment: the folder files, two digits of the hash of the
// content, and the hash with an extension.
var stored = lazyregexp.New(`/files/([0-9a-f]{2})/([0-9a-f]{64})(?:\.[a-z0-9]{1,8})?$`)

// IsServerFile reports whether a URI is the address of a file that a server stored for the thread whose chat received
// it. Only the channel that stored such a file may name it in a message. A program may read the files that messages
// of its thread name, so otherwise a user who knows the name of another thread's file could make a program read it.
// The end of the path alone decides, because a program may see the data folder under another path.
func IsServerFile(uri string) bool {
	if len(uri) >= len(FileScheme) && strings.EqualFold(uri[:len(FileScheme)], FileScheme) {
		return true
	}
	path := uri
	if u, err := url.Parse(uri); err == nil && u.Scheme == "file" {
		path = u.Path
	}
	m := stored().FindStringSubmatch(path)
	return m != nil && strings.HasPrefix(m[2], m[1])
}
