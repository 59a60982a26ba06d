package bell

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// maxClaudeRecord bounds a record that is read, in bytes.
const maxClaudeRecord = 64 << 10

// Record returns the path of the file in which the session says what it does: sessions/PID.json in the folder of
// claude's settings.
func (c *Claude) Record(env func(string) string) string {
	base := env("CLAUDE_CONFIG_DIR")
	if base == "" {
		base = filepath.Join(env("HOME"), ".claude")
	}
	pid, found := strings.CutSuffix(filepath.Base(c.Socket), ".sock")
	if !found || !filepath.IsAbs(base) {
		return ""
	}
	return filepath.Join(base, "sessions", pid+".json")
}

// ClaudeWaits returns what the session with this record waits for, such as "permission prompt", or "". The version
// 2.1.332 writes it while a question to its user is open.
func ClaudeWaits(record, session string) string {
	f, err := os.Open(record)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // nothing was written
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || !isOwn(info) {
		return ""
	}
	var r struct {
		Session string `json:"sessionId"`
		Status  string `json:"status"`
		Waits   string `json:"waitingFor"`
	}
	text, err := io.ReadAll(io.LimitReader(f, maxClaudeRecord))
	if err != nil || json.Unmarshal(text, &r) != nil || r.Session != session || r.Status != "waiting" {
		return ""
	}
	if r.Waits == "" {
		return "a question"
	}
	return r.Waits
}
