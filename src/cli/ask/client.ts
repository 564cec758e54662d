/** Asks the running process of this node. */
import { type Answer, type EndpointName, endpoints, type QueryName } from '../../ask/endpoints.ts';

/** No process answers, or what answers is not Fairlead. */
export class UnreachableError extends Error {}

/** The process refuses to answer the question. */
export class RefusedError extends Error {
  /** The Service that the page before ended with is gone. */
  readonly isGone: boolean;

  constructor(reason: string, isGone: boolean) {
    super(reason);
    this.isGone = isGone;
  }
}

const patienceMs = 10_000;

export type Query<Name extends EndpointName> = { readonly [K in QueryName<Name>]?: string };

/** Rejects with an UnreachableError or a RefusedError. */
export async function ask<Name extends EndpointName>(
  server: string,
  name: Name,
  query: Query<Name>,
): Promise<Answer<Name>> {
  const given = Object.entries(query) as [string, string][];
  const url = `${server}${endpoints[name].path}?${new URLSearchParams(given)}`;
  const response = await get(url, server);
  const body = await readJson(response, server);
  if (response.ok) return body as Answer<Name>;
  const { error } = body as { readonly error?: unknown };
  throw new RefusedError(String(error), response.status === 410);
}

async function get(url: string, server: string): Promise<Response> {
  try {
    return await fetch(url, { signal: AbortSignal.timeout(patienceMs) });
  } catch (error) {
    const { cause, message } = error as Error;
    const reason = cause instanceof Error ? cause.message : message;
    throw new UnreachableError(`cannot reach ${server}: ${reason}`);
  }
}

async function readJson(response: Response, server: string): Promise<unknown> {
  const isJson = response.headers.get('content-type') === 'application/json';
  const body = await response.text().catch((error: Error) => error.message);
  if (isJson) return JSON.parse(body);
  const words = `${response.status} ${body.slice(0, 100).trim()}`;
  throw new UnreachableError(`${server} is no Fairlead that answers this: ${words}`);
}
