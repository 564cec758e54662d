/** Requests in the words of errors. */
import { acctRequests } from './acct-ops.ts';
import { bpfRequests } from './bpf-ops.ts';
import { bytesRequests } from './conntrack-ops.ts';
import { ipsetRequests } from './ipset-ops.ts';
import { ipvsRequests } from './ipvs-ops.ts';
import { legacyRequests } from './legacy-ops.ts';
import { nftraceRequests } from './nftrace-ops.ts';
import type { Request } from './ops.ts';
import { routeRequests } from './route-ops.ts';

/** All others are nft's. */
const families = {
  acct: acctRequests,
  bpf: bpfRequests,
  bytes: bytesRequests,
  ipset: ipsetRequests,
  ipvs: ipvsRequests,
  legacy: legacyRequests,
  nftrace: nftraceRequests,
  route: routeRequests,
};

/**
 * The operation and its object, for errors: `nft.rulesDump`, `table fairlead`. The object of a
 * request that names none is `otherwise`.
 */
export function describeRequest(
  request: Request,
  otherwise: string,
): { operation: string; subject: string } {
  const { kind } = request;
  const [family = 'nft'] = Object.entries(families).find(([, requests]) => kind in requests) ?? [];
  return { operation: `${family}.${kind}`, subject: subjectOf(request) ?? otherwise };
}

/** Returns the object that a request names, or undefined if it names none. */
function subjectOf(request: Request): string | undefined {
  switch (request.kind) {
    case 'elementsDump':
      return `set ${request.set} of table ${request.table}`;
    case 'rulesDump':
      if (request.chain !== '') return `chain ${request.chain} of table ${request.table}`;
      return nonEmpty('table', request.table);
    case 'chainsDump':
    case 'setsDump':
      return nonEmpty('table', request.table);
    case 'bpfElementsCount':
    case 'bpfElementsDump':
      return `map ${request.directory}/${request.map}`;
    case 'bpfProbe':
    case 'bpfStateGet':
      return request.directory;
    case 'ipsetPortsDump':
      return nonEmpty('set', request.set);
    case 'linkGet':
    case 'addressesDump':
      return nonEmpty('link', request.link);
    default:
      return undefined;
  }
}

function nonEmpty(sort: string, name: string): string | undefined {
  return name === '' ? undefined : `${sort} ${name}`;
}
