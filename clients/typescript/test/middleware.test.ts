// The middleware in applications of Express and Fastify, on a real server.
import assert from 'node:assert/strict';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import express from 'express';
import Fastify from 'fastify';
import { Client } from 'ratekeeper';
import { rateLimit as expressLimit } from 'ratekeeper/express';
import { rateLimit as fastifyLimit } from 'ratekeeper/fastify';
import { type Running, rules, start } from './server.js';

let server: Running;
before(async () => {
  server = await start(rules);
});
after(() => server.stop());

interface App {
  url: string;
  close(): Promise<unknown>;
}

type KeyOf = (user: string | undefined) => string | Record<string, string> | undefined;

/** An application with the routes /items and /fail, limited by the header x-user. */
const frameworks: Record<string, (client: Client, key: KeyOf) => Promise<App>> = {
  async express(client, key) {
    const app = express();
    app.set('env', 'test');
    app.use(expressLimit({ client, domain: 'api', key: (request) => key(request.get('x-user')) }));
    app.get('/items', (_, response) => void response.json('items'));
    app.get('/fail', () => {
      throw new Error('a handler failed');
    });
    const listener = app.listen(0, '127.0.0.1');
    await new Promise((resolve) => listener.once('listening', resolve));
    const close = () => new Promise((resolve) => (listener.closeAllConnections(), listener.close(resolve)));
    return { url: `http://127.0.0.1:${(listener.address() as AddressInfo).port}`, close };
  },
  async fastify(client, key) {
    const app = Fastify({ forceCloseConnections: true });
    app.addHook('onRequest', fastifyLimit({ client, domain: 'api', key: ({ headers }) => key(headers['x-user']?.toString()) }));
    app.get('/items', async () => 'items');
    app.get('/fail', async () => {
      throw new Error('a handler failed');
    });
    return { url: await app.listen({ port: 0, host: '127.0.0.1' }), close: () => app.close() };
  },
};

for (const [name, make] of Object.entries(frameworks)) {
  const client = (onFailure: 'throw' | 'allow' | 'deny' = 'throw') =>
    new Client({ server: server.address, timeoutMs: 20_000, onFailure });

  test(`${name}: the fourth request of a day gets 429`, async () => {
    const app = await make(client(), (user) => user);
    const headers = { 'x-user': name };
    for (const left of [2, 1, 0]) {
      const response = await fetch(`${app.url}/items`, { headers });
      assert.equal(response.status, 200);
      assert.match(response.headers.get('ratelimit') ?? '', new RegExp(`^"day";r=${left};t=`));
      await response.text();
    }
    const refused = await fetch(`${app.url}/items`, { headers });
    assert.equal(refused.status, 429);
    const wait = Number(refused.headers.get('retry-after'));
    assert.ok(wait > 7 * 3600 && wait <= 8 * 3600, `${wait}`);
    assert.match(refused.headers.get('content-type') ?? '', /^application\/problem\+json/);
    assert.equal((await refused.json() as { title: string }).title, 'Quota exceeded');
    // Without the field, requests are not limited.
    assert.equal((await fetch(`${app.url}/items`)).status, 200);
    await app.close();
  });

  test(`${name}: a lease is released after the response, also after an error`, async () => {
    const key = { path: '/reports', user: name };
    const app = await make(client(), () => key);
    for (const [path, status] of [['/items', 200], ['/fail', 500], ['/items', 200]] as const) {
      const response = await fetch(app.url + path);
      assert.equal(response.status, status);
      await response.text();
      // The release follows the response.
      while ((await client().peek('api', key)).remaining === 0) await new Promise((resolve) => setTimeout(resolve, 10));
    }
    await app.close();
  });

  test(`${name}: without an answer the choice of the client applies`, async () => {
    for (const [onFailure, status] of [['allow', 200], ['deny', 503], ['throw', 500]] as const) {
      const app = await make(new Client({ server: 'http://127.0.0.1:1', onFailure }), () => 'k');
      const response = await fetch(`${app.url}/items`);
      assert.equal(response.status, status, onFailure);
      await response.text();
      await app.close();
    }
  });
}
