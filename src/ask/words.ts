/** Parts of texts for terminal and page. */

/** A duration in its two largest units: `3d4h`, `5m12s`, `0.2s`. */
export function age(seconds: number): string {
  if (seconds < 10) return `${Number(seconds.toFixed(1))}s`;
  const whole = Math.floor(seconds);
  const [days, hours] = [Math.floor(whole / 86_400), Math.floor(whole / 3600)];
  const minutes = Math.floor(whole / 60);
  if (days > 0) return `${days}d${hours % 24}h`;
  if (hours > 0) return `${hours}h${minutes % 60}m`;
  if (minutes > 0) return `${minutes}m${whole % 60}s`;
  return `${whole}s`;
}

/** `8,000 Services`. */
export function counted(count: number, noun: string): string {
  return `${grouped(count)} ${noun}${count === 1 ? '' : 's'}`;
}

/** Orders names as people do: `web-2` before `web-10`. */
export function byName(a: string, b: string): number {
  let at = 0;
  while (at < a.length && a.charCodeAt(at) === b.charCodeAt(at)) at += 1;
  while (at > 0 && isDigit(a, at - 1)) at -= 1;
  const shorter = digitsFrom(a, at) - digitsFrom(b, at);
  const isOfNumbers = isDigit(a, at) && isDigit(b, at);
  if (isOfNumbers && shorter !== 0) return shorter;
  return a === b ? 0 : a < b ? -1 : 1;
}

function isDigit(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  return code >= 48 && code <= 57;
}

function digitsFrom(text: string, at: number): number {
  let end = at;
  while (isDigit(text, end)) end += 1;
  return end - at;
}

/** `8,000`. Not by toLocaleString, whose tables take 7 MB. */
export function grouped(count: number): string {
  return String(count).replace(/\B(?=(\d{3})+$)/g, ',');
}

/** `a, b and 3 others`: the first names, of `total`. */
export function firstNames(named: readonly string[], total: number): string {
  const more = total - named.length;
  return `${named.join(', ')}${more > 0 ? ` and ${counted(more, 'other')}` : ''}`;
}
