// Decisions: what the server answers, as values.

export type Verdict = 'allow' | 'deny' | 'never';

/** A key, or the entries of a descriptor. */
export type Key = string | Readonly<Record<string, string>>;

/** The state of one rule of the policy. */
export interface RuleDecision {
  readonly name: string;
  readonly verdict: Verdict;
  readonly remaining: number;
  readonly limit: number;
  readonly retry_after_us: number | null;
  readonly reset_after_us: number;
  readonly shadow?: boolean;
}

/**
 * The answer to one request, with the fields of the HTTP API. A refusal is a decision, not an exception. Times are in
 * microseconds; all numbers are exact.
 */
export interface Decision {
  readonly verdict: Verdict;
  /** Whether the verdict is `allow`. */
  readonly allowed: boolean;
  /** Time that an allowed request has to wait: it has reserved permits, or a rule is shaped. */
  readonly wait_us: number;
  /** Time after which the same request passes; null if the cost exceeds the limit. */
  readonly retry_after_us: number | null;
  /** Of the rule that decided; null if no rule limits the request. */
  readonly remaining: number | null;
  readonly limit: number | null;
  /** Time until the key is back in its initial state. */
  readonly reset_after_us: number;
  readonly decided_by: string | null;
  readonly policy: string | null;
  /** Which part decided. `client_open` and `client_closed`: the server did not answer, and `onFailure` decided. */
  readonly source: string;
  readonly rules: readonly RuleDecision[];
  /** Under a concurrency rule: what `release` and `heartbeat` need. */
  readonly lease?: number;
  readonly held?: boolean;
  readonly at_ms: number;
  readonly key: string;
  readonly cost: number;
  readonly op: string;
  /** The fields `ratelimit`, `ratelimit-policy`, `retry-after` and `x-ratelimit-*` of the answer, to be passed on. */
  readonly headers: Readonly<Record<string, string>>;
}

/** A decision from the JSON of the server; undefined if it is none. */
export function fromAnswer(answer: unknown, fields: Headers): Decision | undefined {
  if (typeof answer !== 'object' || answer === null) return undefined;
  const decision = answer as Omit<Decision, 'allowed' | 'headers'>;
  if (!['allow', 'deny', 'never'].includes(decision.verdict) || typeof decision.wait_us !== 'number') return undefined;
  const headers: Record<string, string> = {};
  for (const [name, value] of fields) {
    if (name === 'retry-after' || name.startsWith('ratelimit') || name.startsWith('x-ratelimit')) headers[name] = value;
  }
  return { ...decision, allowed: decision.verdict === 'allow', headers };
}

/** The decision of the caller's choice while the server does not answer. */
export function withoutAnswer(choice: 'allow' | 'deny'): Decision {
  const allowed = choice === 'allow';
  return {
    verdict: choice,
    allowed,
    wait_us: 0,
    retry_after_us: allowed ? 0 : 1_000_000,
    remaining: null,
    limit: null,
    reset_after_us: 0,
    decided_by: null,
    policy: null,
    source: allowed ? 'client_open' : 'client_closed',
    rules: [],
    at_ms: 0,
    key: '',
    cost: 0,
    op: '',
    headers: allowed ? {} : { 'retry-after': '1' },
  };
}
