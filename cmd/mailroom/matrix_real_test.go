//go:build realchannels

package main

import (
	"testing"

	"mailroom/channel/matrix/matrixtest"
)

func init() {
	matrixHomes["Dendrite"] = func(t *testing.T) matrixHome {
		d := matrixtest.StartDendrite(t)
		return matrixHome{d.URL, func() {
			d.Kill()
			d.Up()
		}}
	}
}
