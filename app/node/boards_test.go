package node

import (
	"log/slog"
	"slices"
	"testing"

	"mailroom/app/config"
	"mailroom/channel"
	"mailroom/server/operate"
)

// TestABoardIsAChannelOfTheServer has its threads reserved, its token watched and its outages told.
func TestABoardIsAChannelOfTheServer(t *testing.T) {
	c, err := config.Parse("", []byte("[boards.roof]\nkind = \"github\"\nrepository = \"ann/roof\"\nagent = \"echo\"\n"+
		"labels = [\"agent\"]\ntoken_file = \"/roof.token\"\n[targets.hook]\n"+
		"kind = \"webhook\"\nurl = \"https://a.example.org\"\n"+
		"token_env = \"T\"\n"), config.Kinds(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := reservedPrefixes(c); !slices.Equal(got, []string{"roof:"}) {
		t.Errorf("reserved are %q", got)
	}
	if got := newFollower(c, nil, &operate.Alerts{}, slog.Default()).Channels; !slices.Equal(got, []string{"roof"}) {
		t.Errorf("alerts follow %q", got)
	}
	r := channel.New(channel.Options{Name: "roof", Log: slog.Default()})
	if got := secretFiles(c, channelSet{r}); len(got) != 1 || got[0].file != "/roof.token" {
		t.Errorf("watched are %+v", got)
	}
}
