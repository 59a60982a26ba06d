package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"mailroom"
)

// order is the text of a message.
type order struct {
	Order  string `json:"order"`
	Item   string `json:"item"`
	Amount string `json:"amount"`
}

// charge is a line of the file of charges, which stands for the service that takes the money.
type charge struct {
	Key   string `json:"key"`
	Order string `json:"order"`
	Cents int    `json:"cents"`
}

// handle works on one order. After a crash it runs again from the top: what Do has recorded is not done again.
func handle(ctx context.Context, s mailroom.Session) error {
	input, err := s.Input(ctx)
	if err != nil {
		return err
	}
	var o order
	if err := json.Unmarshal([]byte(input[0].Text), &o); err != nil {
		return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: fmt.Errorf("this is no order: %w", err)}
	}
	amount, err := strconv.Atoi(o.Amount)
	price, known := map[string]int{"tiles": 250, "nails": 5}[o.Item]
	if err != nil || amount < 1 || !known {
		return reply(ctx, s, map[string]any{"order": o.Order, "refused": fmt.Sprintf("%q of %q", o.Amount, o.Item)})
	}
	if err := s.Append(ctx, mailroom.Step{Name: "priced", Progress: 0.5}); err != nil {
		return err
	}
	pay := mailroom.Effect{
		Name:  "charge",
		Input: json.RawMessage(input[0].Text),
		// If the worker dies while it charges, the next attempt finds out whether it did.
		Reconcile: func(_ context.Context, key string) (json.RawMessage, bool, error) { return find(key) },
	}
	paid, err := s.Do(ctx, pay, func(_ context.Context, key string) (json.RawMessage, error) {
		return add(charge{Key: key, Order: o.Order, Cents: amount * price})
	})
	if err != nil {
		return err
	}
	return reply(ctx, s, map[string]any{"order": o.Order, "paid": paid})
}

// reply makes the result the reply of the run, which Mailroom posts.
func reply(ctx context.Context, s mailroom.Session, result any) error {
	text, err := json.Marshal(result)
	if err != nil {
		return err
	}
	return s.Stream(ctx, string(text))
}

const charges = "charges.jsonl"

// add charges, and does not return while a file "pause" exists: kill the worker then.
func add(c charge) (json.RawMessage, error) {
	line, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(charges, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = f.Write(append(line, '\n'))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, err
	}
	for {
		if _, err := os.Stat("pause"); errors.Is(err, fs.ErrNotExist) {
			return line, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// find returns the charge of a key, if it was made.
func find(key string) (json.RawMessage, bool, error) {
	f, err := os.Open(charges)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var c charge
		if json.Unmarshal(lines.Bytes(), &c) == nil && c.Key == key {
			return json.RawMessage(lines.Bytes()), true, nil
		}
	}
	return nil, false, lines.Err()
}
