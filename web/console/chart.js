// A chart over time.

import { html, useEffect, useRef } from '../vendor/preact.js';
import { uPlot } from '../vendor/uplot.js';

const HEIGHT = 150;

const barsPath = uPlot.paths.bars({ size: [0.9, 40], align: 1 });

/** The ticks of a logarithmic axis of milliseconds. */
const TICKS = [1, 10, 100, 1e3, 1e4, 6e4, 6e5, 3.6e6, 3.6e7, 3.6e8];
/** The distances of ticks that are whole numbers. */
const WHOLE = [1, 2, 5].flatMap((n) => Array.from({ length: 15 }, (_, i) => n * 10 ** i)).sort((a, b) => a - b);

/**
 * Draws series over periods of a length, which begin at times, all in seconds. Each series has a name, a color (a variable of the style sheet), the
 * values of the times, and all, the text of what they come to, which the legend has until the pointer is over a time. kind: stacked bars,
 * in the order of the series from below, or lines. format makes text of a value, and tick of one on the axis. log draws milliseconds on a logarithmic scale; whole: the values
 * are whole numbers. The summary says in words what the chart shows.
 */
export function Chart({ title, summary, times, length, series, format, tick = format, kind = 'bars', log = false, whole = false }) {
  const node = useRef(null);
  const shown = useRef(null);
  const width = useRef(0);
  const drawn = log ? series.map((one) => ({ ...one, values: one.values.map((value) => (value === null ? null : Math.log10(value))) })) : series;
  const data = [times, ...heights(drawn, kind)];
  useEffect(() => {
    const draw = () => {
      shown.current?.destroy();
      shown.current = new uPlot(options({ width: width.current || node.current.clientWidth, span: [times[0], times.at(-1) + length], series, format, tick, kind, log, whole }), data, node.current);
    };
    const dark = matchMedia('(prefers-color-scheme: dark)');
    const size = new ResizeObserver(([{ contentRect }]) => {
      width.current = contentRect.width;
      shown.current?.setSize({ width: contentRect.width, height: HEIGHT });
    });
    draw();
    dark.addEventListener('change', draw);
    size.observe(node.current);
    return () => {
      dark.removeEventListener('change', draw);
      size.disconnect();
      shown.current.destroy();
      shown.current = null;
    };
  }, [JSON.stringify(data), kind, log]);
  return html`<figure class="chart"><figcaption><strong>${title}</strong> <span class="hint">${summary}</span></figcaption><div ref=${node} aria-hidden="true"></div></figure>`;
}

// heights returns where each series ends: bars stand on those before them, and the highest is drawn first.
function heights(series, kind) {
  if (kind !== 'bars') return series.map(({ values }) => values);
  const sums = [];
  for (const { values } of series) sums.push(values.map((value, i) => value + (sums.at(-1)?.[i] ?? 0)));
  return sums.reverse();
}

const day = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric' });
const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });

// moment returns a time on the axis, where two are apart that many seconds: a day, or the time of a day.
function moment(seconds, apart) {
  const at = new Date(seconds * 1000);
  return apart >= 86_400 || at.getHours() + at.getMinutes() === 0 ? day.format(at) : clock.format(at);
}

/** @returns {any} */
function options({ width, span, series, format, tick, kind, log, whole }) {
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(name).trim();
  const font = '11px system-ui, sans-serif';
  const axis = { stroke: color('--soft'), font, grid: { stroke: color('--line'), width: 1 }, ticks: { show: false } };
  const drawn = kind === 'bars' ? [...series].reverse() : series;
  return {
    width, height: HEIGHT, padding: [8, 20, 0, 0], cursor: { y: false, drag: { x: false, y: false }, points: { show: kind !== 'bars' } },
    scales: { x: { range: () => span }, y: { range: log ? (_, min, max) => decades(min, max) : (_, __, max) => [0, max > 0 ? max * 1.05 : 1] } },
    axes: [{ ...axis, size: 30, values: (_, ticks, __, ___, apart) => ticks.map((at) => (at === null ? '' : moment(at, apart))) }, { ...axis, size: 58, ...(log && { splits: (_, __, min, max) => TICKS.map(Math.log10).filter((at) => at >= min && at <= max) }), ...(whole && { incrs: WHOLE }), values: (_, ticks) => ticks.map((value) => (value === null ? '' : tick(log ? 10 ** value : value))) }],
    series: [
      { value: (_, at) => (at === null ? 'whole range' : new Date(at * 1000).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short', hourCycle: 'h23' })), label: 'Time' },
      ...drawn.map(({ name, color: of, values, all }) => ({
        label: name, stroke: color(of), width: kind === 'bars' ? 0 : 1.5, fill: kind === 'bars' ? color(of) : undefined,
        paths: kind === 'bars' ? barsPath : undefined, points: { show: kind === 'lines', size: 4 },
        value: (_, __, ___, i) => (i === null ? all : values[i] === null ? '–' : format(values[i])),
      })),
    ],
  };
}

/** The decades around logarithms, at least one. */
function decades(min, max) {
  if (min === null) return [0, 3];
  const from = Math.floor(min);
  return [from, Math.max(Math.ceil(max), from + 1)];
}
