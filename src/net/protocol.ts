/** What Services carry. */
export const protocols = ['TCP', 'UDP', 'SCTP'] as const;
export type Protocol = (typeof protocols)[number];

/**
 * A Service port: `namespace/name:port`, or `namespace/name` if it has no name, as kube-proxy prints
 * it (behaviour document 5.1). `service`: `namespace/name`.
 */
export function formatServicePort(service: string, port: string): string {
  return port === '' ? service : `${service}:${port}`;
}

/** A port of a known Service by name: `http/TCP`, or `TCP` if it has none. */
export function formatPortName(name: string, protocol: string): string {
  return name === '' ? protocol : `${name}/${protocol}`;
}
