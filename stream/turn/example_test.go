package turn_test

import (
	"fmt"

	"mailroom"
	"mailroom/entry"
	"mailroom/stream/turn"
)

// A program folds what a stream sends, and shows each event when it comes. Afterwards the state has the whole turn.
func ExampleState() {
	h := queuedAndStarted().
		write("m1", 0, "Let me ").write("m1", 7, "look.").
		say(mailroom.Message{ID: "m1", Text: "Let me look.", Visibility: mailroom.VisibleInternal}).
		log(entry.KindToolStarted, entry.ToolStarted{Call: "1", Name: "weather", Arguments: []byte(`{"city":"Oslo"}`)}).
		log(entry.KindToolDone, entry.ToolDone{Call: "1", OK: true, Summary: "-3 °C"}).
		say(mailroom.Message{ID: "m2", Text: "It is cold."}).
		log(entry.KindCompleted, entry.RunCompleted{Usage: mailroom.Usage{OutputTokens: 9}})

	state := &turn.State{}
	for _, i := range h.items {
		var events []turn.Event
		if i.entry != nil {
			events = state.Apply(*i.entry)
		} else {
			events = state.ApplyDelta(*i.delta)
		}
		for _, e := range events {
			if e.Type == turn.PartGrew {
				fmt.Printf("%d %s + %q\n", e.Number, e.Part.Key, e.Text)
			}
		}
	}
	t := state.Turn("r")
	fmt.Println(t.Status, "by", t.Agent, "with", t.Usage.OutputTokens, "tokens:")
	for _, p := range t.Parts {
		fmt.Println(" ", line(p))
	}
	// Output:
	// 6291463 m1/text + "Let me "
	// 6291468 m1/text + "look."
	// 13631491 m2/text + "It is cold."
	// completed by a with 9 tokens:
	//   text done "Let me look." internal
	//   tool done weather in {"city":"Oslo"} "-3 °C"
	//   text done "It is cold."
}
