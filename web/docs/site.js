// What scripts add to a page of the manual: search, tabs, copying of code, and the place in the table of contents. The page is
// whole without them.

import { Index } from './rank.js';

const root = document.body.dataset.root ?? '';

/** @returns {HTMLElement} */
function make(name, properties = {}, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

// Search: a field with a list of sections below it.

const field = /** @type {HTMLInputElement} */ (make('input', { type: 'search', id: 'words', placeholder: 'Search (press /)', autocomplete: 'off', spellcheck: false }));
for (const [name, value] of Object.entries({ role: 'combobox', 'aria-expanded': 'false', 'aria-controls': 'results', 'aria-autocomplete': 'list' })) field.setAttribute(name, value);
const list = make('div', { id: 'results', hidden: true });
list.setAttribute('role', 'listbox');
list.setAttribute('aria-label', 'Sections');
const told = make('p', { className: 'unseen' });
told.setAttribute('role', 'status');
const label = /** @type {HTMLLabelElement} */ (make('label', { htmlFor: 'words', className: 'unseen', textContent: 'Search the manual' }));
document.getElementById('find')?.append(label, field, list, told);

/** @type {Promise<Index> | null} */
let loading = null;
/** @type {HTMLElement[]} */
let options = [];
let chosen = -1;

function load() {
  loading ??= fetch(`${root}search.json`).then((answer) => {
    if (!answer.ok) throw new Error(`the index of the search: ${answer.status}`);
    return answer.json();
  }).then((sections) => new Index(sections));
  loading.catch(() => { loading = null; });
  return loading;
}

function close() {
  list.hidden = true;
  field.setAttribute('aria-expanded', 'false');
  field.removeAttribute('aria-activedescendant');
  chosen = -1;
}

function choose(i) {
  options[chosen]?.setAttribute('aria-selected', 'false');
  chosen = (i + options.length) % options.length;
  options[chosen].setAttribute('aria-selected', 'true');
  options[chosen].scrollIntoView({ block: 'nearest' });
  field.setAttribute('aria-activedescendant', options[chosen].id);
}

async function show() {
  const question = field.value.trim();
  if (question === '') {
    close();
    told.textContent = '';
    return;
  }
  let found;
  try {
    const index = await load();
    if (question !== field.value.trim()) return; // the reader typed on
    found = index.search(question).map((section) => ({ section, text: index.excerpt(section, question) }));
  } catch {
    list.replaceChildren(make('p', { className: 'none', textContent: 'The search does not work here: its index cannot be loaded.' }));
    list.hidden = false;
    return;
  }
  options = found.map(({ section, text }, i) => {
    const href = `${root}${section.page}${section.anchor ? `#${section.anchor}` : ''}`;
    const name = make('b', { textContent: section.heading || section.title });
    const option = make('a', { href, tabIndex: -1, id: `result-${i}` }, name, make('span', { textContent: section.heading ? section.title : '' }), make('small', { textContent: text }));
    option.setAttribute('role', 'option');
    option.setAttribute('aria-selected', 'false');
    return option;
  });
  list.replaceChildren(...options);
  list.hidden = options.length === 0;
  field.setAttribute('aria-expanded', String(!list.hidden));
  told.textContent = options.length === 0 ? 'Nothing was found' : `${options.length} sections`;
  chosen = -1;
  if (options.length > 0) choose(0);
}

field.addEventListener('focus', () => { load().catch(() => {}); });
field.addEventListener('input', show);
field.addEventListener('keydown', (event) => {
  if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
    if (list.hidden || options.length === 0) return;
    event.preventDefault();
    choose(chosen + (event.key === 'ArrowDown' ? 1 : -1));
  } else if (event.key === 'Enter' && options[chosen]) {
    event.preventDefault();
    options[chosen].click();
    close();
    field.blur();
  } else if (event.key === 'Escape') {
    if (list.hidden) field.blur();
    field.value = '';
    close();
  }
});
document.addEventListener('keydown', (event) => {
  const inField = document.activeElement instanceof HTMLInputElement;
  if (event.key === '/' && !event.ctrlKey && !event.metaKey && !event.altKey && !inField) {
    event.preventDefault();
    field.focus();
  }
});
document.addEventListener('click', (event) => {
  if (event.target instanceof Element && !event.target.closest('#find')) close();
});
list.addEventListener('click', close);

// Tabs: blocks of code that say the same in several languages. A reader chooses a language once.

