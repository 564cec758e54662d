/**
 * The npm package `netlink` as a second reader of what the addon did. It has its own C++ and its
 * own parsers. It has no option for namespaces, so it runs in a process inside the namespace.
 */
import { expect, test } from 'vitest';
import { NFPROTO } from '../../src/kernel/nft/constants.ts';
import { createKernel } from './namespace.ts';
import { applied } from './ops.ts';

/** NFT_MSG_GETGEN by hand, since the package has no layer for nf_tables. */
const script = `
  const { RawNetlinkSocket, createRtNetlink } = require('netlink');
  const NETLINK_NETFILTER = 12;
  const NFT_MSG_GETGEN = (10 << 8) | 16;
  const NLM_F_REQUEST = 1;
  const raw = new RawNetlinkSocket(NETLINK_NETFILTER);
  const request = Buffer.alloc(20);
  request.writeUInt32LE(20, 0);
  request.writeUInt16LE(NFT_MSG_GETGEN, 4);
  request.writeUInt16LE(NLM_F_REQUEST, 6);
  request.writeUInt32LE(7, 8);
  raw.on('message', (message) => {
    const bytes = Buffer.isBuffer(message) ? message : message[0];
    // nlmsghdr, nfgenmsg, then NFTA_GEN_ID: header, u32 in network order.
    const generation = bytes.readUInt32BE(16 + 4 + 4);
    raw.close();
    const route = createRtNetlink();
    route.getLinks().then((links) => {
      console.log(JSON.stringify({ generation, links: links.map((link) => link.attrs.ifname) }));
      route.socket.close();
    });
  });
  raw.send(request, { port: 0, groups: 0 });
`;

test('both readers see the same generation, and the links of the namespace', async () => {
  const { kernel, namespace } = await createKernel();
  await applied(kernel, { kind: 'tableAdd', family: NFPROTO.IPv4, table: 't', comment: '' });
  await namespace.run('ip', ['link', 'add', 'left7', 'type', 'veth', 'peer', 'name', 'right7']);
  const output = await namespace.run(process.execPath, ['--input-type=commonjs', '-e', script]);
  const { generation, links } = JSON.parse(output) as { generation: number; links: string[] };
  expect(generation).toBe(await kernel.generation());
  expect(links).toEqual(expect.arrayContaining(['lo', 'left7', 'right7']));
});
