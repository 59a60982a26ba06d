package bell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/google/uuid"

	"mailroom/internal/retry"
)

// Claude is the inbox socket of a session of Claude Code, since its version 2.1.224. Claude Code starts hooks and MCP
// servers with its address in their environment. A notice starts a turn of an idle session; a busy one gets it between
// two tool calls. The socket answers nothing. A session that bypasses permissions holds notices without a sign, unless
// its setting crossSessionInbound is accept.
//
// The page "Cross-session messaging" of Claude Code's manual describes the socket and the line with the token.
type Claude struct {
	Socket  string // path
	Token   string // "": none
	Session string // id of the session when it started this process
}

// ClaudeFrom returns the session that started this process, by its environment. It returns false if no session of a
// version with a socket did.
func ClaudeFrom(env func(string) string) (*Claude, bool) {
	c := &Claude{Socket: env("CLAUDE_CODE_MESSAGING_SOCKET"), Token: env("CLAUDE_CODE_MESSAGING_TOKEN"),
		Session: env("CLAUDE_CODE_SESSION_ID")}
	return c, c.Socket != "" && c.Session != ""
}

// Policy returns the pauses after rings.
func (c *Claude) Policy() retry.Policy { return unanswered() }

// claudeTimeout bounds the exchange with a socket.
const claudeTimeout = 5 * time.Second

// Ring writes the text to the socket.
func (c *Claude) Ring(ctx context.Context, text string) error {
	lines, err := c.lines(text)
	if err != nil {
		return err
	}
	if err := checkSocket(c.Socket); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, claudeTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", c.Socket)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, os.ErrNotExist): // the process was killed
		return fmt.Errorf("%w: nothing listens on %s", ErrGone, c.Socket)
	case err != nil:
		return fmt.Errorf("ring claude: %w", err)
	}
	return errors.Join(c.write(ctx, conn.(*net.UnixConn), lines), conn.Close())
}

// write checks who listens, writes the lines, and waits until that process has closed the connection or answered.
func (c *Claude) write(ctx context.Context, conn *net.UnixConn, lines []byte) error {
	if err := checkPeer(conn); err != nil {
		return err
	}
	end, _ := ctx.Deadline()
	if err := conn.SetDeadline(end); err != nil {
		return fmt.Errorf("ring claude: %w", err)
	}
	if _, err := conn.Write(lines); err != nil {
		return fmt.Errorf("ring claude: %w", err)
	}
	if err := conn.CloseWrite(); err != nil {
		return fmt.Errorf("ring claude: %w", err)
	}
	// The end of the connection says that all was read. What is answered has no meaning, and is bounded.
	if err := conn.SetReadDeadline(time.Now().Add(claudeTimeout / 5)); err != nil {
		return fmt.Errorf("ring claude: %w", err)
	}
	if _, err := io.CopyN(io.Discard, conn, 4<<10); err != nil && !errors.Is(err, io.EOF) &&
		!errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, syscall.ECONNRESET) {
		return fmt.Errorf("ring claude: %w", err)
	}
	return nil
}

// lines returns what is written: the token, and the notice as a message that a peer sends. It names no session: the
// socket is of one process, whose session has another id after /clear, and drops messages with the former one.
func (c *Claude) lines(text string) ([]byte, error) {
	type content struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	var all []byte
	add := func(line any) error {
		one, err := json.Marshal(line)
		all = append(append(all, one...), '\n')
		return err
	}
	if c.Token != "" {
		if err := add(struct {
			Type  string `json:"type"`
			Token string `json:"token"`
		}{"auth", c.Token}); err != nil {
			return nil, err
		}
	}
	return all, add(struct {
		Type     string  `json:"type"`
		Version  int     `json:"msgV"`
		ID       string  `json:"msg_id"`
		Priority string  `json:"priority"`
		Message  content `json:"message"`
	}{"user", 1, uuid.NewString(), "next", content{"user", text}})
}

// checkSocket returns an error with [ErrGone] unless path is a socket of this user in a folder that only this user
// changes. In another folder, another user could put a socket in the place of the session's.
func checkSocket(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%w: the path of its socket, %q, is not absolute", ErrGone, path)
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%w: its socket %s does not exist", ErrGone, path)
	case err != nil:
		return fmt.Errorf("ring claude: %w", err)
	case info.Mode().Type() != os.ModeSocket:
		return fmt.Errorf("%w: %s is not a socket", ErrGone, path)
	case !isOwn(info):
		return fmt.Errorf("%w: %s belongs to another user", ErrGone, path)
	}
	folder, err := os.Lstat(filepath.Dir(path))
	switch {
	case err != nil:
		return fmt.Errorf("ring claude: %w", err)
	case !folder.IsDir() || !isOwn(folder) || folder.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%w: other users can change the folder of its socket, %s", ErrGone, filepath.Dir(path))
	}
	return nil
}