const key = 'mailroom-docs-language';
function remembered() {
  try { return localStorage.getItem(key); } catch { return null; } // a browser may refuse it
}

const groups = [...document.querySelectorAll('.tabs')].map((group, g) => {
  const panels = /** @type {HTMLElement[]} */ ([...group.querySelectorAll('.code')]);
  const names = panels.map((panel) => panel.querySelector('.name')?.textContent ?? '');
  const tabs = make('div');
  tabs.setAttribute('role', 'tablist');
  const buttons = names.map((name, i) => {
    const button = /** @type {HTMLButtonElement} */ (make('button', { type: 'button', id: `tab-${g}-${i}`, textContent: name }));
    button.setAttribute('role', 'tab');
    button.setAttribute('aria-controls', `panel-${g}-${i}`);
    panels[i].id = `panel-${g}-${i}`;
    panels[i].setAttribute('role', 'tabpanel');
    panels[i].setAttribute('aria-labelledby', button.id);
    return button;
  });
  tabs.append(...buttons);
  group.prepend(tabs);
  const select = (name) => {
    const at = names.indexOf(name);
    if (at < 0) return;
    buttons.forEach((button, i) => {
      button.setAttribute('aria-selected', String(i === at));
      button.tabIndex = i === at ? 0 : -1;
      panels[i].hidden = i !== at;
    });
  };
  tabs.addEventListener('keydown', (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const to = buttons[(buttons.indexOf(/** @type {HTMLButtonElement} */ (document.activeElement)) + step + buttons.length) % buttons.length];
    to.focus();
    to.click();
  });
  buttons.forEach((button, i) => {
    button.addEventListener('click', () => {
      try { localStorage.setItem(key, names[i]); } catch { /* the choice holds for this page */ }
      const top = button.getBoundingClientRect().top;
      for (const each of groups) each(names[i]);
      scrollBy(0, button.getBoundingClientRect().top - top); // groups above may have changed their height
    });
  });
  group.classList.add('ready');
  select(names[0]);
  return select;
});
const language = remembered();
if (language) for (const select of groups) select(language);

// Copying of code.

for (const block of document.querySelectorAll('.code')) {
  const button = /** @type {HTMLButtonElement} */ (make('button', { type: 'button', className: 'copy', textContent: 'Copy' }));
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(block.querySelector('code')?.textContent ?? '');
      button.textContent = 'Copied';
    } catch {
      button.textContent = 'Not allowed';
    }
    setTimeout(() => { button.textContent = 'Copy'; }, 1500);
  });
  if (navigator.clipboard) block.append(button); // only pages of HTTPS and of this machine have it
}

// What scrolls sideways can be reached and scrolled with the keyboard.

const wide = /** @type {HTMLElement[]} */ ([...document.querySelectorAll('.scroll, .code pre')]);
function reach() {
  for (const node of wide) {
    if (node.scrollWidth > node.clientWidth) {
      node.tabIndex = 0;
      node.setAttribute('role', 'group');
      node.setAttribute('aria-label', node.tagName === 'PRE' ? 'Code' : 'Table');
    } else for (const name of ['tabindex', 'role', 'aria-label']) node.removeAttribute(name);
  }
}
new ResizeObserver(reach).observe(document.body);

// The list of pages shows the current one.

const current = document.querySelector('#pages [aria-current]');
const pages = document.getElementById('pages');
if (current instanceof HTMLElement && pages) pages.scrollTop = current.offsetTop - pages.offsetTop - pages.clientHeight / 3;
pages?.addEventListener('keydown', (event) => { if (event.key === 'Escape' && location.hash === '#pages') location.hash = '#main'; });

// The table of contents shows the section that is read.

const links = new Map([...document.querySelectorAll('.toc a')].map((link) => [decodeURIComponent(link.getAttribute('href')?.slice(1) ?? ''), link]));
const headings = [...document.querySelectorAll('article h2[id], article h3[id]')];
function mark() {
  let at = headings[0];
  for (const heading of headings) if (heading.getBoundingClientRect().top < innerHeight / 4) at = heading;
  for (const link of links.values()) link.removeAttribute('aria-current');
  if (at) links.get(at.id)?.setAttribute('aria-current', 'true');
}
if (links.size > 0) {
  let waiting = false;
  addEventListener('scroll', () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; mark(); });
  }, { passive: true });
  mark();
}
