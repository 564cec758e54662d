/** The version of the API server. It is read periodically, because control planes are upgraded. */
import { requestBackoff } from '../../time/backoff.ts';
import { pause } from '../../time/clock.ts';
import type { ServerVersion } from '../source.ts';
import type { ApiClient } from './client.ts';
import { readJson } from './json-body.ts';
import type { ReflectorTiming } from './timing.ts';

const bytesMax = 64 * 1024;
const charactersMax = 128;

export class ServerVersionProbe {
  readonly #timing: ReflectorTiming;
  #version: ServerVersion | undefined;

  constructor(timing: ReflectorTiming) {
    this.#timing = timing;
  }

  /** The version as last read; undefined = not read yet. */
  get version(): ServerVersion | undefined {
    return this.#version;
  }

  /** Reads until `signal` aborts. Never rejects: after a failure it tries again. */
  async run(client: Pick<ApiClient, 'getJSON'>, signal: AbortSignal): Promise<void> {
    const { backoffBaseMs, backoffMaxMs, probeMs } = this.#timing;
    const backoff = requestBackoff(backoffBaseMs, backoffMaxMs);
    while (!signal.aborted) {
      const version = await this.#ask(client, signal);
      if (version !== undefined) {
        this.#version = version;
        backoff.reset();
      }
      await pause(version === undefined ? backoff.failed() : probeMs, signal);
    }
  }

  async #ask(
    client: Pick<ApiClient, 'getJSON'>,
    signal: AbortSignal,
  ): Promise<ServerVersion | undefined> {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(this.#timing.probeMaxMs)]);
    try {
      return decode(await readJson(await client.getJSON('/version', limit), bytesMax));
    } catch {
      // Watches report problems of the server.
      return undefined;
    }
  }
}

/** Undefined if it is not the answer of an API server. */
function decode(raw: unknown): ServerVersion | undefined {
  const given = (raw ?? {}) as Readonly<Record<string, unknown>>;
  const text = (field: string): string => {
    const value = given[field];
    return typeof value === 'string' ? value.slice(0, charactersMax) : '';
  };
  const [gitVersion, major, minor] = [text('gitVersion'), text('major'), text('minor')];
  if (!/^v\d+\.\d+\./.test(gitVersion)) return undefined;
  return { gitVersion, major, minor, platform: text('platform') };
}
