// The client: `fetch`, which reuses connections, with a bound on time and size.
import { type Decision, type Key, fromAnswer, withoutAnswer } from './decision.js';
import { NoAnswer, Problem } from './errors.js';

export interface ClientOptions {
  /** The address of the HTTP port; the default is http://127.0.0.1:8080. */
  server?: string;
  /** Bound of a whole call in milliseconds; the default is 1000. A call with an id may take it twice. */
  timeoutMs?: number;
  /** What a call without an answer does: throw `NoAnswer` (the default), or return a decision that allows or refuses. */
  onFailure?: OnFailure;
  /** A bearer token. */
  token?: string;
  /** Another `fetch`: one with a proxy or certificates, for example. */
  fetch?: typeof fetch;
}

export type OnFailure = 'throw' | 'allow' | 'deny';

export interface AskOptions {
  /** Replaces the choice of the client for this call. */
  onFailure?: OnFailure;
  /** Ends the call early, with the signal's reason as an error. */
  signal?: AbortSignal;
}

export interface CheckOptions extends AskOptions {
  /** Permits; the default is the policy's. */
  cost?: number;
  /** The longest wait that is accepted: permits that are free within it are reserved. */
  maxWaitMs?: number;
  /** The request is charged once for each id; without an answer it is sent once more. */
  requestId?: string;
}

export interface WaitOptions extends CheckOptions {
  maxWaitMs: number;
}

/** Longer answers are refused; those of the server have a few kilobytes. */
const LARGEST_ANSWER = 1 << 20;
/** The longest delay of `setTimeout`. */
const LONGEST_SLEEP_MS = 2 ** 31 - 1;

/** Asks a ratekeeper server. One client serves a whole program. */
export class Client {
  readonly #base: string;
  readonly #timeoutMs: number;
  readonly #onFailure: OnFailure;
  readonly #fields: Record<string, string>;
  readonly #fetch: typeof fetch;

  constructor(options: ClientOptions = {}) {
    const { server = 'http://127.0.0.1:8080', timeoutMs = 1000, onFailure = 'throw', token } = options;
    const address = URL.canParse(server) ? new URL(server) : undefined;
    if (!address || !['http:', 'https:'].includes(address.protocol) || address.search || address.hash || address.username) {
      throw new TypeError(`"${server}" is not the address of a server; use one such as http://127.0.0.1:8080`);
    }
    if (!(timeoutMs > 0)) throw new TypeError(`timeoutMs is ${timeoutMs}; use a number of milliseconds above 0`);
    this.#base = address.href.replace(/\/+$/, '');
    this.#timeoutMs = timeoutMs;
    this.#onFailure = checkedChoice(onFailure);
    this.#fields = { 'content-type': 'application/json', ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) };
    this.#fetch = options.fetch ?? fetch;
  }

  /** Decides one request. With `maxWaitMs`, `wait_us` of the decision is the time to wait; `acquire` does that. */
  check(domain: string, key: Key, options: CheckOptions = {}): Promise<Decision> {
    const { cost, maxWaitMs, requestId } = options;
    return this.ask('check', domain, key, { cost, max_wait_ms: maxWaitMs, request_id: requestId }, options);
  }

  /**
   * Takes permits and waits until they are free, at most `maxWaitMs`. It is one call, and callers are served in their
   * order. If the wait would be longer, nothing is taken and the decision is a refusal, at once. If the signal aborts
   * the wait, the permits are refunded.
   */
  async acquire(domain: string, key: Key, options: WaitOptions): Promise<Decision> {
    const decision = await this.check(domain, key, options);
    if (decision.allowed && decision.wait_us > 0) {
      try {
        await sleep(Math.ceil(decision.wait_us / 1000), options.signal);
      } catch (aborted) {
        const at_ms = decision.at_ms + decision.wait_us / 1000;
        await this.ask('refund', domain, key, { cost: decision.cost, at_ms }, { onFailure: 'allow' });
        throw aborted;
      }
    }
    return decision;
  }

  /** Runs a function while it holds a permit of a concurrency rule; also if refused: look at `decision.allowed`. */
  async hold<T>(
    domain: string,
    key: Key,
    work: (decision: Decision) => Promise<T> | T,
    options: CheckOptions = {},
  ): Promise<T> {
    const decision = await this.acquire(domain, key, { maxWaitMs: 0, ...options });
    try {
      return await work(decision);
    } finally {
      // Without an answer the lease expires by itself.
      if (decision.lease !== undefined) await this.release(domain, key, decision.lease, { onFailure: 'allow' });
    }
  }

  /** The state of a key; takes nothing. */
  peek(domain: string, key: Key, options: AskOptions = {}): Promise<Decision> {
    return this.ask('peek', domain, key, {}, options);
  }

  /** Returns unused permits. `atMs` cancels a reservation: the decision's `at_ms` plus its wait. */
  refund(domain: string, key: Key, options: AskOptions & { cost?: number; atMs?: number } = {}): Promise<Decision> {
    return this.ask('refund', domain, key, { cost: options.cost, at_ms: options.atMs }, options);
  }

  /** Corrects the cost of an earlier check. */
  settle(
    domain: string,
    key: Key,
    options: AskOptions & { reserved: number; actual: number; atMs?: number },
  ): Promise<Decision> {
    const { reserved, actual, atMs } = options;
    return this.ask('settle', domain, key, { reserved, actual, at_ms: atMs }, options);
  }

  /** Charges permits unconditionally. */
  penalize(domain: string, key: Key, options: AskOptions & { cost?: number } = {}): Promise<Decision> {
    return this.ask('penalize', domain, key, { cost: options.cost }, options);
  }

