// A hook for Fastify, versions 4 and 5.
import { type LimitOptions, limit } from './limit.js';

/** The part of Fastify's reply that is used. */
interface FastifyReply {
  header(name: string, value: string): unknown;
  code(status: number): FastifyReply;
  type(name: string): FastifyReply;
  send(body: string): unknown;
  raw: { once(event: 'close', action: () => void): unknown };
}

/** The part of Fastify's request that keys are usually made of; name another type for more. */
export interface RequestFields {
  readonly ip: string;
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

export type { LimitOptions };

/**
 * A hook that asks a server before each request, for `app.addHook('onRequest', …)` or the options of a route; use
 * `preHandler` if the key depends on the body. Refused requests are answered with 429 as problem+json with `Retry-After`.
 * An allowed request that has to wait is delayed; the lease of a concurrency rule is released after the response.
 * Without an answer the client's `onFailure` applies: `throw` lets Fastify answer 500.
 */
export function rateLimit<Request = RequestFields>(
  options: LimitOptions<Request>,
): (request: Request, reply: FastifyReply) => Promise<unknown> {
  return async (request, reply) => {
    const decision = await limit(options, request, {
      setHeader: (name, value) => void reply.header(name, value),
      refuse: (status, body) => void reply.code(status).type('application/problem+json').send(body),
      atEnd: (action) => void reply.raw.once('close', action),
    });
    // A hook that has sent the response returns the reply.
    return decision && !decision.allowed ? reply : undefined;
  };
}
