// The README's examples run, on a server with the sample rules.
import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { packageRoot, start } from './server.js';

test('every example of the README', async (context) => {
  const server = await start();
  const printed: string[] = [];
  context.mock.method(console, 'log', (...words: unknown[]) => printed.push(words.join(' ')));
  const readme = await readFile(`${packageRoot}README.md`, 'utf8');
  const blocks = [...readme.matchAll(/```js\n(.*?)```/gs)].map((found) => found[1] ?? '');
  assert.equal(blocks.length, 6);
  await mkdir(`${packageRoot}build/readme`, { recursive: true });
  for (const [number, block] of blocks.entries()) {
    const file = `${packageRoot}build/readme/${number}.mjs`;
    await writeFile(file, block.replaceAll('http://127.0.0.1:8080', server.address));
    await import(file);
  }
  await server.stop();
  assert.match(printed.join('\n'), /^199 of 200 left\nlease \d+$/);
});
