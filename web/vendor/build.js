// Bundles the libraries of the pages. The argument is the folder to write to; make vendor passes this one.

import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const root = resolve(here, '../..');
const to = resolve(process.argv[2] ?? here);

for (const name of readdirSync(join(here, 'src'))) {
  execFileSync('go', [
    'tool', `-modfile=${join(root, 'tools.mod')}`, 'esbuild', join(here, 'src', name), '--bundle', '--minify', '--format=esm',
    '--target=es2022', '--charset=utf8', '--legal-comments=none', '--log-level=warning', `--outfile=${join(to, name)}`,
  ], { cwd: root, stdio: 'inherit' });
}

// The licences of all installed packages, because all of them are in a bundle.
const { packages } = JSON.parse(readFileSync(join(here, 'package-lock.json'), 'utf8'));
const texts = Object.keys(packages).filter(Boolean).sort().map((path) => {
  const folder = join(here, path);
  const { name, version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const file = ['LICENSE', 'LICENSE.md', 'license', 'LICENSE.txt'].find((candidate) => existsSync(join(folder, candidate)));
  if (!file) throw new Error(`${name} has no licence file`);
  return `${name} ${version}\n\n${readFileSync(join(folder, file), 'utf8').trim()}\n`;
});
writeFileSync(join(to, 'LICENSES.txt'), texts.join(`\n${'-'.repeat(80)}\n\n`));
