// Errors: no decision could be had. A refused request is not one of them.

/** The base of all errors of this package. */
export class RatekeeperError extends Error {
  override name = 'RatekeeperError';
}

/**
 * The server was not reached, did not answer in time, or answered 5xx: `onFailure` applies. The permits may have been
 * taken if the request was sent, so it is not sent again.
 */
export class NoAnswer extends RatekeeperError {
  override name = 'NoAnswer';
}

/** The server rejected the request as invalid or not permitted; `detail` says what would be accepted (RFC 9457). */
export class Problem extends RatekeeperError {
  override name = 'Problem';

  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail: string,
    readonly type = 'about:blank',
  ) {
    super(detail ? `${status} ${title}: ${detail}` : `${status} ${title}`);
  }
}
