/**
 * The sets of this mode's table (README.md in this folder). Only the number of their elements
 * depends on Services and endpoints. All but `firewall-ips` are sets without data, so that their
 * elements can be added before what depends on them, and deleted after it.
 */
import type { Family } from '../../net/address.ts';
import { byName, setsOf, type TableLayout } from '../nft-table/layout.ts';
import { addressType, commonSets, set } from '../nft-table/parts.ts';
import { refusalSets } from '../nft-table/refusals.ts';
import { SharedElements } from '../nft-table/shared.ts';

/** Another name than mode nftables has: while one mode replaces the other, both tables exist. */
export const tableName = 'fairlead-ipvs';
export const tableComment = 'Filter and masquerade for virtual services of IPVS, kept by fairlead';

/** The link that holds the addresses of Services. kube-proxy's ipvs mode has the same. */
export const linkName = 'kube-ipvs0';

/** Options of ipvsadm that say of which protocol a virtual service is. */
export const ipvsadmOption = { TCP: '-t', UDP: '-u', SCTP: '--sctp-service' } as const;

export function setDefinitions(family: Family) {
  const address = addressType(family);
  const frontend = [address, 'inet_proto', 'inet_service'] as const;
  return byName(
    set('services', frontend, 'virtual services that fairlead made'),
    set('vips', [address], `addresses that fairlead put on ${linkName}`),
    set('internal', frontend, 'masquerade clients from outside the cluster'),
    set('external', frontend, 'masquerade all clients'),
    set('rejected', frontend, 'no endpoints'),
    set('dropped', frontend, 'no endpoints that the policy allows'),
    set('dropped-outside', frontend, 'no endpoints that the policy allows to clients from outside'),
    set('resets', frontend, 'refused: connections of which nothing is known are reset'),
    ...commonSets(family),
    set('health-check-ports', ['inet_proto', 'inet_service'], 'open on every VIP'),
    ...refusalSets(family),
  );
}

export type SetName = keyof ReturnType<typeof setDefinitions>;

/** Sets whose elements Forwardings share. */
export const sharedElements = new SharedElements([
  'vips',
  'hairpin',
  'health-check-ports',
  'self-clients',
]);
export type SharedSet = (typeof sharedElements)['sets'][number];

/** `countsTraffic`: with the sets that count. */
export function tableLayout(family: Family, countsTraffic = false): TableLayout<SetName> {
  const sets = setsOf(setDefinitions(family), countsTraffic);
  return { family, table: tableName, comment: tableComment, sets };
}
