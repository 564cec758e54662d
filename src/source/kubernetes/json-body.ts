import { StreamError } from './errors.ts';

/** The whole body. Rejects with a one-line Error if it is larger, or not JSON. */
export async function readJson(body: AsyncIterable<Buffer>, bytesMax: number): Promise<unknown> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of body) {
    length += part.length;
    if (length > bytesMax) throw new StreamError('garbage', `its answer is over ${bytesMax} bytes`);
    parts.push(part);
  }
  try {
    return JSON.parse(Buffer.concat(parts).toString('utf8'));
  } catch {
    throw new StreamError('garbage', 'its answer is not JSON');
  }
}
