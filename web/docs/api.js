// Finds operations in the API reference. The page is whole without this script.

const place = /** @type {HTMLElement} */ (document.getElementById('find'));
const main = /** @type {HTMLElement} */ (document.getElementById('main'));

const label = document.createElement('label');
label.htmlFor = 'words';
label.className = 'unseen';
label.textContent = 'Find operations and objects';
const input = document.createElement('input');
Object.assign(input, { type: 'search', id: 'words', placeholder: 'Find (press /)', autocomplete: 'off', spellcheck: false });
const found = document.createElement('p');
found.setAttribute('role', 'status');
place.append(label, input, found);

/** What an operation or object is called, and which fields it has. */
const entries = [...main.querySelectorAll('article')].map((article) => ({
  article,
  text: [...article.querySelectorAll('h3, .route, .lead, tbody th > code')].map((part) => part.textContent).join(' ').toLowerCase(),
  links: /** @type {HTMLElement[]} */ ([...document.querySelectorAll(`a[href="#${CSS.escape(article.id)}"]`)].map((link) => link.closest('nav li li, .index li')).filter(Boolean)),
}));
const sections = [...main.querySelectorAll('section')];

function filter() {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const { article, text, links } of entries) {
    const fits = words.every((word) => text.includes(word));
    if (fits) shown++;
    for (const part of [article, ...links]) part.hidden = !fits;
  }
  for (const section of sections) {
    section.hidden = words.length > 0 && !section.querySelector('article:not([hidden])');
  }
  found.textContent = words.length === 0 ? '' : `${shown} of ${entries.length}`;
}

input.addEventListener('input', filter);

document.addEventListener('keydown', (event) => {
  if (event.key === '/' && !event.ctrlKey && !event.metaKey && !event.altKey && document.activeElement !== input) {
    event.preventDefault();
    input.focus();
  } else if (event.key === 'Escape' && document.activeElement === input) {
    input.value = '';
    filter();
  }
});

// A link to what the filter hides shows everything again.
function follow() {
  const target = document.getElementById(location.hash.slice(1));
  if (target?.closest('[hidden]')) {
    input.value = '';
    filter();
    target.scrollIntoView();
  }
  for (const link of document.querySelectorAll('nav [aria-current]')) link.removeAttribute('aria-current');
  if (target?.id) document.querySelector(`nav a[href="#${CSS.escape(target.id)}"]`)?.setAttribute('aria-current', 'true');
}

addEventListener('hashchange', follow);
follow();
