package polltest

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Handlers of the endpoints. They run while mu is held.

func errorBody(status int, format string, args ...any) (int, any) {
	return status, map[string]string{"error": fmt.Sprintf(format, args...)}
}

func (p *Platform) activity(r *http.Request, _ map[string]any) (int, any) {
	q := r.URL.Query()
	if r.PathValue("id") != Workspace {
		return errorBody(http.StatusNotFound, "no such workspace")
	}
	if q.Get("type") != "a2a_receive" || q.Get("include") != "peer_info" {
		return errorBody(http.StatusBadRequest, "unexpected query %s", r.URL.RawQuery)
	}
	limit := 100
	if s := q.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return errorBody(http.StatusBadRequest, "limit")
		}
		limit = min(n, 500)
	}
	from := 0
	if id := q.Get("since_id"); id != "" {
		i := slices.Index(p.ids, id)
		if i < p.forgottenRows {
			return errorBody(http.StatusGone, "cursor is not known")
		}
		from = i + 1
	} else {
		secs, err := strconv.Atoi(q.Get("since_secs"))
		if err != nil {
			return errorBody(http.StatusBadRequest, "no cursor")
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
	return http.StatusOK, rows
}

func (p *Platform) ack(_ *http.Request, body map[string]any) (int, any) {
	seq, ok := body["acked_seq"].(float64)
	if !ok {
		return errorBody(http.StatusBadRequest, "acked_seq")
	}
	p.acks = append(p.acks, int64(seq))
	return http.StatusOK, map[string]any{"acked_seq": int64(seq)}
}

func (p *Platform) notify(r *http.Request, body map[string]any) (int, any) {
	text, ok := body["message"].(string)
	if !ok || text == "" {
		return errorBody(http.StatusBadRequest, "message")
	}
	at := r.PathValue("id")
	p.replies = append(p.replies, Reply{To: "canvas:" + at, From: at, Text: text})
	return http.StatusOK, map[string]string{"status": "sent"}
}

func (p *Platform) delegate(r *http.Request, body map[string]any) (int, any) {
	target, _ := body["target_id"].(string)
	task, _ := body["task"].(string)
	key, _ := body["idempotency_key"].(string)
	if target == "" || task == "" || key == "" {
		return errorBody(http.StatusBadRequest, "target_id, task and idempotency_key")
	}
	for _, d := range p.replies {
		if d.Key == key {
			return http.StatusOK, map[string]string{"delegation_id": "d-" + key, "status": "known"}
		}
	}
	p.replies = append(p.replies, Reply{To: "peer:" + target, From: r.PathValue("id"), Text: task, Key: key})
	return http.StatusAccepted, map[string]string{"delegation_id": "d-" + key, "status": "queued"}
}

func (p *Platform) heartbeat(_ *http.Request, body map[string]any) (int, any) {
	p.heartbeats = append(p.heartbeats, body)
	return http.StatusOK, map[string]string{"status": "ok"}
}
