package display

import "strings"

// The characters that the rules of display name. Their classes are written here as ranges of code points. The Unicode
// tables of Go and JavaScript are not used, because their versions differ between toolchains, and Go and JavaScript
// must agree. Sources: Unicode Standard Annex #9 (direction marks), Unicode Technical Standard #51 (emoji sequences),
// Unicode Standard chapter 23 (joiners, variation selectors, tags) and DerivedCoreProperties.txt
// (Default_Ignorable_Code_Point).
const (
	zwsp       = '\u200b'
	zwnj       = '\u200c'
	zwj        = '\u200d'
	keycap     = '\u20e3'
	emojiStyle = '\ufe0f'
	textStyle  = '\ufe0e'
	blackFlag  = '\U0001f3f4'
	cancelTag  = '\U000e007f'
)

// isHidden reports whether r is invisible, or changes how its neighbours look. A lone surrogate counts as hidden too;
// valid text in Go never has one.
func isHidden(r rune) bool {
	switch {
	case r < 0x20, r >= 0x7f && r <= 0x9f: // controls
	case r == 0xad, r == 0x34f: // soft hyphen, combining grapheme joiner
	case isDirectionMark(r):
	case r == 0x115f, r == 0x1160, r == 0x3164, r == 0xffa0: // Hangul fillers
	case r == 0x17b4, r == 0x17b5: // invisible Khmer vowels
	case r >= 0x180b && r <= 0x180f: // Mongolian selectors
	case r >= 0x200b && r <= 0x200d: // zero-width space and joiners
	case r >= 0x2028 && r <= 0x202e: // separators of lines, embeddings, overrides
	case r >= 0x2060 && r <= 0x206f: // word joiner, invisible operators, isolates
	case r >= 0xd800 && r <= 0xdfff: // surrogates
	case r >= 0xfe00 && r <= 0xfe0f, r == 0xfeff: // variation selectors, byte order mark
	case r >= 0xfdd0 && r <= 0xfdef, r&0xfffe == 0xfffe: // noncharacters
	case r >= 0xfff0 && r <= 0xfffb: // annotations
	case r >= 0x13430 && r <= 0x1343f, r >= 0x1bca0 && r <= 0x1bca3, r >= 0x1d173 && r <= 0x1d17a: // layout of hieroglyphs, shorthand, music
	case r >= 0xe0000 && r <= 0xe0fff: // tags, more variation selectors
	default:
		return false
	}
	return true
}

func isDirectionMark(r rune) bool { return r == 0x200e || r == 0x200f || r == 0x61c }

// isRightToLeft reports whether r is of a script that is written from right to left.
func isRightToLeft(r rune) bool {
	switch {
	case isHidden(r):
		return false
	case r >= 0x591 && r <= 0x8ff: // Hebrew, Arabic, Syriac, Thaana, N'Ko, Samaritan, Mandaic
	case r >= 0xfb1d && r <= 0xfdff, r >= 0xfe70 && r <= 0xfefc: // presentation forms of such letters
	case r >= 0x10800 && r <= 0x10fff, r >= 0x1e800 && r <= 0x1efff:
	default:
		return false
	}
	return true
}

// isNeutral reports whether r is an ASCII sign, digit or space.
func isNeutral(r rune) bool {
	return r >= 0x20 && r <= 0x40 || r >= 0x5b && r <= 0x60 || r >= 0x7b && r <= 0x7e
}

// isCombining reports whether r is drawn over the character before it, in any script.
func isCombining(r rune) bool {
	switch {
	case r >= 0x300 && r <= 0x36f && r != 0x34f:
	case r >= 0x483 && r <= 0x489:
	case r >= 0x1ab0 && r <= 0x1aff, r >= 0x1dc0 && r <= 0x1dff:
	case r >= 0x20d0 && r <= 0x20ff && r != keycap:
	case r >= 0xfe20 && r <= 0xfe2f:
	default:
		return false
	}
	return true
}

