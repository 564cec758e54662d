/** What this process does with the packets of a frontend: it has sockets, and no rules. */
import { NF_INET } from '../../kernel/nft/constants.ts';
import { formatEndpoint } from '../../net/address.ts';
import { type Guide, passageOf } from '../passage.ts';

export const guide: Guide = {
  endpointHook: NF_INET.LOCAL_OUT,
  way(config, to, client) {
    const { forwarding, frontend, address } = to;
    const passage = passageOf(config, to, client);
    const at = formatEndpoint(address.bytes, frontend.port);
    const socket = `socket ${at}/${forwarding.servicePort.protocol} of this process`;
    const because = 'this process itself connects to the endpoint';
    // Datagrams can be taken and dropped; a connection can only be refused.
    const isRefused = passage.end === 'dropped' && forwarding.servicePort.protocol !== 'UDP';
    return {
      ...passage,
      ...(isRefused ? { end: 'rejected' } : {}),
      ...(passage.end === 'endpoint' ? { isMasqueraded: true, because } : {}),
      places: {
        frontend: socket,
        sourceRanges: socket,
        affinity: forwarding.affinityTimeoutSeconds > 0 ? socket : undefined,
        endpoints: socket,
      },
    };
  },
  stray: () => undefined,
};
