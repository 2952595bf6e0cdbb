// Client for the ratekeeper rate limiter. Middleware is in `ratekeeper/express` and `ratekeeper/fastify`.
export { Client, type ClientOptions, type AskOptions, type CheckOptions, type WaitOptions } from './client.js';
export type { Decision, Key, RuleDecision, Verdict } from './decision.js';
export { NoAnswer, Problem, RatekeeperError } from './errors.js';