// isPictograph reports whether r can be part of an emoji.
func isPictograph(r rune) bool {
	switch {
	case r == 0xa9, r == 0xae, r == 0x203c, r == 0x2049, r == 0x2122, r == 0x2139:
	case r >= 0x2190 && r <= 0x21ff, r >= 0x2300 && r <= 0x23ff, r == 0x24c2:
	case r >= 0x25a0 && r <= 0x27bf, r >= 0x2900 && r <= 0x297f, r >= 0x2b00 && r <= 0x2bff:
	case r == 0x3030, r == 0x303d, r == 0x3297, r == 0x3299:
	case r >= 0x1f000 && r <= 0x1faff:
	default:
		return false
	}
	return true
}

// isKeycap reports whether r can be the character of a keycap emoji.
func isKeycap(r rune) bool { return r >= '0' && r <= '9' || r == '#' || r == '*' }

// usesJoiners reports whether r is of a script whose spelling or shaping uses zero-width
// joiners and non-joiners.
func usesJoiners(r rune) bool {
	switch {
	case isHidden(r):
		return false
	case r >= 0x620 && r <= 0x8ff: // Arabic, Syriac, N'Ko, Mandaic
	case r >= 0x900 && r <= 0xdff: // the scripts of India and Sri Lanka
	case r >= 0xf00 && r <= 0x109f, r >= 0x1700 && r <= 0x18af: // Tibetan, Myanmar, Khmer, Mongolian
	case r >= 0x1a20 && r <= 0x1aad, r >= 0x1b00 && r <= 0x1c4f, r >= 0xa800 && r <= 0xabff:
	case r >= 0xfb50 && r <= 0xfdff, r >= 0xfe70 && r <= 0xfefc: // Arabic presentation forms
	case r >= 0x11000 && r <= 0x11fff, r >= 0x1e900 && r <= 0x1e95f:
	default:
		return false
	}
	return true
}

// usesBreaks reports whether r is of a script that has no spaces between words and marks
// where a line can break with a zero-width space.
func usesBreaks(r rune) bool {
	return !isHidden(r) && (r >= 0xe01 && r <= 0x109f || r >= 0x1780 && r <= 0x17ff || r >= 0x1950 && r <= 0x1aad)
}

// selects reports whether the variation selector v changes how the character r looks.
func selects(r, v rune) bool {
	ideograph := !isHidden(r) && (r >= 0x3400 && r <= 0x9fff || r >= 0xf900 && r <= 0xfaff || r >= 0x20000 && r <= 0x3fffd)
	switch {
	case v == emojiStyle || v == textStyle:
		return isPictograph(r)
	case v >= 0x180b && v <= 0x180f:
		return r >= 0x1820 && r <= 0x18aa
	case v >= 0xe0100 && v <= 0xe01ef:
		return ideograph
	case v == 0xfe00:
		return ideograph || r >= 0x2200 && r <= 0x22ff || r >= 0x2a00 && r <= 0x2aff || r >= 0x1000 && r <= 0x109f
	case v == 0xfe01 || v == 0xfe02:
		return ideograph
	}
	return false
}

// extends reports whether r is shown as a part of the character before it.
func extends(r rune) bool {
	return isCombining(r) || r == keycap || r == zwj || r >= 0xfe00 && r <= 0xfe0f || r >= 0x1f3fb && r <= 0x1f3ff ||
		r >= 0xe0000 && r <= 0xe0fff
}

// regionTags returns the tags at the start of s that make a flag of the black flag before
// them. Unicode recommends three such flags: England, Scotland and Wales.
func regionTags(s string) string {
	for _, region := range []string{"gbeng", "gbsct", "gbwls"} {
		var tags strings.Builder
		for _, c := range region {
			tags.WriteRune(0xe0000 + c)
		}
		tags.WriteRune(cancelTag)
		if strings.HasPrefix(s, tags.String()) {
			return tags.String()
		}
	}
	return ""
}
