package chat

import (
	"context"
	"encoding/json"
	"fmt"

	"mailroom/channel"
)

// ScheduleUser is the user of a chat who made a schedule. The schedule ends with their access.
type ScheduleUser struct {
	Channel string `json:"channel"`
	User    string `json:"user"`
	Room    Room   `json:"room"`
}

// Admits reports whether the user of a schedule may talk in its room now.
// policies has the policy of each channel by its name.
func Admits(
	ctx context.Context, l channel.Viewer, policies map[string]*AccessPolicy, encoded string,
) (bool, error) {
	var u ScheduleUser
	if err := json.Unmarshal([]byte(encoded), &u); err != nil {
		return false, fmt.Errorf("decode the user of a schedule: %w", err)
	}
	policy := policies[u.Channel]
	if policy == nil {
		return false, nil
	}
	paired, err := LoadPairings(ctx, l, u.Channel)
	if err != nil {
		return false, err
	}
	return paired.Tier(policy, paired.Account, u.User, u.Room) != TierStranger, nil
}
