//go:build !linux

package tracker

// room makes n zero values in a piece.
func room[T any](n int) []T { return make([]T, n) }
