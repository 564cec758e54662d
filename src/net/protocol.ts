/** What Services carry. */
export const protocols = ['TCP', 'UDP', 'SCTP'] as const;
export type Protocol = (typeof protocols)[number];

/** A port of a Service by name: `http/TCP`, or `TCP` if it has none. */
export function formatPortName(name: string, protocol: string): string {
  return name === '' ? protocol : `${name}/${protocol}`;
}
