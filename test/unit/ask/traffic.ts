/** Readings of traffic, as a process would answer. */
import type { Traffic } from '../../../src/ask/traffic.ts';

export function item(service: string, connections: number, refused = 0): Traffic['items'][number] {
  return {
    ...{ namespace: 'ns', service, port: 'http', protocol: 'TCP', family: 'IPv4', connections },
    refusals: [{ reason: 'no_endpoints', packets: refused }],
    endpoints: [{ endpoint: '10.244.0.2:8080', connections }],
  };
}

/** `time` is `10:00:00`. */
export function reading(time: string, items: Traffic['items']): Traffic {
  const head = { apiVersion: 'fairlead/v1', kind: 'Traffic' } as const;
  return { ...head, time: `2026-01-01T${time}.000Z`, items };
}
