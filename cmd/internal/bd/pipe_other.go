//go:build !linux

package bd

import "os"

// widen is for systems whose pipes can be made wider.
func widen(*os.File) {}
