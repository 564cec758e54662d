/**
 * Who may ask from other machines: who has a token of the API server for us, and may get the path
 * by the cluster's roles. The API server is asked for both, as the kubelet asks it.
 */
import { createHash } from 'node:crypto';
import { objectOf, type RawObject } from '../../source/decode/field-reader.ts';
import type { ApiClient } from '../../source/kubernetes/client.ts';
import { readJson } from '../../source/kubernetes/json-body.ts';
import type { Clock } from '../../time/clock.ts';
import { RecentResults } from '../../time/recent.ts';
import { type Admit, checkMethod } from '../ask/admission.ts';
import { Refusal } from '../ask/refusal.ts';
import { bodyBytesKept } from '../http/request-reader.ts';
import type { Asked } from '../reply.ts';

/** What tokens must be for. One that is sent to a node is of use only at other nodes' ports. */
const audience = 'fairlead';
/** How long a token serves without being reviewed again. */
const allowedMs = 60_000;
const refusedMs = 10_000;
/** Reviews that are kept. One that was forgotten is made again if it is needed. */
const reviewsMax = 256;
const reviewTimeoutMs = 5000;
const reviewBytesMax = 1024 * 1024;

type Client = Pick<ApiClient, 'create' | 'close'>;

export interface AccessOptions {
  /** A client for reviews alone, so that they delay nothing else. */
  readonly open: () => Promise<Client>;
  readonly clock: Pick<Clock, 'after' | 'now'>;
  /** Called with the reason why tokens cannot be reviewed, once until one can be again. */
  readonly problem: (error: Error) => void;
}

export class ReaderAccess {
  readonly #options: AccessOptions;
  /** Why there is no answer, by the hash of token and path: tokens are not kept. */
  readonly #reviews: RecentResults<Refusal | undefined>;
  #client: Promise<Client> | undefined;
  #isAiling = false;

  constructor(options: AccessOptions) {
    this.#options = options;
    this.#reviews = new RecentResults({
      clock: options.clock,
      keepMs: (refusal) => (refusal === undefined ? allowedMs : refusedMs),
      resultsMax: reviewsMax,
    });
  }

  /** A token opens it in the header of a GET, or as the body of a POST: see `tokenOf`. */
  readonly admit: Admit = async (asked, path) => {
    checkMethod(asked, ['GET', 'POST']);
    const token = tokenOf(asked);
    if (token === '') throw new Refusal(401, 'a token is missing, or is no token');
    const refusal = await this.#review(token, path);
    if (refusal !== undefined) throw refusal;
  };

  async close(): Promise<void> {
    (await this.#client?.catch(() => undefined))?.close();
  }

  /** Resolves to why the client gets no answer; undefined: it gets one. */
  async #review(token: string, path: string): Promise<Refusal | undefined> {
    const key = createHash('sha256').update(`${path}\n${token}`).digest('base64');
    try {
      const refusal = await this.#reviews.of(key, () => this.#ask(token, path));
      this.#isAiling = false;
      return refusal;
    } catch (error) {
      if (!this.#isAiling) this.#options.problem(error as Error);
      this.#isAiling = true;
      return new Refusal(503, 'no API server reviews the token: see the log of this node');
    }
  }

  async #ask(token: string, path: string): Promise<Refusal | undefined> {
    const client = await this.#open();
    const limit = new AbortController();
    const cancel = this.#options.clock.after(reviewTimeoutMs, () => limit.abort());
    try {
      return await refusalOf(client, token, path, limit.signal);
    } catch (error) {
      if (!limit.signal.aborted) throw error;
      throw new Error(`the API server did not answer within ${reviewTimeoutMs / 1000} s`);
    } finally {
      cancel();
    }
  }

  #open(): Promise<Client> {
    this.#client ??= this.#options.open();
    this.#client.catch(() => (this.#client = undefined));
    return this.#client;
  }
}

/**
 * `Authorization: Bearer TOKEN`, or the token alone as the body of a POST: the API server's proxy
 * to pods removes that header, and passes bodies on. Empty: there is none.
 */
function tokenOf({ authorization, body, method }: Asked): string {
  const text = method === 'POST' ? body : (/^Bearer +(.*)$/i.exec(authorization)?.[1] ?? '');
  const token = text.trim();
  // A body of this size may have been cut.
  return token.length < bodyBytesKept && /^[\w.~+/=-]+$/.test(token) ? token : '';
}

/** Rejects if the API server does not answer, or does not let this node ask. */
async function refusalOf(
  client: Client,
  token: string,
  path: string,
  signal: AbortSignal,
): Promise<Refusal | undefined> {
  const review = async (of: string, kind: string, spec: object): Promise<RawObject> => {
    const object = { apiVersion: `${of}.k8s.io/v1`, kind, spec };
    const at = `/apis/${of}.k8s.io/v1/${kind.toLowerCase()}s`;
    const body = await client.create(at, object, signal);
    return objectOf(objectOf(await readJson(body, reviewBytesMax)).status);
  };
  const audiences = [audience];
  const who = await review('authentication', 'TokenReview', { token, audiences });
  // An authenticator that knows no audiences leaves them out: then the token is for another one.
  const isForUs = Array.isArray(who.audiences) && who.audiences.includes(audience);
  if (who.authenticated !== true || !isForUs) {
    return new Refusal(401, `the token is not known, or not for audience ${audience}`);
  }
  const { extra, groups, uid, username: user } = objectOf(who.user);
  const nonResourceAttributes = { path, verb: 'get' };
  const spec = { user, uid, groups, extra, nonResourceAttributes };
  const may = await review('authorization', 'SubjectAccessReview', spec);
  if (may.allowed === true && may.denied !== true) return undefined;
  return new Refusal(403, `${user} may not get ${path}`);
}
