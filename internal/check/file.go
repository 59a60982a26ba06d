package check

import (
	"net/url"
	"strings"

	"mailroom/internal/lazyregexp"
)

// FileScheme begins the URI of a file that every server on a database can read. The name of the
// file follows in the folder of attachments.
const FileScheme = "mailroom-file:"

// stored matches the end of the path of an attachment: the folder files, two digits of the hash of the
// content, and the hash with an extension.
var stored = lazyregexp.New(`/files/([0-9a-f]{2})/([0-9a-f]{64})(?:\.[a-z0-9]{1,8})?$`)

// IsServerFile reports whether a URI is the address of a file that a server stored for the thread whose chat
// received it. Programs may read the files that messages of their thread name, so only the channel that stored
// a file may name it: otherwise a user who knows the name of a file of another thread could have it read. The
// path alone decides, because the data folder may be at another place than the one that a program sees.
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
