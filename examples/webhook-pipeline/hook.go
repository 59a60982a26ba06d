package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// key returns the secret that Mailroom and the shop share.
func key() ([]byte, error) {
	raw, err := os.ReadFile(setting("HOOK_SECRET_FILE", "mail/channel-shop.token"))
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(strings.TrimPrefix(strings.TrimSpace(string(raw)), "whsec_"))
}

// sign signs a request as Standard Webhooks say.
func sign(key []byte, id, at string, body []byte) string {
	h := hmac.New(sha256.New, key)
	fmt.Fprintf(h, "%s.%s.%s", id, at, body)
	return "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// verify reports whether a request is signed, and recently.
func verify(key []byte, h http.Header, body []byte) bool {
	seconds, err := strconv.ParseInt(h.Get("webhook-timestamp"), 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
		return false
	}
	want := sign(key, h.Get("webhook-id"), h.Get("webhook-timestamp"), body)
	for _, signature := range strings.Fields(h.Get("webhook-signature")) {
		if hmac.Equal([]byte(signature), []byte(want)) {
			return true
		}
	}
	return false
}

// send posts an order. Its id is the webhook-id, so that an order that is posted again is the same one.
func send(ctx context.Context, id, item, amount string) error {
	key, err := key()
	if err != nil {
		return err
	}
	text, err := json.Marshal(order{id, item, amount})
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"room": "order-" + id, "user": map[string]string{"id": "shop"},
		"text": string(text)})
	if err != nil {
		return err
	}
	at := setting("MAILROOM_URL", "http://127.0.0.1:8420") + "/v1/hooks/shop"
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at, bytes.NewReader(body))
	if err != nil {
		return err
	}
	now := strconv.FormatInt(time.Now().Unix(), 10)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("webhook-id", "order-"+id)
	r.Header.Set("webhook-timestamp", now)
	r.Header.Set("webhook-signature", sign(key, "order-"+id, now, body))
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("no answer, so send it again: %w", err)
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusAccepted {
		err = fmt.Errorf("%s: %s", answer.Status, said)
	}
	return err
}

// receive prints each result once. A shop keeps the ids that it has seen in its database.
func receive() error {
	key, err := key()
	if err != nil {
		return err
	}
	seen := map[string]bool{} // owned by the only handler that runs at a time
	turn := make(chan struct{}, 1)
	handle := func(w http.ResponseWriter, r *http.Request) {
		turn <- struct{}{}
		defer func() { <-turn }()
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil || !verify(key, r.Header, body) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		var result struct{ Text string }
		if err := json.Unmarshal(body, &result); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if id := r.Header.Get("webhook-id"); !seen[id] {
			seen[id] = true
			fmt.Println(result.Text)
		}
		w.WriteHeader(http.StatusNoContent)
	}
	return http.ListenAndServe(setting("LISTEN", "127.0.0.1:9000"), http.HandlerFunc(handle))
}
