package telegram

import "mailroom/channel/markdown"

// render converts Markdown to Telegram's HTML. It returns "" if no visible text would remain.
func render(text string) string {
	return markdown.HTML(text, markdown.Style{Lines: true, Strike: "s", Schemes: []string{"http://", "https://", "tg://",
		"mailto:", "tel:"}})
}
