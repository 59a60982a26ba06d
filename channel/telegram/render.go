package telegram

import "mailroom/channel/markdown"

// render writes the Markdown of models as the platform's HTML; "" if nothing of it
// would be shown.
func render(text string) string {
	return markdown.HTML(text, markdown.Style{Lines: true, Strike: "s", Schemes: []string{"http://", "https://", "tg://", "mailto:", "tel:"}})
}
