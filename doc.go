// Package mailroom is the vocabulary of the system: its nouns and errors, and
// the seam between an agent and its run. It does no I/O. docs/design.md says how
// the other packages build on it.
package mailroom
