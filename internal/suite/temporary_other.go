//go:build !linux

package main

// volumeInMemory returns nothing: only Linux has such a folder for all users.
func volumeInMemory() volume { return volume{} }
