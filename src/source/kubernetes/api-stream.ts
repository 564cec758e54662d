import type { ApiClient, ApiResponse, Query } from './client.ts';
import type { Form } from './content-types.ts';
import { describeNetworkError, StreamError } from './errors.ts';

interface ApiStreamOptions {
  /** How long the server may take until its answer begins. */
  readonly startMaxMs: number;
  /** How long it may then be silent. */
  readonly silenceMaxMs: number;
  readonly signal: AbortSignal;
  /** Called whenever bytes arrive. */
  readonly onWord: () => void;
}

/** The body of one GET, with a timeout: a half-open connection gives no error. */
export class ApiStream {
  readonly #options: ApiStreamOptions;
  readonly #controller = new AbortController();
  readonly #onAbort = (): void => this.stop();
  readonly #response: Promise<ApiResponse>;
  #watchdog: NodeJS.Timeout | undefined;
  #silentHalves = 0;
  #form: Form = 'json';

  private constructor(client: ApiClient, path: string, query: Query, options: ApiStreamOptions) {
    this.#options = options;
    options.signal.addEventListener('abort', this.#onAbort, { once: true });
    if (options.signal.aborted) this.stop();
    else this.allow(options.startMaxMs);
    this.#response = client.get(path, query, this.#controller.signal);
  }

  /** Resolves when the server has begun to answer with status 200. Rejects as `get` does. */
  static async open(
    client: ApiClient,
    path: string,
    query: Query,
    options: ApiStreamOptions,
  ): Promise<ApiStream> {
    const stream = new ApiStream(client, path, query, options);
    try {
      stream.#form = (await stream.#response).form;
    } catch (error) {
      const { aborted, reason } = stream.#controller.signal;
      stream.stop();
      throw aborted ? reason : error;
    }
    options.onWord();
    stream.allow(options.silenceMaxMs);
    return stream;
  }

  /** The encoding of the body. */
  get form(): Form {
    return this.#form;
  }

  /** Throws if the connection breaks, if it is silent for too long, and after `stop`. */
  async *chunks(): AsyncGenerator<Buffer> {
    try {
      for await (const chunk of (await this.#response).body) {
        this.#silentHalves = 0;
        this.#watchdog?.refresh();
        this.#options.onWord();
        yield chunk;
      }
    } catch (error) {
      const { aborted, reason } = this.#controller.signal;
      if (aborted) throw reason;
      throw new StreamError('cut', `connection lost: ${describeNetworkError(error)}`);
    } finally {
      this.stop();
    }
  }

  /** Closes the connection. May be called at any time, repeatedly. */
  stop(reason = new StreamError('cut', 'stopped by ourselves')): void {
    clearInterval(this.#watchdog);
    this.#options.signal.removeEventListener('abort', this.#onAbort);
    this.#controller.abort(reason);
  }

  /**
   * Sets how long it may be silent from now on. After this process was stopped, Node.js runs timers
   * before it reads what has arrived: such time counts as half of the silence at most.
   */
  allow(silenceMs: number): void {
    clearInterval(this.#watchdog);
    this.#silentHalves = 0;
    const reason = new StreamError('silent', `the server was silent for ${silenceMs / 1000} s`);
    this.#watchdog = setInterval(() => {
      this.#silentHalves += 1;
      if (this.#silentHalves === 2) this.stop(reason);
    }, silenceMs / 2);
  }
}
