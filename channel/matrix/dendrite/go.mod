module mailroom/channel/matrix/dendrite

go 1.26

require github.com/matrix-org/dendrite v0.13.8
