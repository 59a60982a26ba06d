//go:build realchannels

package matrix_test

import (
	"testing"

	"mailroom/channel/matrix/matrixtest"
)

func init() {
	servers["Dendrite"] = func(t *testing.T) string { return matrixtest.StartDendrite(t).URL }
}
