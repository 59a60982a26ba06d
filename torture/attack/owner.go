package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
)

// requests returns the attacks by queries.
func requests() []attack {
	search := func(name, q string) attack {
		return attack{name, func(ctx context.Context, t *target) error {
			if err := t.repeatRequest(ctx, 300, 16, t.token, http.MethodPost, "/v1/threads/s-%d/messages",
				same(`{"text":"x","metadata":{"k":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}}`)); err != nil {
				return err
			}
			return t.repeatRequest(ctx, 20, 4, t.token, http.MethodGet, "/v1/runs?limit=500&q="+q+"&cursor=", nil)
		}}
	}
	return []attack{
		search("a filter of 1,000 terms", strings.Repeat("status:failed%20", 1000)),
		search("a filter of stars", "metadata.k:"+strings.Repeat("a*", 200)+"b"),
		search("a filter without a match", "error:nothing"),
		{"200 cursors of 8 KB", func(ctx context.Context, t *target) error {
			return t.repeatRequest(ctx, 200, 8, t.token, http.MethodGet, "/v1/threads?cursor=%d"+strings.Repeat("A", 8000), nil)
		}},
		{"statistics, 100 times", func(ctx context.Context, t *target) error {
			return t.repeatRequest(ctx, 100, 8, t.token, http.MethodGet, "/v1/stats?%d", nil)
		}},
		{"a retry of everything, 50 times", func(ctx context.Context, t *target) error {
			return t.repeatRequest(ctx, 50, 8, t.token, http.MethodPost, "/v1/runs/retry",
				same(`{"q":"agent:*","dry_run":true}`))
		}},
		{"300 waits at once", func(ctx context.Context, t *target) error {
			return t.repeatRequest(ctx, 300, 300, t.token, http.MethodGet, "/v1/runs/none-%d/wait?timeout=5s", nil)
		}},
	}
}

// projects returns the attacks by reservations and notifications.
func projects() []attack {
	globs := &strings.Builder{}
	for i := range 20 {
		if i > 0 {
			globs.WriteByte(',')
		}
		fmt.Fprintf(globs, "%q", strings.Repeat("a*", 245)+fmt.Sprint("b", i))
	}
	reserve := func(ctx context.Context, t *target, ttl string) error {
		return t.repeatRequest(ctx, 99, 4, t.token, http.MethodPost, "/v1/reservations?n=%d", func(i int) string {
			names := make([]string, 100)
			for j := range names {
				names[j] = fmt.Sprintf("%q", fmt.Sprintf("src/%d/%d.go", i, j))
			}
			return `{"holder":"m","ttl":"` + ttl + `","names":[` + strings.Join(names, ",") + `]}`
		})
	}
	unknown := &strings.Builder{}
	for i := range 300_000 {
		fmt.Fprintf(unknown, `"n%d",`, i)
	}
	return []attack{
		{"globs of 500 characters", func(ctx context.Context, t *target) error {
			return t.repeatRequest(ctx, 4, 2, t.token, http.MethodPost, "/v1/reservations", func(i int) string {
				return fmt.Sprintf(`{"holder":"m%d","advisory":true,"names":[%s]}`, i, globs.String())
			})
		}},
		{"a release of 300,000 names", func(ctx context.Context, t *target) error {
			if err := reserve(ctx, t, "1h"); err != nil {
				return err
			}
			return t.repeatRequest(ctx, 1, 1, t.token, http.MethodPost, "/v1/reservations/release",
				same(`{"holder":"m","names":[`+unknown.String()+`"z"]}`))
		}},
		{"9,900 reservations that lapse at once", func(ctx context.Context, t *target) error {
			if err := reserve(ctx, t, "1s"); err != nil {
				return err
			}
			return t.repeatRequest(ctx, 50, 2, t.token, http.MethodPost, "/v1/reservations?n=%d",
				same(`{"holder":"m","names":["x"],"ttl":"1s"}`))
		}},
		{"3,000 notifications", func(ctx context.Context, t *target) error {
			err := t.repeatRequest(ctx, 3000, 32, t.token, http.MethodPost, "/v1/notifications?n=%d",
				same(`{"from":"m","event":"e","to":["y"],"data":"`+strings.Repeat("x", 8000)+`"}`))
			if err != nil {
				return err
			}
			return t.repeatRequest(ctx, 10, 4, t.token, http.MethodGet, "/v1/notifications?agent=y&limit=500&n=", nil)
		}},
	}
}

// threads returns the attacks that load the single writer.
func threads() []attack {
	tour := func(ctx context.Context, t *target) error {
		return t.repeatRequest(ctx, 1, 1, t.token, http.MethodPost, "/v1/threads/trip/messages",
			same(`{"text":"go","agent":"tour"}`))
	}
	full := func(ctx context.Context, t *target) error {
		if err := tour(ctx, t); err != nil {
			return err
		}
		return t.repeatRequest(ctx, 3000, 64, t.token, http.MethodPost, "/v1/threads/trip/messages",
			same(`{"text":"x","mode":"queue"}`))
	}
	return []attack{
		{"2,000 steers to one run", func(ctx context.Context, t *target) error {
			if err := tour(ctx, t); err != nil {
				return err
			}
			return t.repeatRequest(ctx, 2000, 32, t.token, http.MethodPost, "/v1/threads/trip/messages",
				same(`{"text":"x","mode":"steer"}`))
		}},
		{"interrupts of a full queue", func(ctx context.Context, t *target) error {
			for range 3 {
				if err := full(ctx, t); err != nil {
					return err
				}
				if err := t.repeatRequest(ctx, 1, 1, t.token, http.MethodPost, "/v1/threads/trip/interrupt",
					same(`{}`)); err != nil {
					return err
				}
			}
			return nil
		}},
		{"the latest over a full queue", func(ctx context.Context, t *target) error {
			if err := full(ctx, t); err != nil {
				return err
			}
			return t.repeatRequest(ctx, 20, 2, t.token, http.MethodPost, "/v1/threads/trip/messages",
				same(`{"text":"x","mode":"latest"}`))
		}},
		{"messages that join, 2,000 times", func(ctx context.Context, t *target) error {
			if err := full(ctx, t); err != nil {
				return err
			}
			return t.repeatRequest(ctx, 2000, 32, t.token, http.MethodPost, "/v1/threads/trip/messages",
				same(`{"text":"x","mode":"collect"}`))
		}},
		{"70 runs of 1 MB", func(ctx context.Context, t *target) error {
			return t.repeatRequest(ctx, 70, 8, t.token, http.MethodPost, "/v1/threads/big-%d/messages",
				same(`{"text":"`+strings.Repeat("word ", 200_000)+`"}`))
		}},
		{"5,000 threads", func(ctx context.Context, t *target) error {
			return t.repeatRequest(ctx, 5000, 64, t.token, http.MethodPost, "/v1/threads/many-%d/messages", same(`{"text":"x"}`))
		}},
		{"2,000 changes of a thread's labels", func(ctx context.Context, t *target) error {
			if err := tour(ctx, t); err != nil {
				return err
			}
			return t.repeatRequest(ctx, 2000, 32, t.token, http.MethodPatch, "/v1/threads/trip",
				same(`{"metadata":{"k":"`+strings.Repeat("x", 15_000)+`"}}`))
		}},
		{"500 workers", func(ctx context.Context, t *target) error {
			return t.repeatRequest(ctx, 500, 32, t.token, http.MethodPost, "/v1/claims?n=%d",
				same(`{"agents":["far"],"round":1,"wait":"1s","host":"h"}`))
		}},
	}
}
