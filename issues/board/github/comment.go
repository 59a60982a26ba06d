package github

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"mailroom/channel/httpcall"
	"mailroom/issues/board"
)

const (
	// markerPrefix begins the last line of a comment, which GitHub does not show.
	markerPrefix = "<!-- mailroom:"
	// maxLookup bounds the pages of comments that are searched for a key.
	maxLookup = 20
	// clockSkew is how far the clock of this server may be ahead of GitHub's.
	clockSkew = 10 * time.Minute
)

func marker(key string) string { return markerPrefix + key + " -->" }

// Comment implements [board.Board]. A text that contains a key of a comment, such as a quoted comment, loses it,
// because only the last line may have one; its length stays the same.
func (b *Board) Comment(ctx context.Context, c board.Comment) error {
	text := strings.ReplaceAll(c.Text, markerPrefix, "<!-- mailroom.")
	const op = "write a comment"
	r, err := b.write(ctx, op, http.MethodPost, b.repoPath("/issues/%s/comments", c.Issue),
		map[string]string{"body": text + "\n\n" + marker(c.Key)})
	if err != nil {
		return err
	}
	var written struct {
		ID int64 `json:"id"`
	}
	if json.Unmarshal(r.Body, &written) != nil || written.ID <= 0 { // something else may have answered
		return httpcall.SendError(b.http.NotAPI(op, r, true), classOf)
	}
	return nil
}

// FindComment implements [board.Board]. It reads the comments of the account since the first attempt. The search of
// GitHub is not used, because its index is late.
func (b *Board) FindComment(ctx context.Context, c board.Comment) (bool, error) {
	me, err := b.Account(ctx)
	if err != nil {
		return false, err
	}
	q := url.Values{"since": {c.Since.Add(-clockSkew).UTC().Format(time.RFC3339)}, "per_page": {strconv.Itoa(pageSize)}}
	for page := 1; page <= maxLookup; page++ {
		q.Set("page", strconv.Itoa(page))
		rows, more, err := b.comments(ctx, b.repoPath("/issues/%s/comments?%s", c.Issue, q.Encode()))
		if err != nil {
			return false, err
		}
		for _, r := range rows {
			if (me == "" || r.User != nil && strings.EqualFold(r.User.Login, me)) &&
				strings.HasSuffix(strings.TrimSpace(r.Body), marker(c.Key)) {
				return true, nil
			}
		}
		if !more {
			return false, nil
		}
	}
	return false, httpcall.Unavailable(fmt.Errorf("issue %s has more than %d comments since the comment was tried",
		c.Issue, maxLookup*pageSize))
}

// commentRow is a comment.
// https://docs.github.com/en/rest/issues/comments#list-issue-comments
type commentRow struct {
	Body string   `json:"body"`
	User *account `json:"user"`
}

func (b *Board) comments(ctx context.Context, path string) (rows []commentRow, more bool, err error) {
	const op = "look up a comment"
	r, err := b.call(ctx, op, http.MethodGet, path, nil, "")
	if err != nil {
		return nil, false, err
	}
	if err := json.Unmarshal(r.Body, &rows); err != nil {
		return nil, false, httpcall.Unavailable(b.http.NotAPI(op, r, false))
	}
	return rows, hasNext(r.Header), nil
}
