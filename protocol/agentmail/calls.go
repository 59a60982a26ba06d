package agentmail

import (
	"context"
	"encoding/json"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/project"
)

// reservation is a reservation in the protocol's format.
type reservation struct {
	ID        string    `json:"id"`
	FilePath  string    `json:"file_path"`
	AgentName string    `json:"agent_name"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
	Fence     int64     `json:"fence"`
}

func toReservation(r api.Reservation) reservation {
	return reservation{ID: r.ID, FilePath: r.Name, AgentName: r.Holder, CreatedAt: r.TakenAt, ExpiresAt: r.ExpiresAt,
		Fence: r.Fence}
}

func reserve(ctx context.Context, c call) (any, error) {
	var in struct {
		FilePath  string   `json:"file_path"`
		AgentName string   `json:"agent_name"`
		TTL       *float64 `json:"ttl"` // seconds
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	ttl := project.DefaultTTL
	if in.TTL != nil {
		most := project.MaxTTL.Seconds()
		if *in.TTL < project.MinTTL.Seconds() || *in.TTL > most {
			return nil, mailroom.Errorf(mailroom.CodeInvalid, "ttl: must be between %v and %v seconds", project.MinTTL.Seconds(),
				most)
		}
		ttl = time.Duration(*in.TTL * float64(time.Second))
	}
	out, err := c.projects.Reserve(ctx, api.Reserve{Project: c.project, Names: []string{in.FilePath}, Holder: in.AgentName,
		TTL: ttl.String()})
	if err != nil {
		return nil, err
	}
	return toReservation(out.Granted[0]), nil
}

func listReservations(ctx context.Context, c call) (any, error) {
	projectName := c.project
	if projectName == "" {
		projectName = project.Default
	}
	rows, err := c.projects.Reservations(ctx, projectName)
	items := []reservation{}
	for _, r := range rows {
		items = append(items, toReservation(r))
	}
	return items, err
}

// release releases an issue's id or a reserved path. It is no error if nothing is reserved under that name.
func release(ctx context.Context, c call) (any, error) {
	id := c.PathValue("id")
	return c.projects.ReleaseNames(ctx, api.ReleaseNames{Project: c.project, Holder: c.PathValue("agent"),
		Names: []string{issuePrefix + id, id}})
}

func notify(ctx context.Context, c call) (any, error) {
	var in struct {
		FromAgent string          `json:"from_agent"`
		EventType string          `json:"event_type"`
		Payload   json.RawMessage `json:"payload"`
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	out, err := c.projects.Notify(ctx, api.Notify{
		Project: c.project, From: in.FromAgent, Event: in.EventType, Data: in.Payload, Key: c.Header.Get("Idempotency-Key"),
	})
	return struct {
		ID int64    `json:"id"`
		To []string `json:"to"`
	}{out.Seq, out.To}, err
}

// notification is a notification in the protocol's format.
type notification struct {
	ID    int64           `json:"id"`
	From  string          `json:"from"`
	Event string          `json:"event"`
	Data  json.RawMessage `json:"data"`
	At    time.Time       `json:"created_at"`
}

// maxNotifications is the maximum number of notifications in one response; the next response has
// more.
const maxNotifications = 500

func readNotifications(ctx context.Context, c call) (any, error) {
	found, err := c.projects.TakeNotifications(ctx, api.Take{Project: c.project, Agent: c.PathValue("agent"),
		Limit: maxNotifications})
	items := []notification{}
	for _, n := range found {
		items = append(items, notification{ID: n.Seq, From: n.From, Event: n.Event, Data: n.Data, At: n.At})
	}
	return items, err
}
