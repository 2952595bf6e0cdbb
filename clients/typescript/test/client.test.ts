// The client against a real server.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Client, NoAnswer, Problem } from 'ratekeeper';
import { type Running, rules, silent, start } from './server.js';

let server: Running;
let client: Client;
before(async () => {
  server = await start(rules);
  client = new Client({ server: server.address, timeoutMs: 20_000 });
});
after(() => server.stop());

test('three of a day pass, and the fourth is a decision', async () => {
  for (const left of [2, 1, 0]) assert.equal((await client.check('api', 'day')).remaining, left);
  const decision = await client.check('api', 'day');
  assert.equal(decision.verdict, 'deny');
  assert.equal(decision.allowed, false);
  assert.equal(decision.decided_by, 'day');
  // A permit returns every eight hours.
  const wait = decision.retry_after_us ?? 0;
  assert.ok(wait > 7 * 3600e6 && wait <= 8 * 3600e6, `${wait}`);
  assert.equal(Number(decision.headers['retry-after']), Math.ceil(wait / 1e6));
  assert.equal(decision.headers['ratelimit-policy'], '"day";q=3;w=86400');
  assert.deepEqual(decision.rules.map((rule) => [rule.name, rule.limit]), [['day', 3]]);
});

test('a cost above the limit never passes', async () => {
  const decision = await client.check('api', 'never', { cost: 4 });
  assert.deepEqual([decision.verdict, decision.retry_after_us], ['never', null]);
});

test('every verb', async () => {
  const remaining = async (decision: Promise<{ remaining: number | null }>) => (await decision).remaining;
  assert.equal(await remaining(client.check('api', 'verbs', { cost: 2 })), 1);
  assert.equal(await remaining(client.peek('api', 'verbs')), 1);
  assert.equal(await remaining(client.settle('api', 'verbs', { reserved: 2, actual: 1 })), 2);
  assert.equal(await remaining(client.refund('api', 'verbs', { cost: 1 })), 3);
  assert.equal(await remaining(client.penalize('api', 'verbs', { cost: 3 })), 0);
  assert.equal(await remaining(client.reset('api', 'verbs')), 3);
});

test('acquire waits until the reserved permit is free', async () => {
  const key = { user: 'acquire' };
  for (let i = 0; i < 3; i++) {
    const decision = await client.acquire('api', key, { maxWaitMs: 60_000 });
    assert.ok(decision.allowed && decision.wait_us <= 200_000);
  }
  for (let i = 0; i < 3; i++) await client.penalize('api', key, { cost: 1 });
  assert.equal((await client.acquire('api', key, { maxWaitMs: 0.001 })).verdict, 'deny');
});

test('an aborted acquire refunds its reservation', async () => {
  const stop = new AbortController();
  assert.ok((await client.check('api', 'abort', { cost: 3 })).allowed);
  const waiting = client.acquire('api', 'abort', { maxWaitMs: 9 * 3600e3, signal: stop.signal });
  while ((await client.peek('api', 'abort')).reset_after_us < 25 * 3600e6) {
    await new Promise((resolve) => setTimeout(resolve, 10)); // the reservation is not made yet
  }
  stop.abort(new Error('enough'));
  await assert.rejects(waiting, /enough/);
  assert.ok((await client.peek('api', 'abort')).reset_after_us <= 24 * 3600e6);
});

test('a lease is released when the function returns or throws', async () => {
  const key = { path: '/reports', user: 'lease' };
  await client.hold('api', key, async (first) => {
    assert.ok(first.allowed && first.lease !== undefined);
    assert.equal((await client.heartbeat('api', key, first.lease)).held, true);
    await client.hold('api', key, (second) => assert.equal(second.allowed, false));
  });
  const failing = client.hold('api', key, () => {
    throw new Error('a report failed');
  });
  await assert.rejects(failing, /a report failed/);
  assert.ok(await client.hold('api', key, (decision) => decision.allowed));
});

test('a request with an id is charged once, also if its answer is lost', async () => {
  let lost = 0;
  const losing: typeof fetch = async (...request) => {
    const response = await fetch(...request);
    await response.clone().text();
    if (lost++ === 0) throw new TypeError('the connection was reset');
    return response;
  };
  const unlucky = new Client({ server: server.address, timeoutMs: 20_000, fetch: losing });
  const decision = await unlucky.check('api', 'ids', { cost: 2, requestId: 'a' });
  assert.deepEqual([decision.remaining, decision.source, lost], [1, 'repeated', 2]);
  assert.equal((await client.commit('api', 'ids', { requestId: 'a', actual: 1 })).remaining, 2);
  assert.equal((await client.reserve('api', 'ids', { requestId: 'b', cost: 2, lifetimeMs: 600_000 })).remaining, 0);
  assert.equal((await client.cancel('api', 'ids', { requestId: 'b' })).remaining, 2);
  await assert.rejects(client.cancel('api', 'ids', { requestId: 'c' }), (error: unknown) => {
    return error instanceof Problem && error.status === 404;
  });
  assert.equal((await client.block('api', 'ids', { forMs: 3_600_000 })).decided_by, 'block');
  assert.equal((await client.check('api', 'ids')).verdict, 'deny');
});

test('an invalid request is a typed problem, also if failures allow', async () => {
  const asked = client.ask('check', 'api', 'k', { color: 'red' }, { onFailure: 'allow' });
  await assert.rejects(asked, (error: unknown) => {
    assert.ok(error instanceof Problem);
    assert.equal(error.status, 400);
    assert.match(error.detail, /unknown field `color`/);
    return true;
  });
});

test('the caller chooses what happens without an answer', async () => {
  const quiet = await silent();
  for (const [address, timeoutMs] of [[quiet.address, 50], ['http://127.0.0.1:1', 20_000]] as const) {
    const lost = new Client({ server: address, timeoutMs });
    await assert.rejects(lost.check('api', 'k'), NoAnswer);
    const allowed = await lost.check('api', 'k', { onFailure: 'allow' });
    assert.deepEqual([allowed.verdict, allowed.source, allowed.limit], ['allow', 'client_open', null]);
    const denied = await lost.check('api', 'k', { onFailure: 'deny' });
    assert.deepEqual([denied.verdict, denied.source, denied.retry_after_us], ['deny', 'client_closed', 1e6]);
  }
  await quiet.stop();
});

test('invalid options are found at once', () => {
  for (const options of [{ server: 'localhost:8080' }, { server: 'ftp://h' }, { timeoutMs: 0 }, { onFailure: 'x' as never }]) {
    assert.throws(() => new Client(options), TypeError);
  }
});
