// Renders untrusted text for people: an approver sees every character that a program would
// read. The rules and their reasons are those of Go's package internal/display; one file of
// cases, internal/display/testdata/cases.json, tests both.

/**
 * Renders text for display on several lines. A character that is invisible, or that changes
 * how the text around it looks, becomes a mark such as "⟦U+202E⟧". Emoji, right-to-left
 * scripts and the joiners that scripts need stay. Rendering twice changes nothing.
 */
export function displayText(text) { return render(String(text), false); }

/** Renders text for display on one line: each run of \n, \r and \t becomes one space. */
export function displayLine(text) { return render(String(text), true); }

/** The first n characters of text, and how many follow: "… (1,234 more characters)". */
export function displayCut(text, n) {
  const all = [...String(text)];
  if (all.length <= n) return all.join('');
  const at = boundary(all, n);
  const rest = all.length - at;
  const count = String(rest).replace(/\B(?=(\d{3})+$)/g, ',');
  return `${all.slice(0, at).join('')}… (${count} more character${rest === 1 ? '' : 's'})`;
}

const MARK = /^⟦(?:U\+|0x)[^⟧]*⟧/;

// boundary is the last place at or before at that is not inside a mark or a combined character.
function boundary(all, at) {
  const near = Math.max(0, at - 9);
  const open = all.slice(near, at).lastIndexOf('⟦');
  if (open >= 0) {
    const mark = MARK.exec(all.slice(near + open, near + open + 12).join(''));
    if (mark && near + open + mark[0].length > at) at = near + open;
  }
  for (let i = at, steps = 0; steps < 12; i--, steps++) {
    if (i === 0 || !(extending(all[i].codePointAt(0)) || all[i - 1].codePointAt(0) === ZWJ)) return i;
  }
  return at;
}

const MAX_COMBINING = 8;
const NEARBY = 8;
const ZWSP = 0x200b, ZWNJ = 0x200c, ZWJ = 0x200d, KEYCAP = 0x20e3, EMOJI_STYLE = 0xfe0f, TEXT_STYLE = 0xfe0e;
const MARK_END = 0x27e7, BLACK_FLAG = 0x1f3f4, CANCEL_TAG = 0xe007f;
const REGIONS = ['gbeng', 'gbsct', 'gbwls'].map((name) => [...[...name].map((c) => 0xe0000 + c.codePointAt(0)), CANCEL_TAG]);

function render(text, line) {
  if (line) text = text.replace(/[\n\r\t]+/g, ' ');
  else text = text.replace(/\r\n/g, '\n');
  if (!NOTABLE.test(text)) return text;
  const points = Array.from(text, (c) => c.codePointAt(0));
  const out = [];
  // Of the text so far: its last character, the number of combining marks at its end, and whether it ends near a
  // right-to-left character: above 0 if at most NEARBY neutral characters follow one.
  let last = 0, combining = 0, rightward = 0;
  const keep = (c) => {
    rightward = rightToLeft(c) ? NEARBY + 1 : neutral(c) ? Math.max(rightward - 1, 0) : 0;
    combining = isCombining(c) ? combining + 1 : 0;
    last = c;
    out.push(String.fromCodePoint(c));
  };
  for (let i = 0; i < points.length; i++) {
    const c = points[i];
    const next = points[i + 1] ?? 0xfffd;
    if (c === 0x0a || c === 0x09) {
      keep(c);
    } else if (c === BLACK_FLAG) {
      keep(c);
      const tags = REGIONS.find((tags) => tags.every((t, k) => points[i + 1 + k] === t));
      if (tags) {
        out.push(String.fromCodePoint(...tags));
        last = CANCEL_TAG;
        i += tags.length;
      }
    } else if (hidden(c) ? needed(c, last, next, rightward, points, i) : !isCombining(c) || combining < MAX_COMBINING && last !== MARK_END) {
      keep(c);
    } else {
      out.push(`⟦U+${c.toString(16).toUpperCase().padStart(4, '0')}⟧`);
      last = MARK_END;
      combining = rightward = 0;
    }
  }
  return out.join('');
}

// needed reports whether a hidden character has its proper use here, such as a joiner between two emoji.
function needed(c, last, next, rightward, points, i) {
  if (c === ZWJ && pictograph(next)) return pictograph(last) || last === EMOJI_STYLE || usesJoiners(last);
  if (c === ZWJ || c === ZWNJ) return usesJoiners(last);
  if (c === ZWSP) return usesBreaks(last) && usesBreaks(next);
  if (directionMark(c)) return rightward > 0 || leadsRightToLeft(points, i + 1);
  if (c === EMOJI_STYLE && keycapBase(last)) return next === KEYCAP;
  return selects(last, c);
}

