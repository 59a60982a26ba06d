package client

import (
	"context"
	"iter"
	"strconv"

	"mailroom"
	"mailroom/api"
)

// Each yields the items of all pages of a list, such as c.Runs. The server bounds a
// page in rows and bytes, so one page is rarely the whole answer. Each stops at the
// first error.
func Each[T any](ctx context.Context, list func(context.Context, ListQuery) (api.Page[T], error),
	q ListQuery) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for {
			page, err := list(ctx, q)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range page.Items {
				if !yield(item, nil) {
					return
				}
			}
			if page.Next == nil {
				return
			}
			q.Cursor = *page.Next
		}
	}
}

// Collect returns the items that Each yields.
func Collect[T any](ctx context.Context, list func(context.Context, ListQuery) (api.Page[T], error),
	q ListQuery) (all []T, err error) {
	for item, err := range Each(ctx, list, q) {
		if err != nil {
			return nil, err
		}
		all = append(all, item)
	}
	return all, nil
}

// EachEntry yields the entries that q selects after q.After, in order of seq, from all
// pages. It stops at the first error.
func (c *Client) EachEntry(ctx context.Context, thread string, q EntriesQuery) iter.Seq2[mailroom.Entry, error] {
	return func(yield func(mailroom.Entry, error) bool) {
		for {
			page, err := c.Entries(ctx, thread, q)
			if err != nil {
				yield(mailroom.Entry{}, err)
				return
			}
			for _, e := range page.Items {
				if !yield(e, nil) {
					return
				}
			}
			if page.Next == nil {
				return
			}
			if q.After, err = strconv.ParseInt(*page.Next, 10, 64); err != nil {
				yield(mailroom.Entry{}, mailroom.Errorf(mailroom.CodeInternal, "the next of a page of entries is not a seq: %w",
					err))
				return
			}
		}
	}
}
