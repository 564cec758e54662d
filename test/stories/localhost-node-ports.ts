/**
 * What node ports on loopback addresses do in a mode, where nodePortAddresses name these: by
 * sockets in addition to the rules, and with connect-time translation.
 */
import { afterAll, afterEach, test as anyTest, beforeAll, expect } from 'vitest';
import type { ModeName } from '../../src/config/config.ts';
import { connectTimes } from '../../src/config/settings/modes.ts';
import { removeConnectTime } from '../../src/connect-time/maps/choice.ts';
import { type ActorName, FAMILIES, type Family, POD_A_IP, POD_C_IP } from '../lab/addresses.ts';
import { askKernel } from '../lab/ask-kernel.ts';
import { type ConnectTimePlace, canTranslate, makeConnectTimePlace } from '../lab/connect-time.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import {
  BASELINE,
  type KubernetesObject,
  service,
  slices,
  settings as standard,
} from '../lab/objects.ts';
import { answerMs, paced } from '../lab/pace.ts';
import type { ProxySettings, RunningProxy } from '../lab/proxy.ts';
import { whoAnswers } from '../lab/who-answers.ts';
import { externalLocal, NODE_PORT, vip } from './common.ts';
import { fairleadInside, type InsideOptions } from './fairlead-inside.ts';
import { cleanup, type LogLine } from './fairlead-proxy.ts';

export const loopback = { IPv4: '127.0.0.1', IPv6: '::1' } as const;

const settings = {
  ...standard,
  nodePortAddresses: ['primary', 'localhost'],
  // For mode iptables, which has IPv4 by this.
  localhostNodePorts: true,
} as const;

function web(pods: readonly ActorName[], spec: Record<string, unknown> = {}): KubernetesObject[] {
  const ports = [{ port: 80, nodePort: NODE_PORT }];
  return [...BASELINE, service('web', { clusterIp: vip, ports, spec }), ...slices('web', pods)];
}

export function localhostNodePorts(mode: ModeName): void {
  let lab: Lab;
  let place: ConnectTimePlace | undefined;
  beforeAll(async () => {
    lab = await createLab();
    if (!canTranslate()) return;
    place = makeConnectTimePlace();
    for (const actor of ['node', 'pod-a'] as const) place.include(lab.actors[actor].pid);
  });
  afterAll(async () => {
    await lab.close();
    place?.close();
  });

  function answers(
    actor: ActorName,
    address: string,
    { port = NODE_PORT, awaited = [] as readonly string[], timeoutMs = answerMs } = {},
  ): Promise<string[]> {
    const asking = { connections: 12, timeoutMs, awaited };
    return whoAnswers(lab.actors[actor], { address, port }, asking);
  }

  async function serve(): Promise<void> {
    for (const family of FAMILIES) {
      await lab.actors['pod-a'].listen('TCP', POD_A_IP[family], 8080);
      await lab.actors['pod-c'].listen('TCP', POD_C_IP[family], 8080);
    }
    await lab.node.run(['sysctl', '-qw', 'net.ipv4.conf.all.route_localnet=1']);
  }

  let running: RunningProxy | undefined;

  async function start(
    its: ProxySettings,
    objects: readonly KubernetesObject[],
    options: InsideOptions = {},
  ): Promise<RunningProxy> {
    running = await fairleadInside(mode, options).start(lab.node, its, objects);
    return running;
  }

  async function stop(): Promise<void> {
    await running?.stop();
    running = undefined;
  }

  afterEach(async () => {
    await stop();
    await cleanup(lab.node);
    if (place !== undefined) {
      const { directory } = place;
      await askKernel(lab.node, (kernel) => removeConnectTime(kernel, directory));
    }
    await lab.reset();
  });

  for (const connectTime of connectTimes) {
    const test = connectTime === 'off' ? anyTest : anyTest.skipIf(!canTranslate());
    test(`node ports answer to the node at loopback addresses, connect time ${connectTime}`, async () => {
      await serve();
      const its = { ...settings, connectTime };
      const proxy = await start(its, web(['pod-a']), place && { connectTime: place });
      const expectBy = async (
        by: readonly string[],
        families: readonly Family[] = FAMILIES,
      ): Promise<void> => {
        for (const family of families) {
          expect(await answers('node', loopback[family], { awaited: by })).toEqual(by);
        }
      };
      await expectBy(['pod-a']);
      for (const family of FAMILIES) {
        expect(await answers('pod-a', loopback[family])).toEqual(['reset']);
      }
      await proxy.apply(web(['pod-a', 'pod-c']));
      await expectBy(['pod-a', 'pod-c']);
      await proxy.apply(web(['pod-c'], externalLocal));
      // Rules of mode iptables drop what its node port gets from anybody then, by sockets too.
      const isDropped = mode === 'iptables' && connectTime === 'off';
      await expectBy(['pod-c'], isDropped ? ['IPv4'] : FAMILIES);
      await proxy.apply(web(['pod-a', 'pod-c'], { sessionAffinity: 'ClientIP' }));
      for (const family of FAMILIES)
        expect(await answers('node', loopback[family])).toHaveLength(1);
      await proxy.apply(web([]));
      for (const family of FAMILIES) {
        const found = await answers('node', loopback[family], { timeoutMs: paced(1000) });
        expect(found).not.toContain('pod-a');
      }
      await proxy.apply(web(['pod-a']));
      await stop();
      // Its sockets have gone.
      if (connectTime !== 'off') await expectBy(['pod-a']);
    });
  }

  anyTest('a port that a process of the node has is told, and nothing else suffers', async () => {
    await serve();
    const taken: Family = 'IPv6';
    await lab.actors.node.listen('TCP', loopback[taken], NODE_PORT);
    const told: LogLine[] = [];
    await start(settings, web(['pod-a']), { log: (line) => told.push(line) });
    expect(await answers('node', loopback.IPv6)).toEqual(['node']);
    expect(await answers('node', loopback.IPv4)).toEqual(['pod-a']);
    for (const family of FAMILIES)
      expect(await answers('pod-a', vip[family], { port: 80 })).toEqual(['pod-a']);
    const refusals = told.filter(
      ({ msg }) => msg === 'Could not listen on the loopback address for node port; retrying',
    );
    expect(refusals.map(({ service, port, err }) => [service, port, err])).toEqual([
      [
        'default/web',
        'TCP',
        `listen on TCP [::1]:${NODE_PORT}: address already in use (EADDRINUSE)`,
      ],
    ]);
  });
}
