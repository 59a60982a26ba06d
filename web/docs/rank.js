// Ranks the sections of the manual for a question. It knows no page: tests run it in Node.

/** @typedef {{page: string, title: string, short?: string, group?: string, heading?: string, anchor?: string, text: string}} Section */
/** @typedef {Section & {stems: Map<string, number>, about: Map<string, number>, head: Map<string, number>, length: number}} Indexed */

/** Words of a question that say nothing about its answer. */
const empty = new Set(('a about an and any are as at be been but by can do does for from get got had has have how i if in into is it its me my no not of on '
  + 'one or our out should so some than that the their them then there these they this those to up us use used using was we were what when where which while '
  + 'who whose why will with would you your mailroom difference between mean').split(' '));

/** Words that mean the same here, each line a group. Stems are made of them below. */
const groups = [
  'docker container image podman compose oci', 'kubernetes k8s helm pod', 'update upgrade version release migrate',
  'systemd service unit daemon boot', 'cost price money spend tokens usage budget', 'memory ram size sizing heavy', 'mac macos darwin osx windows',
  'sdk library client package', 'javascript typescript node js ts', 'python py', 'golang go', 'phone mobile ntfy push notify notification alert mail email',
  'approve approval permission confirm decision decide ticket question', 'proxy caddy nginx https tls certificate', 'dashboard grafana prometheus metrics monitor chart',
  'share reserve reservation same together conflict', 'queued waiting nothing stuck pending start', 'cron schedule scheduled later delay timer', 'install setup download', 'error problem failure fail refused code', 'limit quota bound maximum size large', 'filter query search grammar find',
  'event stream sse kind entry', 'crash kill restart survive', 'steer collect latest interrupt mode busy', 'backup restore copy', 'postgres postgresql database sqlite',
  'session conversation thread', 'claude codex agent', 'tool function call effect', 'issue bd beads tracker', 'secure security isolation sandbox', 'faq questions',
];

/** Pages for people who use Mailroom come before pages for people who judge, compare or change it. */
const weights = { Project: 0.7, 'Coming from': 0.75, Reference: 0.9, 'First ten minutes': 1.15, Concepts: 1.15 };

/** @type {Map<string, string>} stems by word: an index has each word many times */
const known = new Map();

/** Returns the stem of a word: without the endings that questions and answers differ in. */
export function stem(word) {
  let s = known.get(word);
  if (s === undefined) known.set(word, s = cut(word));
  return s;
}

function cut(word) {
  let s = word;
  if (s.length > 4) s = s.replace(/(?:ies)$/, 'y').replace(/(?:sses)$/, 'ss').replace(/([^su])s$/, '$1');
  if (s.length > 5) s = s.replace(/(?:ations?|ing|edly|ed|ly|ment|ers?|ions?)$/, '');
  if (s.length > 4) s = s.replace(/e$/, '').replace(/([bdglmnprt])\1$/, '$1');
  return s;
}

/** Returns the words of a text, in lower case. Names with signs, such as MAILROOM_THREAD, also count in parts. */
export function words(text) {
  const all = [];
  for (const [word] of text.toLowerCase().matchAll(/[\p{L}\p{N}][\p{L}\p{N}_.-]*/gu)) {
    const whole = word.replace(/[._-]+$/, '');
    all.push(whole);
    if (/[._-]/.test(whole)) all.push(...whole.split(/[._-]+/).filter(Boolean));
  }
  return all;
}

/** @returns {Map<string, number>} */
function count(text) {
  const all = new Map();
  for (const word of words(text)) {
    const s = stem(word);
    all.set(s, (all.get(s) ?? 0) + 1);
  }
  return all;
}

const synonyms = new Map();
for (const group of groups) {
  const stems = group.split(' ').map(stem);
  for (const s of stems) synonyms.set(s, [...(synonyms.get(s) ?? []), ...stems.filter((other) => other !== s)]);
}

