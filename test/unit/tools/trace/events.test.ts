/** What the fake kernel does not have: loopback, IPVS, connections that are known. */
import { describe, expect, it } from 'vitest';
import {
  NF_INET,
  NFPROTO,
  NFT_CONTINUE,
  NFT_TRACETYPE,
} from '../../../../src/kernel/nft/constants.ts';
import { type NftOp, unknownIndex } from '../../../../src/kernel/ops.ts';
import { parseAddress } from '../../../../src/net/address.ts';
import { Explained } from '../../../../src/tools/trace/explained.ts';
import type { TraceEvent } from '../../../../src/tools/trace/headers.ts';
import { describePacket } from '../../../../src/tools/trace/packet-description.ts';
import { Packets } from '../../../../src/tools/trace/packets.ts';
import { Ruleset } from '../../../../src/tools/trace/ruleset.ts';
import { batch } from '../../../conformance/ops.ts';
import { FakeKernel } from '../../../fake/kernel.ts';

const table = 'fairlead-trace-marks';
const hooks = {
  'begin-output': NF_INET.LOCAL_OUT,
  'begin-prerouting': NF_INET.PRE_ROUTING,
  'end-prerouting': NF_INET.PRE_ROUTING,
  'end-input': NF_INET.LOCAL_IN,
  'end-output': NF_INET.LOCAL_OUT,
  'end-postrouting': NF_INET.POST_ROUTING,
} as const;
type ChainName = keyof typeof hooks;

const [client, service, endpoint] = ['10.0.0.9', '10.96.0.1', '10.0.0.7'] as const;

/** The events of a base chain of ours that lets a packet pass. */
function pass(
  chain: ChainName,
  id: number,
  source: string,
  destination: string,
  inputInterface = 0,
): TraceEvent[] {
  const common = {
    kind: 'nftraceEvent',
    ...{ id, family: NFPROTO.IPv4, packetFamily: NFPROTO.IPv4 },
    ...{ table, chain, target: '', mark: 0, inputInterface, outputInterface: 3 },
  } as const;
  const network = new Uint8Array(20);
  network[9] = 6;
  network.set(parseAddress(source)!.bytes, 12);
  network.set(parseAddress(destination)!.bytes, 16);
  const transportHeader = Uint8Array.of(0x9c, 0x40, 0, 80);
  const rule = chain.startsWith('begin') && id === 1 ? 4 : 0;
  const isRule = { type: NFT_TRACETYPE.RULE, rule, verdict: NFT_CONTINUE, policy: unknownIndex };
  const without = { networkHeader: new Uint8Array(0), transportHeader: new Uint8Array(0) };
  return [
    { ...common, ...isRule, networkHeader: network, transportHeader },
    { ...common, type: NFT_TRACETYPE.POLICY, rule: 0, verdict: 0, policy: 1, ...without },
  ];
}

/** The description of the packets of these events. */
async function told(...events: TraceEvent[][]) {
  const kernel = new FakeKernel();
  const inTable = { family: NFPROTO.IPv4, table } as const;
  const chains = Object.entries(hooks).map(([chain, hook]): NftOp => {
    const at = { type: 'filter', hook, priority: 0, policy: 1, comment: '' };
    return { kind: 'baseChainAdd', ...inTable, chain, ...at };
  });
  kernel.foreign(batch({ kind: 'tableAdd', ...inTable, comment: '' }, ...chains));
  const packets = new Packets(table);
  for (const event of events.flat()) packets.take(event, 0);
  const ruleset = new Ruleset(kernel);
  const step = { text: 'One of 2 endpoints is taken.', object: 'ipvsadm -l -t 10.96.0.1:80' };
  const later = { text: 'Later packets meet no rules.', object: 'flowtable inet t f' };
  const explained = new Explained([step, later]);
  const interfaceName = (index: number): string => `eth${index}`;
  const findFault = async (of: object): Promise<string> => JSON.stringify(of);
  const stories = packets.all.map((packet) => {
    return describePacket(packet, { ruleset, explained, interfaceName, findFault });
  });
  return Promise.all(stories);
}

function texts(story: { readonly steps: readonly { readonly text: string }[] } | undefined) {
  return story?.steps.map(({ text }) => text);
}

describe('a packet in trace events', () => {
  it('is one packet, though it has another number when it re-enters through loopback', async () => {
    const stories = await told(
      pass('begin-output', 1, client, service),
      pass('end-postrouting', 1, client, service),
      pass('begin-prerouting', 2, client, service),
      pass('end-input', 2, client, service),
    );
    expect(stories).toHaveLength(1);
    expect(texts(stories[0])).toEqual([
      'This node sends it, from 10.0.0.9:40000.',
      'It is delivered on this node, to 10.96.0.1:80.',
    ]);
    expect(stories[0]!.outcome).toBe('untranslated');
  });

  it('that IPVS processes at hook input is reported with its endpoint', async () => {
    const [story] = await told(
      pass('begin-prerouting', 1, client, service),
      pass('end-prerouting', 1, client, service),
      pass('end-input', 1, client, service),
      pass('end-output', 1, client, endpoint),
      pass('end-postrouting', 1, client, endpoint),
    );
    expect([story!.outcome, story!.destination]).toEqual(['endpoint', '10.0.0.7:80']);
    expect(texts(story)!.slice(1)).toEqual([
      'One of 2 endpoints is taken.',
      'IPVS has it. It goes to 10.0.0.7:80 now.',
      'It leaves by eth3, from 10.0.0.9:40000 to 10.0.0.7:80.',
    ]);
  });

  it('that is forwarded to an endpoint is reported with the path of later ones', async () => {
    const forwarded = (inputInterface: number) =>
      told(
        pass('begin-prerouting', 1, client, service, inputInterface),
        pass('end-prerouting', 1, client, endpoint, inputInterface),
        pass('end-postrouting', 1, client, endpoint, inputInterface),
      );
    const later = { text: 'Later packets meet no rules.', object: 'flowtable inet t f' };
    const [fromOutside] = await forwarded(2);
    expect(fromOutside!.steps.at(-1)).toEqual(later);
    const [ownOne] = await forwarded(0);
    expect(ownOne!.steps).not.toContainEqual(later);
  });

  it('of a known connection matches no rules that translate', async () => {
    const [story] = await told(
      pass('begin-prerouting', 1, client, service),
      pass('end-prerouting', 1, client, endpoint),
      pass('end-postrouting', 1, client, endpoint),
    );
    expect(texts(story)![1]).toBe(
      'Connection tracking knows the connection. It goes to 10.0.0.7:80 now.',
    );
    expect(story!.outcome).toBe('endpoint');
  });

  it('that disappears is reported with the last place where it was seen', async () => {
    const [routed, taken] = await told(
      pass('begin-prerouting', 1, client, service),
      pass('end-prerouting', 1, client, service),
      pass('begin-output', 1, client, endpoint),
    );
    expect([routed!.outcome, taken!.outcome]).toEqual(['lost', 'lost']);
    expect(routed!.because).toBe(
      `It got through hook prerouting, and no further: ${JSON.stringify({
        family: 'IPv4',
        source: parseAddress(client)!.bytes,
        destination: parseAddress(service)!.bytes,
      })}.`,
    );
    expect(taken!.because).toMatch(/^It vanished in hook output, /);
  });

  it('that another program traces is ignored', async () => {
    expect(await told(pass('end-postrouting', 7, client, service))).toEqual([]);
  });
});
