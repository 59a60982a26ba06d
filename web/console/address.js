// The page that is open, in the hash of the address: #/runs?q=status%3Afailed. Links and the back button
// work, and no server sees a filter.

import { signal } from '../vendor/preact.js';

/** The open page: its name, the id behind it or '', and its parameters. */
export const address = signal(parse(location.hash));

addEventListener('hashchange', () => { address.value = parse(location.hash); });

/** Parses a hash. */
export function parse(hash) {
  const [path, query = ''] = hash.replace(/^#\/?/, '').split('?');
  const [page = '', ...rest] = path.split('/');
  return { page, id: decode(rest.join('/')), params: Object.fromEntries(new URLSearchParams(query)) };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The link to a page. Empty parameters are left out. */
export function link(page, id = '', params = {}) {
  const query = new URLSearchParams(Object.entries(params).filter(([, value]) => value));
  const text = query.toString();
  return `#/${page}${id ? `/${encodeURIComponent(id)}` : ''}${text ? `?${text}` : ''}`;
}

/** Opens a page. With replace, the back button skips the present one. */
export function go(page, id, params, { replace = false } = {}) {
  const to = link(page, id, params);
  if (replace) {
    history.replaceState(null, '', to);
    address.value = parse(to);
  } else {
    location.hash = to;
  }
}

/** A filter term for a value, quoted where the grammar needs it. */
export function term(key, value) {
  return /^[\w.@~/-]+$/.test(value) ? `${key}:${value}` : `${key}:"${value.replace(/["\\*]/g, '\\$&')}"`;
}
