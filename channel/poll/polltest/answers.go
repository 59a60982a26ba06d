package polltest

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"mailroom/channel/platformtest"
)

// handler carries out a call to an endpoint. It runs while mu is held.
type handler func(r *http.Request, body map[string]any) (any, *platformtest.Error)

// queued is a result with status 202.
type queued map[string]string

func newError(status int, format string, args ...any) (any, *platformtest.Error) {
	return nil, &platformtest.Error{Status: status, Message: fmt.Sprintf(format, args...)}
}

func (p *Platform) activity(r *http.Request, _ map[string]any) (any, *platformtest.Error) {
	q := r.URL.Query()
	if r.PathValue("id") != Workspace {
		return newError(http.StatusNotFound, "no such workspace")
	}
	if q.Get("type") != "a2a_receive" || q.Get("include") != "peer_info" {
		return newError(http.StatusBadRequest, "unexpected query %s", r.URL.RawQuery)
	}
	limit := 100
	if s := q.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return newError(http.StatusBadRequest, "limit")
		}
		limit = min(n, 500)
	}
	from := 0
	if id := q.Get("since_id"); id != "" {
		i := slices.Index(p.ids, id)
		if i < p.forgottenRows {
			return newError(http.StatusGone, "cursor is not known")
		}
		from = i + 1
	} else {
		secs, err := strconv.Atoi(q.Get("since_secs"))
		if err != nil {
			return newError(http.StatusBadRequest, "no cursor")
		}
		p.forgottenRows = 0 // the ids listed now are valid cursors again
		since := time.Now().Add(-time.Duration(secs) * time.Second)
		for from < len(p.rows) && p.written[from].Before(since) {
			from++
		}
	}
	rows := slices.Clone(p.rows[from:min(len(p.rows), from+limit)])
	if p.newestFirst {
		slices.Reverse(rows)
	}
	return rows, nil
}

func (p *Platform) ack(_ *http.Request, body map[string]any) (any, *platformtest.Error) {
	seq, ok := body["acked_seq"].(float64)
	if !ok {
		return newError(http.StatusBadRequest, "acked_seq")
	}
	p.acks = append(p.acks, int64(seq))
	return map[string]any{"acked_seq": int64(seq)}, nil
}

func (p *Platform) notify(r *http.Request, body map[string]any) (any, *platformtest.Error) {
	text, ok := body["message"].(string)
	if !ok || text == "" {
		return newError(http.StatusBadRequest, "message")
	}
	at := r.PathValue("id")
	p.replies = append(p.replies, Reply{To: "canvas:" + at, From: at, Text: text})
	return map[string]string{"status": "sent"}, nil
}

func (p *Platform) delegate(r *http.Request, body map[string]any) (any, *platformtest.Error) {
	target, _ := body["target_id"].(string)
	task, _ := body["task"].(string)
	key, _ := body["idempotency_key"].(string)
	if target == "" || task == "" || key == "" {
		return newError(http.StatusBadRequest, "target_id, task and idempotency_key")
	}
	for _, d := range p.replies {
		if d.Key == key {
			return map[string]string{"delegation_id": "d-" + key, "status": "known"}, nil
		}
	}
	p.replies = append(p.replies, Reply{To: "peer:" + target, From: r.PathValue("id"), Text: task, Key: key})
	return queued{"delegation_id": "d-" + key, "status": "queued"}, nil
}

func (p *Platform) heartbeat(_ *http.Request, body map[string]any) (any, *platformtest.Error) {
	p.heartbeats = append(p.heartbeats, body)
	return map[string]string{"status": "ok"}, nil
}
