/** What this process does with the packets of a frontend: it has sockets, and no rules. */
import { NF_INET } from '../../kernel/nft/constants.ts';
import { formatEndpoint } from '../../net/address.ts';
import { type PathDescriber, packetPathOf } from '../packet-path.ts';

export const describer: PathDescriber = {
  endpointHook: NF_INET.LOCAL_OUT,
  describe(config, to, client) {
    const { forwarding, frontend, address } = to;
    const path = packetPathOf(config, to, client);
    const at = formatEndpoint(address.bytes, frontend.port);
    const socket = `socket ${at}/${forwarding.servicePort.protocol} of this process`;
    const because = 'this process itself connects to the endpoint';
    // Datagrams can be taken and dropped; a connection can only be refused.
    const isRefused = path.end === 'dropped' && forwarding.servicePort.protocol !== 'UDP';
    return {
      ...path,
      ...(isRefused ? { end: 'rejected' } : {}),
      ...(path.end === 'endpoint' ? { isMasqueraded: true, because } : {}),
      objects: {
        frontend: socket,
        sourceRanges: socket,
        affinity: socket,
        endpoints: socket,
      },
    };
  },
  unclaimed: () => undefined,
};
