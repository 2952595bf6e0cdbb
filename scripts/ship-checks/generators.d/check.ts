// Calls a server with the types that openapi-typescript generated: check.js SERVER USER
import createClient from 'openapi-fetch';
import type { paths } from './api.js';

const [baseUrl, user = ''] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl: baseUrl ?? '' });
for (let i = 0; i < 4; i++) {
  const { data, error } = await client.POST('/v1/check', { body: { domain: 'daily', descriptor: { user } } });
  if (!data) throw new Error(JSON.stringify(error));
  const long = 7 * 3600 * 1e6;
  console.log(data.verdict, data.remaining, data.limit, data.reset_after_us > long, (data.retry_after_us ?? 0) > long);
}
