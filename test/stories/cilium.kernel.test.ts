/**
 * Cilium takes the mark from packets to its devices before they are masqueraded, and gives them an
 * address of its own (pkg/datapath/iptables/iptables.go).
 */
import { afterAll, beforeAll, test } from 'vitest';
import { NODE_SECOND_IP, POD_BRIDGE } from '../lab/addresses.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import { DEFAULT_CLUSTER_CIDR, slices } from '../lab/objects.ts';
import { runStory } from '../lab/run-story.ts';
import { answered, apply, connect, type Story } from '../lab/story.ts';
import { fromOutside, reachable } from './common.ts';
import { fairlead } from './fairlead-proxy.ts';

let lab: Lab;
beforeAll(async () => {
  lab = await createLab();
});
afterAll(() => lab.close());

const ruleset = `
table inet cilium {
  chain mangle {
    type filter hook postrouting priority mangle;
    oifname "${POD_BRIDGE}" meta mark set meta mark & 0xffffbfff
  }
  chain nat {
    type nat hook postrouting priority srcnat + 1;
    oifname "${POD_BRIDGE}" ct status dnat snat ip to ${NODE_SECOND_IP.IPv4}
    oifname "${POD_BRIDGE}" ct status dnat snat ip6 to ${NODE_SECOND_IP.IPv6}
  }
}`;

const story: Story = {
  name: 'Packets without the mark keep the address that Cilium gives them',
  covers: ['5.5'],
  settings: { detectLocalMode: 'ClusterCIDR', clusterCIDR: DEFAULT_CLUSTER_CIDR },
  steps: [
    apply(reachable(), ...slices('web', ['pod-b'])),
    ...fromOutside.map((to) => connect('client', to, answered({ 'pod-b': NODE_SECOND_IP }))),
  ],
};

test.each(['nftables', 'iptables', ''] as const)('mode "%s"', async (mode) => {
  await lab.node.run(['nft', '-f', '-'], ruleset);
  await runStory(lab, fairlead(mode), story);
});
