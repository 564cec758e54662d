/** A small HTTP server: fixed paths, whole answers, no framework. */
import { formatAddress, formatEndpoint } from '../net/address.ts';
import type { HostPort } from '../net/host-port.ts';
import { pause } from '../time/clock.ts';
import type { HttpThread } from './http/http-thread.ts';
import type { Answers, Certificate, Group, Handling, Place } from './http/wire.ts';
import type { Routes } from './reply.ts';

export interface ServeOptions {
  readonly http: Pick<HttpThread, 'listen'>;
  readonly at: HostPort;
  /** Absent: without TLS. */
  readonly certificate?: Certificate;
  /** The routes, or `probes`, which the HTTP thread answers by itself. */
  readonly routes: Routes | 'probes';
  /** Paths whose requests are not handled one by one. */
  readonly handling?: Readonly<Record<string, Handling>>;
  /** Of routes. Default: metrics. */
  readonly group?: Group;
  /** What to do if the address can't be bound: `fail` rejects, `retry` tries again. */
  readonly onBindFailure: 'retry' | 'fail';
  /** The server could not bind, or failed later. */
  readonly problem: (error: Error) => void;
}

const retryMs = 5000;

/** Serves until `signal` aborts. Rejects when it can't bind and may not retry. */
export async function serve(options: ServeOptions, signal: AbortSignal): Promise<void> {
  const { at, onBindFailure, problem } = options;
  while (!signal.aborted) {
    try {
      await untilClosed(options, signal);
    } catch (error) {
      const words = `cannot serve on ${formatEndpoint(at.address.bytes, at.port)}: ${bindFailure(error as Error)}`;
      const failure = new Error(words, { cause: error });
      problem(failure);
      if (onBindFailure === 'fail') throw failure;
      await pause(retryMs, signal);
    }
  }
}

function bindFailure(error: Error & { readonly code?: string }): string {
  if (error.code !== 'EADDRINUSE') return error.message;
  return `${error.message}: another program has the port, most likely a kube-proxy that runs on this node, too`;
}

/** Resolves when the signal closed the server; rejects when it can't listen. */
function untilClosed(options: ServeOptions, signal: AbortSignal): Promise<void> {
  const { at, certificate, group = 'metrics', handling, http, routes } = options;
  return new Promise((resolve, reject) => {
    const listening = http.listen({
      place: placeFor(at),
      ...(certificate && { certificate }),
      ...(routes === 'probes'
        ? { group: 'healthz', answers: { kind: 'probes' } }
        : { group, answers: answersOf(routes, handling), routes }),
      opened: () => {},
      failed: (error) => {
        signal.removeEventListener('abort', close);
        reject(error);
      },
    });
    const close = (): void => {
      listening.close();
      resolve();
    };
    signal.addEventListener('abort', close, { once: true });
  });
}

/** As in Go: a wildcard of either family means both, if the host has both. */
function placeFor({ address, port }: HostPort): Place {
  const isWildcard = address.bytes.every((byte) => byte === 0);
  return isWildcard ? { port } : { host: formatAddress(address.bytes), port };
}

function answersOf(routes: Routes, handling: ServeOptions['handling'] = {}): Answers {
  const paths = Object.keys(routes).map((path) => [path, handling[path] ?? 'each'] as const);
  return { kind: 'paths', paths: Object.fromEntries(paths) };
}
