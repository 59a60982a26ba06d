// Package mailroom has the nouns and errors of the system, and the seam between an
// agent and its run. It does no I/O. docs/design.md begins with a map of the tree.
//
//	submit ─► queued ──claim──► running ──settle──► completed, failed, cancelled
//	           ▲  ▲                │ │
//	           │  └─retry, release─┘ └─wait for tickets─► waiting
//	           └───────────────── decided ──────────────────┘
package mailroom
