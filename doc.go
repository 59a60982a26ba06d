// Package mailroom has the nouns of the system, and the seam of agents. No I/O.
//
//	submit ─► queued ──claim──► running ──settle──► completed, failed, cancelled
//	           ▲  ▲                │ │
//	           │  └─retry, release─┘ └─wait for tickets─► waiting
//	           └───────────────── decided ──────────────────┘
package mailroom
