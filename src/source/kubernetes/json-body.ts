import { StreamError } from './errors.ts';

/** A body is larger than it may be. */
export class BodyTooLarge extends StreamError {
  constructor(bytesMax: number) {
    super('garbage', `its answer is over ${bytesMax} bytes`);
  }
}

/** The whole body. Rejects with BodyTooLarge if it is larger. */
export async function readBody(body: AsyncIterable<Buffer>, bytesMax: number): Promise<Buffer> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of body) {
    length += part.length;
    if (length > bytesMax) throw new BodyTooLarge(bytesMax);
    parts.push(part);
  }
  return Buffer.concat(parts);
}

/** The whole body. Rejects as `readBody` does, and with a one-line Error if it is not JSON. */
export async function readJson(body: AsyncIterable<Buffer>, bytesMax: number): Promise<unknown> {
  const bytes = await readBody(body, bytesMax);
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch {
    throw new StreamError('garbage', 'its answer is not JSON');
  }
}
