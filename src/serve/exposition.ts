/**
 * Metrics in the format of Prometheus, compressed for clients that accept it, as kube-proxy's are.
 */
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Registry } from 'prom-client';
import { acceptsGzip } from './accepts-gzip.ts';
import type { Asked, Reply } from './reply.ts';

/** Compresses on a thread of libuv, not on the event loop. */
const compress = promisify(gzip);

export async function exposition(registry: Registry, asked: Asked): Promise<Reply> {
  const text = await registry.metrics();
  const headers = { 'Content-Type': registry.contentType, Vary: 'Accept-Encoding' };
  if (!acceptsGzip(asked.acceptEncoding)) return { status: 200, headers, body: text };
  const body = await compress(text);
  return { status: 200, headers: { ...headers, 'Content-Encoding': 'gzip' }, body };
}