  /** Charges an estimate under an id, for `commit` or `cancel` within its lifetime (a minute by default). */
  reserve(
    domain: string,
    key: Key,
    options: AskOptions & { requestId: string; cost: number; lifetimeMs?: number },
  ): Promise<Decision> {
    const { requestId, cost, lifetimeMs } = options;
    return this.ask('reserve', domain, key, { request_id: requestId, cost, lifetime_ms: lifetimeMs }, options);
  }

  /** Corrects what was charged under an id, once. `Problem` with status 404 if the id is not known. */
  commit(domain: string, key: Key, options: AskOptions & { requestId: string; actual: number }): Promise<Decision> {
    return this.ask('commit', domain, key, { request_id: options.requestId, actual: options.actual }, options);
  }

  /** Returns what was charged under an id, once. `Problem` with status 404 if the id is not known. */
  cancel(domain: string, key: Key, options: AskOptions & { requestId: string }): Promise<Decision> {
    return this.ask('cancel', domain, key, { request_id: options.requestId }, options);
  }

  /** Refuses every request of the key for this time; 0 lifts the block. */
  block(domain: string, key: Key, options: AskOptions & { forMs: number }): Promise<Decision> {
    return this.ask('block', domain, key, { for_ms: options.forMs }, options);
  }

  /** Releases a lease; `held` is whether it was still valid. */
  release(domain: string, key: Key, lease: number, options: AskOptions = {}): Promise<Decision> {
    return this.ask('release', domain, key, { lease }, options);
  }

  /** Extends a lease; `held` is false if it had expired. */
  heartbeat(domain: string, key: Key, lease: number, options: AskOptions = {}): Promise<Decision> {
    return this.ask('heartbeat', domain, key, { lease }, options);
  }

  /** Resets a key to its initial state. */
  reset(domain: string, key: Key, options: AskOptions = {}): Promise<Decision> {
    return this.ask('reset', domain, key, {}, options);
  }

  /** Sends any verb of the HTTP API with further fields of its body, also ones that this version does not know. */
  async ask(
    verb: string,
    domain: string,
    key: Key,
    fields: Readonly<Record<string, unknown>> = {},
    options: AskOptions = {},
  ): Promise<Decision> {
    const choice = checkedChoice(options.onFailure ?? this.#onFailure);
    const body = JSON.stringify({ domain, ...(typeof key === 'string' ? { key } : { descriptor: key }), ...fields });
    const send = () => this.#post(`${this.#base}/v1/${verb}`, body, options.signal);
    try {
      // A request with an id is charged once, however often it is sent.
      return await send().catch((error) => {
        if (error instanceof NoAnswer && fields['request_id'] !== undefined) return send();
        throw error;
      });
    } catch (error) {
      if (error instanceof NoAnswer && choice !== 'throw') return withoutAnswer(choice);
      throw error;
    }
  }

  async #post(url: string, body: string, signal: AbortSignal | undefined): Promise<Decision> {
    const deadline = new AbortController();
    const end = () => deadline.abort();
    const timer = setTimeout(end, this.#timeoutMs);
    signal?.addEventListener('abort', end);
    try {
      signal?.throwIfAborted();
      const request = { method: 'POST', headers: this.#fields, body, signal: deadline.signal, redirect: 'manual' } as const;
      const response = await this.#fetch(url, request);
      return decided(response, await content(response));
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof NoAnswer || error instanceof Problem) throw error;
      const reason = deadline.signal.aborted ? `nothing within ${this.#timeoutMs} ms` : causeOf(error);
      throw new NoAnswer(`no answer from ${new URL(url).host}: ${reason}`, { cause: error });
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
    }
  }
}

/** The decision in an answer, or the error that it is. */
function decided(response: Response, text: string): Decision {
  const json = parsed(text);
  if (response.status === 200) {
    const decision = fromAnswer(json, response.headers);
    if (decision) return decision;
    throw new NoAnswer('the answer is not a decision; is this the HTTP port of a ratekeeper server?');
  }
  const { title = 'no problem details', detail = text.slice(0, 200), type } = (json ?? {}) as Partial<Problem>;
  const problem = new Problem(response.status, title, detail, type);
  if (response.status >= 500) throw new NoAnswer(`the server cannot decide: ${problem.message}`);
  throw problem;
}

/** The body as text, up to the bound. */
async function content(response: Response): Promise<string> {
  const decoder = new TextDecoder();
  const reader = response.body?.getReader();
  let text = '';
  let bytes = 0;
  for (;;) {
    const part = await reader?.read();
    if (!part || part.done) return text + decoder.decode();
    bytes += part.value.byteLength;
    if (bytes > LARGEST_ANSWER) {
      await reader?.cancel();
      throw new NoAnswer(`the answer is longer than ${LARGEST_ANSWER} bytes`);
    }
    text += decoder.decode(part.value, { stream: true });
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function checkedChoice(choice: OnFailure): OnFailure {
  if (['throw', 'allow', 'deny'].includes(choice)) return choice;
  throw new TypeError(`onFailure is "${choice}"; use "throw", "allow" or "deny"`);
}

/** Node's fetch has the reason in the cause of its error. */
function causeOf(error: unknown): string {
  const cause = (error as { cause?: unknown }).cause ?? error;
  return String((cause as { code?: unknown }).code ?? (cause as { message?: unknown }).message ?? cause);
}

async function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  for (let left = ms; left > 0; left -= LONGEST_SLEEP_MS) {
    await new Promise<void>((resolve, reject) => {
      const end = () => {
        clearTimeout(timer);
        reject(signal?.reason);
      };
      const timer = setTimeout(
        () => {
          signal?.removeEventListener('abort', end);
          resolve();
        },
        Math.min(left, LONGEST_SLEEP_MS),
      );
      if (signal?.aborted) end();
      else signal?.addEventListener('abort', end, { once: true });
    });
  }
}
