package engine_test

import (
	"context"
	"encoding/json"
	"fmt"

	"mailroom"
)

// A run sends work to another agent in another thread and waits for its end. The send and the
// ticket for its answer are one step: a later attempt that repeats the name does not send again.
func Example_parentAndChild() {
	editor := func(ctx context.Context, s mailroom.Session) error {
		if s.Run().Asked == 0 { // false when the run resumes with the answer
			step := mailroom.Step{Sends: []mailroom.Send{{
				Name: "title", Agent: "poet", Parts: mailroom.Text("a title about rain"), Answer: mailroom.AnswerWait,
			}}}
			if err := s.Append(ctx, step); err != nil {
				return err
			}
		}
		tickets, err := s.Wait(ctx, false, mailroom.Ask{Name: "title"})
		if err != nil {
			return err
		}
		var child struct{ Status, Reply string }
		if err := json.Unmarshal(tickets[0].Answer, &child); err != nil {
			return err
		}
		return s.Stream(ctx, fmt.Sprintf("The poet has %s: %s", child.Status, child.Reply))
	}
	poet := func(ctx context.Context, s mailroom.Session) error {
		return s.Stream(ctx, "Grey Morning, Wet Shoes")
	}
	o := openFixture(map[string]mailroom.AgentFunc{"editor": editor, "poet": poet})
	defer o.close()

	fmt.Println(o.reply(o.send("magazine", "editor", "make a cover")))
	// Output: The poet has completed: Grey Morning, Wet Shoes
}
