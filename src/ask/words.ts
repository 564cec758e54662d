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

/** `8,000`. Not by toLocaleString, whose tables take 7 MB. */
export function grouped(count: number): string {
  return String(count).replace(/\B(?=(\d{3})+$)/g, ',');
}

/** `a, b and 3 others`: the first names, of `total`. */
export function firstNames(named: readonly string[], total: number): string {
  const more = total - named.length;
  return `${named.join(', ')}${more > 0 ? ` and ${counted(more, 'other')}` : ''}`;
}