function leadsRightToLeft(points, from) {
  for (let i = from; i <= from + NEARBY && i < points.length; i++) {
    if (!neutral(points[i])) return rightToLeft(points[i]);
  }
  return false;
}

const within = (...ranges) => (c) => {
  for (const [from, to = from] of ranges) if (c >= from && c <= to) return true;
  return false;
};

const directionMark = within([0x200e, 0x200f], [0x61c]);

const HIDDEN = [
  [0x00, 0x1f], [0x7f, 0x9f], [0xad], [0x34f], [0x61c], [0x115f, 0x1160], [0x3164], [0xffa0], [0x17b4, 0x17b5], [0x180b, 0x180f],
  [0x200b, 0x200f], [0x2028, 0x202e], [0x2060, 0x206f], [0xd800, 0xdfff], [0xfe00, 0xfe0f], [0xfeff], [0xfdd0, 0xfdef], [0xfff0, 0xfffb],
  [0x13430, 0x1343f], [0x1bca0, 0x1bca3], [0x1d173, 0x1d17a], [0xe0000, 0xe0fff],
  ...Array.from({ length: 17 }, (_, plane) => [plane * 0x10000 + 0xfffe, plane * 0x10000 + 0xffff]),
];
const hidden = within(...HIDDEN);

const rightWritten = within([0x591, 0x8ff], [0xfb1d, 0xfdff], [0xfe70, 0xfefc], [0x10800, 0x10fff], [0x1e800, 0x1efff]);
const rightToLeft = (c) => rightWritten(c) && !hidden(c);

const neutral = within([0x20, 0x40], [0x5b, 0x60], [0x7b, 0x7e]);

const OVERDRAWN = [
  [0x300, 0x34e], [0x350, 0x36f], [0x483, 0x489], [0x1ab0, 0x1aff], [0x1dc0, 0x1dff], [0x20d0, 0x20e2], [0x20e4, 0x20ff], [0xfe20, 0xfe2f],
];
const isCombining = within(...OVERDRAWN);

// A text that matches nothing of this is rendered as it is.
const escaped = (c) => `\\u{${c.toString(16)}}`;
const NOTABLE = new RegExp(`(?![\\n\\t])[${[...HIDDEN, ...OVERDRAWN].map(([from, to = from]) => `${escaped(from)}-${escaped(to)}`).join('')}]`, 'u');

const pictograph = within(
  [0xa9], [0xae], [0x203c], [0x2049], [0x2122], [0x2139], [0x2190, 0x21ff], [0x2300, 0x23ff], [0x24c2], [0x25a0, 0x27bf],
  [0x2900, 0x297f], [0x2b00, 0x2bff], [0x3030], [0x303d], [0x3297], [0x3299], [0x1f000, 0x1faff],
);

const keycapBase = within([0x30, 0x39], [0x23], [0x2a]);

const joined = within(
  [0x620, 0x8ff], [0x900, 0xdff], [0xf00, 0x109f], [0x1700, 0x18af], [0x1a20, 0x1aad], [0x1b00, 0x1c4f], [0xa800, 0xabff],
  [0xfb50, 0xfdff], [0xfe70, 0xfefc], [0x11000, 0x11fff], [0x1e900, 0x1e95f],
);
const usesJoiners = (c) => joined(c) && !hidden(c);

const unspaced = within([0xe01, 0x109f], [0x1780, 0x17ff], [0x1950, 0x1aad]);
const usesBreaks = (c) => unspaced(c) && !hidden(c);

const ideographs = within([0x3400, 0x9fff], [0xf900, 0xfaff], [0x20000, 0x3fffd]);
const alternates = within([0x2200, 0x22ff], [0x2a00, 0x2aff], [0x1000, 0x109f]);

function selects(c, selector) {
  const ideograph = ideographs(c) && !hidden(c);
  if (selector === EMOJI_STYLE || selector === TEXT_STYLE) return pictograph(c);
  if (selector >= 0x180b && selector <= 0x180f) return c >= 0x1820 && c <= 0x18aa;
  if (selector >= 0xe0100 && selector <= 0xe01ef) return ideograph;
  if (selector === 0xfe00) return ideograph || alternates(c);
  return (selector === 0xfe01 || selector === 0xfe02) && ideograph;
}

const modifiers = within([ZWJ], [KEYCAP], [0xfe00, 0xfe0f], [0x1f3fb, 0x1f3ff], [0xe0000, 0xe0fff]);
const extending = (c) => isCombining(c) || modifiers(c);
