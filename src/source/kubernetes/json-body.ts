import { Chunks } from './chunks.ts';
import { StreamError } from './errors.ts';
import { parseJSON } from './values.ts';

/** A body is larger than it may be. */
export class BodyTooLarge extends StreamError {
  constructor(bytesMax: number) {
    super('garbage', `its answer is over ${bytesMax} bytes`);
  }
}

/** The whole body. Rejects with BodyTooLarge if it is larger. */
export async function readBody(body: AsyncIterable<Buffer>, bytesMax: number): Promise<Buffer> {
  const chunks = new Chunks(bytesMax);
  for await (const part of body) {
    chunks.add(part);
    if (chunks.isOversized) break;
  }
  const whole = chunks.take();
  if (whole === 'oversized') throw new BodyTooLarge(bytesMax);
  return whole;
}

/** The whole body. Rejects as `readBody` and `parseBody` do. */
export async function readJson(body: AsyncIterable<Buffer>, bytesMax: number): Promise<unknown> {
  return parseBody(await readBody(body, bytesMax));
}

/** Throws a one-line Error if it is not JSON, or has too many values. */
export function parseBody(bytes: Buffer): unknown {
  try {
    return parseJSON(bytes);
  } catch {
    throw new StreamError('garbage', 'its answer is not JSON');
  }
}
