// Middleware for Express, versions 4 and 5.
import { type LimitOptions, limit } from './limit.js';

/** The part of Express's response that is used. */
interface ExpressResponse {
  setHeader(name: string, value: string): unknown;
  status(code: number): ExpressResponse;
  type(name: string): ExpressResponse;
  send(body: string): unknown;
  once(event: 'close', action: () => void): unknown;
  locals: Record<string, unknown>;
}

/** The part of Express's request that keys are usually made of; name another type for more. */
export interface RequestFields {
  readonly ip?: string | undefined;
  readonly method: string;
  readonly path: string;
  get(name: string): string | undefined;
}

export type { LimitOptions };

/**
 * Asks a server before each request, and answers refused ones with 429 as problem+json with `Retry-After`. An allowed
 * request that has to wait is delayed; the lease of a concurrency rule is released after the response. The decision is in
 * `response.locals.ratekeeper`. Without an answer the client's `onFailure` applies: `throw` calls `next(error)`.
 */
export function rateLimit<Request = RequestFields>(
  options: LimitOptions<Request>,
): (request: Request, response: ExpressResponse, next: (error?: unknown) => void) => void {
  return (request, response, next) => {
    limit(options, request, {
      setHeader: (name, value) => void response.setHeader(name, value),
      refuse: (status, body) => void response.status(status).type('application/problem+json').send(body),
      atEnd: (action) => void response.once('close', action),
    }).then((decision) => {
      if (decision && !decision.allowed) return;
      response.locals['ratekeeper'] = decision;
      next();
    }, next);
  };
}
