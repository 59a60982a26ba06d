// Each page of the console on a store with 500 agents and 10,000 runs: its look and its accessibility.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { open } from '../../clients/js/test/server.js';
import { colorRules, violations } from './axe.js';
import { fillFleet, fleetConfig, pagesOf } from './fleet.js';
import { operators } from './operator.js';

/** What is on a page when it has loaded. */
const loaded = (route) => (route === 'overview' ? '.chart canvas' : route === 'tail' ? '.empty, .entries' : 'main :is(.card, .row, tbody tr, .waterfall, .group, .empty)');

/** Where the keyboard focus is after Tab: a name, and whether the element or what surrounds it shows an outline. */
const focused = () => {
  const at = document.activeElement;
  const shown = [at, ...['label', 'li', 'tr', '.row', '.span', 'summary', 'td'].map((of) => at.closest(of))].filter(Boolean);
  const visible = shown.some((node) => { const { outlineStyle, outlineWidth } = getComputedStyle(node); return outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2; });
  return { name: `${at.tagName} ${at.className} ${(at.textContent || at.getAttribute('aria-label') || '').slice(0, 40)}`, visible: visible || at === document.body };
};

/** What is smaller than a finger on a phone: buttons, links outside of a sentence, and fields. */
const small = () => [...document.querySelectorAll('main :is(a, button, select, input, summary)')].flatMap((node) => {
  const { width, height } = node.getBoundingClientRect();
  const around = node.closest('label, .row, li:has(> .title), tr, .latest li, .needs li');
  const room = around ? around.getBoundingClientRect().height : height;
  const inText = getComputedStyle(node).display === 'inline' && (node.parentElement?.textContent.trim().length ?? 0) > (node.textContent ?? '').trim().length + 3;
  return width === 0 || height === 0 || Math.max(height, room) >= 43.5 || inText ? [] : [`${node.tagName.toLowerCase()}.${node.className} ${Math.round(height)}px: ${(node.textContent || node.getAttribute('aria-label') || '').trim().slice(0, 40)}`];
});

describe('the console of a fleet', () => {
  const { visit } = operators();

  test('every page is accessible and fits, at four widths and in two schemes, with a visible focus and targets for fingers', async (t) => {
    const server = await open(t, fleetConfig());
    const fleet = await fillFleet(t, server);
    const operator = await visit(t, server);
    await operator.enter();
    const { page } = operator;
    const wrong = [];
    const seen = new Map();
    for (const route of pagesOf(fleet)) {
      const kind = route.split(/[/?]/)[0];
      const name = `console-${kind}${seen.has(kind) ? `-${seen.get(kind)}` : ''}`;
      seen.set(kind, (seen.get(kind) ?? 1) + 1);
      await page.setViewportSize({ width: 390, height: 844 });
      await operator.go(route);
      await page.locator(loaded(route)).first().waitFor();
      for (const width of [390, 900, 1440, 1920]) {
        await page.setViewportSize({ width, height: width === 390 ? 844 : 1000 });
        for (const colorScheme of ['light', 'dark']) {
          await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
          const whole = colorScheme === 'light' && (width === 390 || width === 1440); // another width has the same elements
          wrong.push(...(await violations(page, whole ? undefined : colorRules)).map((text) => `${route} at ${width} in ${colorScheme}: ${text}`));
          await operator.shot(`${name}-${width}-${colorScheme}`);
        }
        const beyond = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        if (beyond > 0) wrong.push(`${route} at ${width} is ${beyond} pixels too wide`);
        if (width === 390) wrong.push(...(await page.evaluate(small)).slice(0, 5).map((text) => `${route}: too small for a finger: ${text}`));
      }
      await page.locator('main').focus();
      for (let i = 0; i < 12; i++) {
        await page.keyboard.press('Tab');
        const at = await page.evaluate(focused);
        if (!at.visible) wrong.push(`${route}: no visible focus on ${at.name}`);
      }
    }
    assert.deepEqual(wrong, []);
  });
});
