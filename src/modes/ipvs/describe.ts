/** What belongs to a Forwarding, as ipvsadm and nft name it. */
import { NFPROTO } from '../../kernel/nft/constants.ts';
import { familyWord } from '../../kernel/nft/words.ts';
import { formatAddress, formatEndpoint } from '../../net/address.ts';
import type { IPVSFrontend } from './frontends.ts';
import { tableName } from './layout.ts';
import { schedulerOf } from './service-writer.ts';

const options = { TCP: '-t', UDP: '-u', SCTP: '--sctp-service' } as const;

export function describe(frontends: readonly IPVSFrontend[], scheduler: string): string[] {
  return frontends.flatMap((frontend) => {
    const { address, firewall, pool, port, protocol, sets, timeoutSeconds } = frontend;
    const text = formatAddress(address.bytes);
    const at = formatEndpoint(address.bytes, port);
    const persistent = timeoutSeconds === 0 ? '' : ` -p ${timeoutSeconds}`;
    const table = `${familyWord(NFPROTO[address.family])} ${tableName}`;
    const key = `${text} . ${protocol.toLowerCase()} . ${port}`;
    return [
      `-A ${options[protocol]} ${at} -s ${schedulerOf(frontend, scheduler)}${persistent}, ${pool.length} real servers`,
      ...sets.map((set) => `set ${table} ${set} { ${key} }`),
      ...(firewall === undefined ? [] : [`chain ${table} ${firewall.chain}`]),
    ];
  });
}
