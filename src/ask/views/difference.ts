/** How the kernel differs from what is in force, for people. */
import { formatServicePort } from '../../net/protocol.ts';
import type { Diff } from '../difference.ts';

type Difference = Diff['families'][number]['differences'][number];

/** `shop/web:http: 2 missing, 1 wrong` */
export function differenceWords({ missing, service, unwanted, wrong }: Difference): string {
  const who =
    service === undefined
      ? 'no Service'
      : formatServicePort(`${service.namespace}/${service.name}`, service.port);
  const counts = Object.entries({ missing, wrong, unwanted }).filter(([, count]) => count > 0);
  return `${who}: ${counts.map(([kind, count]) => `${count} ${kind}`).join(', ')}`;
}
