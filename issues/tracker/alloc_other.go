//go:build !linux

package tracker

// makeSlice allocates n zero values.
func makeSlice[T any](n int) []T { return make([]T, n) }
