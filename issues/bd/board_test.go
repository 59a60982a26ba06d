package bd

import "testing"

func TestEachBoardHasAFileOfItsOwn(t *testing.T) {
	seen := map[string]string{}
	for _, place := range []string{"ann/roof-tiles", "ann-roof/tiles", "ann/roof_tiles", "ann/roof.tiles",
		"https://github.example/ann/roof-tiles"} {
		name := boardName(place)
		if other := seen[name]; other != "" || name != prefixFrom(name) {
			t.Errorf("%s and %s have the name %s", place, other, name)
		}
		seen[name] = place
	}
	for _, same := range []string{"Ann/Roof-Tiles", "https://github.com/ann/roof-tiles/", "ann/roof-tiles.git"} {
		if boardName(same) != boardName("ann/roof-tiles") {
			t.Errorf("%s has the name %s", same, boardName(same))
		}
	}
}
