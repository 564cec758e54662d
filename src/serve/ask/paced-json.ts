import type { Pause } from '../../time/pacer.ts';

/**
 * Like JSON.stringify, with pauses between the items of the body's own lists, which may be long.
 */
export async function pacedJson(body: object, pause: Pause): Promise<string> {
  const fields: string[] = [];
  for (const [name, value] of Object.entries(body)) {
    if (value === undefined) continue;
    const text = Array.isArray(value) ? await listText(value, pause) : JSON.stringify(value);
    fields.push(`${JSON.stringify(name)}:${text}`);
  }
  return `{${fields.join(',')}}`;
}

const itemsPerPiece = 16;

async function listText(items: readonly unknown[], pause: Pause): Promise<string> {
  const texts: string[] = [];
  for (let at = 0; at < items.length; at += itemsPerPiece) {
    texts.push(JSON.stringify(items.slice(at, at + itemsPerPiece)).slice(1, -1));
    const rest = pause();
    if (rest !== undefined) await rest;
  }
  return `[${texts.join(',')}]`;
}
