import type { ServerResponse } from 'node:http';

/** A proxy between the server and its clients that changes what it passes on. */
export type Gateway =
  /** Passes on only the path of a request. */
  | 'strips the query'
  /** Passes on only parameters that every API server understands. */
  | 'strips new parameters'
  /** Passes on headers immediately, and a body when it is complete. */
  | 'buffers bodies'
  /** Passes on answers when they are complete. */
  | 'buffers answers';

const newParameters = ['sendInitialEvents', 'resourceVersionMatch', 'allowWatchBookmarks'];

export function alterQuery(gateway: Gateway | undefined, url: URL): void {
  if (gateway === 'strips the query') url.search = '';
  if (gateway !== 'strips new parameters') return;
  for (const name of newParameters) url.searchParams.delete(name);
}

/** Makes the response hold back, up to its end, what is written to it from now on. */
export function buffer(gateway: Gateway | undefined, response: ServerResponse): void {
  if (gateway !== 'buffers bodies' && gateway !== 'buffers answers') return;
  const parts: Buffer[] = [];
  const end = response.end.bind(response) as (body: Buffer) => ServerResponse;
  if (gateway === 'buffers answers') response.flushHeaders = () => {};
  response.write = (part: string | Buffer, done?: unknown): boolean => {
    parts.push(Buffer.from(part));
    if (typeof done === 'function') done();
    return true;
  };
  response.end = ((part?: string | Buffer): ServerResponse => {
    if (part !== undefined) parts.push(Buffer.from(part));
    return end(Buffer.concat(parts));
  }) as ServerResponse['end'];
}
