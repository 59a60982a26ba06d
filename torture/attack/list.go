package main

import "slices"

func attacks() []attack {
	return slices.Concat(bodies(), connections(), framing(), requests(), projects(), threads(), readers(), sockets(),
		tools(), frames2())
}