/** A search over sections. */
export class Index {
  /** @param {Section[]} sections */
  constructor(sections) {
    /** @type {Indexed[]} */
    this.sections = sections.map((section) => {
      const stems = count(section.text);
      return { ...section, stems, about: count(`${section.title} ${section.short ?? ''}`), head: count(section.heading ?? ''), length: [...stems.values()].reduce((a, b) => a + b, 0) };
    });
    /** @type {Map<string, number>} sections that have a stem */
    this.known = new Map();
    for (const { stems, about, head } of this.sections) for (const s of new Set([...stems.keys(), ...about.keys(), ...head.keys()])) this.known.set(s, (this.known.get(s) ?? 0) + 1);
    /** @type {Map<string, Set<string>>} stems of a whole page, which also speak for its begin */
    this.pages = new Map();
    for (const { page, stems } of this.sections) this.pages.set(page, new Set([...this.pages.get(page) ?? [], ...stems.keys()]));
    this.mean = this.sections.reduce((sum, { length }) => sum + length, 0) / Math.max(1, this.sections.length);
  }

  /**
   * Returns the stems that a question asks for: for each of its words the alternatives, with their weights.
   * @returns {Map<string, number>[]}
   */
  terms(question) {
    const asked = words(question);
    const telling = asked.filter((word) => !empty.has(word));
    return (telling.length > 0 ? telling : asked).map((word, i, all) => {
      const s = stem(word);
      const terms = new Map([[s, 1]]);
      for (const other of synonyms.get(s) ?? []) terms.set(other, 0.4);
      if (i === all.length - 1 || !this.known.has(s)) { // a word that is being typed, or that is known only longer
        for (const known of word.length > 2 ? this.known.keys() : []) if (known.startsWith(word) && !terms.has(known)) terms.set(known, 0.5);
      }
      return terms;
    });
  }

  /** Returns the best sections for a question, best first, at most two of a page. */
  search(question, most = 12) {
    const terms = this.terms(question);
    const scored = [];
    for (const section of this.sections) {
      let score = 0;
      let hits = 0;
      for (const alternatives of terms) {
        let best = 0;
        for (const [s, weight] of alternatives) {
          const seen = this.known.get(s) ?? 0;
          if (seen === 0) continue;
          const rare = Math.log(1 + (this.sections.length - seen + 0.5) / (seen + 0.5));
          const n = section.stems.get(s) ?? (!section.heading && this.pages.get(section.page)?.has(s) ? 0.2 : 0);
          const often = n / (n + 0.8 + 0.8 * (section.length / this.mean));
          const field = (section.about.has(s) ? 1.6 : 0) + (section.head.has(s) ? 1.8 : 0) + 1.6 * often;
          best = Math.max(best, weight * rare * field);
        }
        if (best > 0) hits++;
        score += best;
      }
      const whole = section.heading ? 1 : 1.2; // the begin of a page says what it is about
      const weight = section.page === 'faq.html' ? 1 : weights[section.group ?? ''] ?? 1;
      if (hits > 0) scored.push({ section, score: score * weight * whole * (hits / terms.length) ** 1.5 });
    }
    scored.sort((a, b) => b.score - a.score);
    const perPage = new Map();
    return scored.filter(({ section: { page } }) => {
      const n = perPage.get(page) ?? 0;
      perPage.set(page, n + 1);
      return n < 2;
    }).slice(0, most).map(({ section }) => section);
  }

  /** Returns a part of a section's text around the first word that a question asks for, in at most that many characters. */
  excerpt(section, question, most = 140) {
    const wanted = this.terms(question);
    let at = 0;
    for (const match of section.text.matchAll(/[\p{L}\p{N}][\p{L}\p{N}_.-]*/gu)) {
      if (wanted.some((terms) => terms.get(stem(match[0].toLowerCase())) === 1)) {
        at = match.index;
        break;
      }
    }
    const from = at < most / 2 ? 0 : section.text.lastIndexOf(' ', at - most / 3) + 1;
    const cut = section.text.slice(from, from + most);
    return (from > 0 ? '… ' : '') + cut + (from + most < section.text.length ? '…' : '');
  }
}
