package server

import (
	"context"
	"encoding/base64"
	"strconv"
	"strings"

	"mailroom"
	"mailroom/client"
)

// ListParams are the parameters of every list.
type ListParams struct {
	Q      string `query:"q" doc:"Filter: terms such as status:failed, all of which must hold; - negates, * matches, quotes group. Errors are found by any part (error:\"rate limit\"), times by a day or an RFC 3339 time (created:2026-11-01), a comparison (created:>2026-11-01) or a range (created:2026-11-01..2026-11-07). Runs: status, agent, thread, parent, class, reason, error, key, mode, via, created, finished, metadata.K. Threads: id, agent, owner, status, updated. Tickets: state, kind, thread, run."`
	Cursor string `query:"cursor" doc:"The next of the page before."`
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50"`
}

const (
	// scanPage is how many rows are read in one view.
	scanPage = 500
	// scanMost bounds the rows that one request looks at. A page that ends
	// there is short and has a next.
	scanMost = 50_000
)

// list reads rows R, newest first, and shows them as W.
type list[R, W any] struct {
	name string // goes into cursors, so that one of another list is not taken
	key  func(R) int64
	// thread returns the id of the thread that a row belongs to.
	thread func(R) string
	// fetch returns rows below the key from, all if it is 0.
	fetch func(rd mailroom.Reader, from int64, limit int) ([]R, error)
	// match, unless nil, says which rows belong to the list.
	match func(rd mailroom.Reader, row R) (bool, error)
	show  func(rd mailroom.Reader, rows []R) ([]W, error)
}

// page reads until it has limit rows and knows whether another one follows.
func (l list[R, W]) page(ctx context.Context, s *Server, p ListParams) (*body[client.Page[W]], error) {
	from, err := l.parse(p.Cursor)
	if err != nil {
		return nil, err
	}
	out := client.Page[W]{Items: []W{}}
	for scanned := 0; ; {
		part, err := l.scan(ctx, s, from, p.Limit-len(out.Items))
		if err != nil {
			return nil, err
		}
		out.Items = append(out.Items, part.shown...)
		scanned += part.scanned
		from = part.last
		full := part.more || scanned >= scanMost
		if full && !part.end {
			c := l.cursor(from)
			out.Next = &c
		}
		if full || part.end {
			return &body[client.Page[W]]{out}, nil
		}
	}
}

// part is what one view gave.
type part[W any] struct {
	shown   []W
	scanned int
	last    int64 // key of the last row that was looked at and taken or left out
	more    bool  // a row that matches follows last
	end     bool  // no row follows last
}

// scan looks at one page of rows and shows at most want of those that match.
func (l list[R, W]) scan(ctx context.Context, s *Server, from int64, want int) (part[W], error) {
	out := part[W]{last: from}
	who := requestOf(ctx).who
	size := scanPage
	if l.match == nil && who.Has(mailroom.MayAdmin) { // who sees nearly all
		size = want + 1
	}
	err := s.options.Ledger.View(ctx, func(rd mailroom.Reader) error {
		rows, err := l.fetch(rd, from, size)
		if err != nil {
			return err
		}
		out.end, out.scanned = len(rows) < size, len(rows)
		visible, err := l.visible(rd, who, rows)
		if err != nil {
			return err
		}
		var taken []R
		for _, row := range rows {
			good := visible[l.thread(row)]
			if good && l.match != nil {
				if good, err = l.match(rd, row); err != nil {
					return err
				}
			}
			if good && len(taken) == want {
				out.more, out.end = true, false
				break
			}
			if good {
				taken = append(taken, row)
			}
			out.last = l.key(row)
		}
		out.shown, err = l.show(rd, taken)
		return err
	})
	return out, err
}

// visible tells of which threads of a page's rows who may know.
func (l list[R, W]) visible(rd mailroom.Reader, who *mailroom.Token, rows []R) (map[string]bool, error) {
	var threads []string
	for _, row := range rows {
		threads = append(threads, l.thread(row))
	}
	return seen(rd, who, threads)
}

func (l list[R, W]) cursor(key int64) string {
	return base64.RawURLEncoding.EncodeToString([]byte(l.name + ":" + strconv.FormatInt(key, 10)))
}

func (l list[R, W]) parse(cursor string) (int64, error) {
	if cursor == "" {
		return 0, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	digits, ok := strings.CutPrefix(string(raw), l.name+":")
	key, numErr := strconv.ParseInt(digits, 10, 64)
	if err != nil || !ok || numErr != nil || key <= 0 {
		return 0, wrong("query.cursor", "is not the next of a page of this list", cursor)
	}
	return key, nil
}
