// What the middleware of Express and of Fastify share: ask before a request, refuse or let it pass, release at the end.
import type { Client } from './client.js';
import type { Decision, Key } from './decision.js';

export interface LimitOptions<Request> {
  client: Client;
  domain: string;
  /** The key or descriptor entries of a request; undefined lets it pass without asking. */
  key: (request: Request) => Key | undefined | Promise<Key | undefined>;
  /** The permits of a request; the default is the policy's cost. */
  cost?: (request: Request) => number | Promise<number>;
  /** The longest wait for permits; the default is 0. */
  maxWaitMs?: number;
}

/** The part of a response that both frameworks have in some form. */
export interface ResponseSide {
  setHeader(name: string, value: string): void;
  /** Sends a refusal. */
  refuse(status: number, body: string): void;
  /** Calls a function once, after the response or when the connection is closed. */
  atEnd(action: () => void): void;
}

/** The decision about a request, undefined if it is not limited. If it is refused, the response is sent. */
export async function limit<Request>(
  options: LimitOptions<Request>,
  request: Request,
  response: ResponseSide,
): Promise<Decision | undefined> {
  const { client, domain, maxWaitMs = 0 } = options;
  const key = await options.key(request);
  if (key === undefined) return undefined;
  const cost = await options.cost?.(request);
  const decision = await client.acquire(domain, key, { maxWaitMs, ...(cost === undefined ? {} : { cost }) });
  for (const [name, value] of Object.entries(decision.headers)) response.setHeader(name, value);
  const { lease } = decision;
  if (lease !== undefined) {
    response.atEnd(() => void client.release(domain, key, lease, { onFailure: 'allow' }).catch(() => undefined));
  }
  if (!decision.allowed) {
    const outage = decision.source === 'closed' || decision.source === 'client_closed';
    const status = outage ? 503 : 429;
    const problem = outage
      ? { title: 'Service Unavailable', status }
      : { type: 'https://iana.org/assignments/http-problem-types#quota-exceeded', title: 'Quota exceeded', status };
    response.refuse(status, JSON.stringify(problem));
  }
  return decision;
}
