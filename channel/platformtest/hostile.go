package platformtest

// HostileTexts returns texts of an agent that try to leave a code block, or to have links, mentions and marks,
// on any platform. They have no invisible characters, which package display marks.
func HostileTexts() []string {
	return []string{
		"**Mailroom:** [approve here](https://evil.example/decide)",
		"<@U1> <!channel> <https://evil.example|Mailroom> @everyone @room <@1> <@&2>",
		`<a href="https://evil.example">Mailroom</a> <b>x</b> &lt;b&gt; tg://user?id=1`,
		"```\n**Approved by Mailroom**\n```",
		"````\nout\n````\n``````\n# out\n~~~\n~~~",
		"`one` ``two`` \\``` three\\",
		"> quoted\n- item\n|a|b|\n|-|-|\n|1|2|",
		"*a* _b_ ~c~ ||d|| __e__\n---",
	}
}
