package request

import "strings"

// BrowserOf names the browser and the system that a User-Agent header claims, such as "Firefox on Linux":
// enough to distinguish the sessions of a person. The names are fixed, so a header cannot put text of its
// own into a list of sessions. "" if neither is known.
func BrowserOf(header string) string {
	first := func(names [][2]string) string {
		for _, n := range names {
			if strings.Contains(header, n[0]) {
				return n[1]
			}
		}
		return ""
	}
	// The order matters: most browsers also claim to be Chrome and Safari.
	browser := first([][2]string{
		{"Edg", "Edge"}, {"OPR/", "Opera"}, {"SamsungBrowser/", "Samsung Internet"}, {"Firefox/", "Firefox"},
		{"FxiOS/", "Firefox"},
		{"CriOS/", "Chrome"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"}, {"curl/", "curl"},
	})
	system := first([][2]string{
		{"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Android", "Android"}, {"Windows", "Windows"}, {"CrOS", "ChromeOS"},
		{"Mac OS X", "macOS"}, {"Linux", "Linux"},
	})
	switch {
	case browser == "" || system == "":
		return browser + system
	default:
		return browser + " on " + system
	}
}
