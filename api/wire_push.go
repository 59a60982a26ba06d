package api

import "time"

// Push has the key that a browser needs to subscribe to alerts, and the browsers that have subscribed.
type Push struct {
	PublicKey     string             `json:"public_key" doc:"For the applicationServerKey of a browser: a point on P-256 in base64url (RFC 8292)."`
	Target        string             `json:"target" doc:"The target whose alerts the browsers get."`
	Subscriptions []PushSubscription `json:"subscriptions" doc:"The newest first."`
}

// PushSubscription is a browser that gets alerts. Its endpoint and keys are secrets and never shown.
type PushSubscription struct {
	ID        string    `json:"id" doc:"The first 32 hexadecimal digits of the SHA-256 of its endpoint."`
	Client    *string   `json:"client" doc:"The browser in a few words."`
	By        string    `json:"by" doc:"The token that subscribed."`
	CreatedAt time.Time `json:"created_at" doc:"When the browser subscribed, the last time."`
	Gone      bool      `json:"gone" doc:"The push service does not know the browser any more, or the session or token that subscribed it has ended; it gets no alerts."`
}

// NewPushSubscription subscribes a browser: it has the fields of PushSubscription.toJSON() that a server needs.
type NewPushSubscription struct {
	Endpoint string   `json:"endpoint" minLength:"1" maxLength:"1024" example:"https://push.example.net/push/JzLQ3raZJfFBR0aqvOMsLrt54w4rJUsV" doc:"https URL at the browser's push service."`
	Keys     PushKeys `json:"keys" doc:"The field keys of toJSON()."`
}

// PushKeys are the keys of a browser (RFC 8291), in base64url without padding.
type PushKeys struct {
	P256DH string `json:"p256dh" minLength:"87" maxLength:"87" example:"BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4" doc:"Public key on P-256, an uncompressed point."`
	Auth   string `json:"auth" minLength:"22" maxLength:"22" example:"BTBZMqHH6r4Tts7J_aSIgg" doc:"Secret of 16 bytes."`
}

// PushSubscribed names a subscription. The same endpoint has the same id each time.
type PushSubscribed struct {
	ID string `json:"id" doc:"As in the list of subscriptions."`
}
