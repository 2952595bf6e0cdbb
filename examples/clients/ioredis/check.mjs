// Decisions over the Redis protocol, with ioredis.
//
//   npm install
//   node check.mjs USER [redis://127.0.0.1:6380]
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

const [user, address = 'redis://127.0.0.1:6380'] = process.argv.slice(2);
// One connection for all commands. A command without an answer fails after a second and is not sent again.
const client = new Redis(address, {
  commandTimeout: 1000,
  connectTimeout: 1000,
  maxRetriesPerRequest: 0,
  autoResendUnfulfilledCommands: false,
});

/** Decides one request by the rules of a domain. The reply has alternating names and values. */
async function check(domain, key) {
  const reply = await client.call('RK.CHECK', domain, key);
  const decision = {};
  for (let i = 0; i < reply.length; i += 2) decision[reply[i]] = reply[i + 1];
  return decision;
}

for (let i = 0; i < 4; i++) {
  const { verdict, remaining, limit, retry_after_us } = await check('daily', user);
  console.log(
    verdict === 'allow'
      ? `daily: allow, ${remaining} of ${limit} left`
      : `daily: ${verdict}, retry after ${Math.ceil(retry_after_us / 1e6)} s`,
  );
}

for (let i = 0; i < 3; i++) {
  let decision;
  while ((decision = await check('paced', user)).verdict !== 'allow') {
    await sleep(Math.ceil(decision.retry_after_us / 1e3));
  }
  // The request itself is sent here.
}
console.log('paced: 3 requests sent');

// The same with the limit in the call, as with redis-cell: 30 a minute and a burst of 15 beyond the first.
const [limited, limit, remaining] = await client.call('CL.THROTTLE', `call:${user}`, 15, 30, 60);
console.log(`throttle: ${limited ? 'deny' : 'allow'}, ${remaining} of ${limit} left`);
client.disconnect();
