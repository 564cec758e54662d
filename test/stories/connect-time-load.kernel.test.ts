/**
 * Connect-time translation while connections are made without a pause: endpoints come and go, the
 * program is killed, and programs are replaced. FAIRLEAD_LOAD_SECONDS says how long each lasts.
 */
import type { ChildProcess } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, test as anyTest, beforeAll, expect } from 'vitest';
import { removeConnectTime } from '../../src/connect-time/maps/choice.ts';
import { askedOf, type Room, standardRoom } from '../../src/connect-time/maps/placement.ts';
import { BPFState } from '../../src/kernel/bpf-ops.ts';
import type { Kernel } from '../../src/kernel/kernel.ts';
import { kernelOps } from '../../src/kernel/ops.ts';
import { RecordWriter } from '../../src/kernel/records.ts';
import type { Random } from '../chaos/random.ts';
import { withRandom } from '../chaos/test-seed.ts';
import { askKernel } from '../lab/ask-kernel.ts';
import { type ConnectTimePlace, canTranslate, makeConnectTimePlace } from '../lab/connect-time.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import { type LoadResult, load, monotonicMs, serveLoad } from '../lab/load.ts';
import { BASELINE, type KubernetesObject, SERVER_PORT, service, slices } from '../lab/objects.ts';
import { vip } from './common.ts';
import { seconds, settings } from './connect-time-duress.ts';
import { fairleadInside } from './fairlead-inside.ts';
import { fairlead } from './fairlead-proxy.ts';

const test = anyTest.skipIf(!canTranslate());
const longestMs = 120_000 + 5000 * seconds;

/** Addresses of pod-a. */
const all = Array.from({ length: 128 }, (_, i) => `10.244.1.${100 + i}`);

let lab: Lab;
let place: ConnectTimePlace;
let server: ChildProcess;

beforeAll(async () => {
  if (!canTranslate()) return;
  lab = await createLab();
  place = makeConnectTimePlace();
  for (const actor of ['node', 'pod-b'] as const) place.include(lab.actors[actor].pid);
  const commands = all.map((address) => `addr add ${address}/24 dev eth0`);
  await lab.actors['pod-a'].run(['ip', '-batch', '-'], commands.join('\n'));
  // All connections would fill the table of connection tracking.
  await lab.node.run(['sysctl', '-qw', 'net.netfilter.nf_conntrack_tcp_timeout_close=1']);
  server = await serveLoad(lab.actors['pod-a'], SERVER_PORT);
});
afterAll(async () => {
  server?.kill();
  await lab?.close();
  place?.close();
});

function web(endpoints: Iterable<string>): KubernetesObject[] {
  const pods = [...endpoints].map((address) => ({ at: { IPv4: address } }));
  return [...BASELINE, service('web', { clusterIp: vip }), ...slices('web', pods)];
}

function loaded(clients: number): Promise<LoadResult> {
  return load(lab.actors.node, { address: vip.IPv4, port: 80 }, { seconds, clients });
}

function failures({ made }: LoadResult): number {
  return made.filter(({ by }) => by === undefined).length;
}

function tell({ made, perSecond }: LoadResult, what: string): void {
  console.log(`${made.length} connections, ${Math.round(perSecond)} a second; ${what}`);
}

async function cleanUp(): Promise<void> {
  await fairlead('nftables').cleanup(lab.node);
  await askKernel(lab.node, (kernel) => removeConnectTime(kernel, place.directory));
  expect(place.left()).toEqual([]);
}

/** The time of an endpoint: from before its addition until its removal was acknowledged. */
class Stay {
  readonly fromMs = monotonicMs();
  toMs = Number.POSITIVE_INFINITY;
}

/** How long after that acknowledgement a connection may begin that the endpoint still gets. */
const lateMs = 10;
/** Endpoints that come with each change; as many go. */
const atOnce = 8;
const changesPerSecond = 25;

test(
  'no connection reaches an endpoint later than 10 ms after its removal was acknowledged',
  () =>
    withRandom(async (random) => {
      const stays = new Map(all.map((address): [string, Stay[]] => [address, []]));
      const present = new Set(all.slice(0, all.length / 2));
      for (const address of present) stays.get(address)!.push(new Stay());
      const proxy = fairlead('nftables', { connectTime: place });
      const running = await proxy.start(lab.node, settings, web(present));
      const loading = loaded(4);
      const startedMs = monotonicMs();
      let changed = 0;
      while (monotonicMs() < startedMs + 1000 * seconds) {
        const absent = all.filter((address) => !present.has(address));
        const going = some(random, [...present]);
        for (const address of some(random, absent)) {
          present.add(address);
          stays.get(address)!.push(new Stay());
        }
        for (const address of going) present.delete(address);
        await running.apply(web(present));
        const nowMs = monotonicMs();
        for (const address of going) stays.get(address)!.at(-1)!.toMs = nowMs;
        changed += 2 * atOnce;
        await sleep(Math.max(0, startedMs + (changed * 500) / (atOnce * changesPerSecond) - nowMs));
      }
      const result = await loading;
      const late = result.made.filter(({ startedMs: at, by }) => {
        // The last one that had begun: an endpoint that is being added may be in force a little
        // earlier.
        const stay = stays.get(by ?? '')?.findLast(({ fromMs }) => fromMs <= at + lateMs);
        return stay !== undefined && at > stay.toMs + lateMs;
      });
      tell(result, `${changed} endpoints came or went`);
      expect({ late: late.length, failed: failures(result) }).toEqual({ late: 0, failed: 0 });
      expect(new Set(result.made.map(({ by }) => by)).size).toBeGreaterThan(all.length / 2);
      await running.stop();
      await cleanUp();
    }),
  longestMs,
);

function some(random: Random, from: string[]): string[] {
  return Array.from({ length: atOnce }, () => from.splice(random.below(from.length), 1)[0]!);
}

test(
  'kills at random moments under load fail no connection, and a cleanup leaves nothing',
  () =>
    withRandom(async (random) => {
      const proxy = fairleadInside('nftables', { connectTime: place });
      const start = (count: number) => {
        return proxy.start(lab.node, settings, web(all.slice(0, 1 + random.below(count))));
      };
      let running = await start(all.length);
      const loading = loaded(2);
      const endMs = performance.now() + 1000 * seconds;
      let kills = 0;
      while (performance.now() < endMs) {
        const changes = (async () => {
          for (;;) await running.apply(web(all.slice(random.below(60), 64 + random.below(60))));
        })();
        await sleep(random.below(400));
        await running.kill();
        await changes.catch(() => {});
        kills += 1;
        const starting = start(all.length);
        running = await starting;
      }
      const result = await loading;
      tell(result, `${kills} kills`);
      expect(failures(result)).toBe(0);
      expect(kills).toBeGreaterThan(0);
      await running.stop();
      await cleanUp();
    }),
  longestMs,
);

/** Whether the programs of each family are those of this version. */
function linkState(kernel: Kernel): Promise<number[]> {
  const { directory } = place;
  const wanted = { reach: 'all', excludes: false, room: standardRoom } as const;
  const secret = new Uint8Array(16);
  const asked = askedOf({ ...place, ...wanted, secret, leaseMs: 1 }, false);
  const states = [2, 10].map(async (family) => {
    const request = { kind: 'bpfStateGet', directory, family, ...asked } as const;
    const { records } = await kernel.dump(request);
    return records.find((one) => one.kind === 'bpfState')!.links;
  });
  return Promise.all(states);
}

/** Makes the programs that are attached look like those of another version. */
async function makeForeign(kernel: Kernel, map: 'settings4' | 'settings6'): Promise<void> {
  const { directory } = place;
  const { records } = await kernel.dump({ kind: 'bpfElementsDump', directory, map });
  const held = records.find((one) => one.kind === 'bpfElements')!;
  const values = Buffer.from(held.values);
  // `version` of `struct settings`.
  values.writeUInt32LE((values.readUInt32LE(12) ^ 1) >>> 0, 12);
  const out = new RecordWriter(kernelOps);
  out.write('bpfElementsAdd', { directory, map, keys: held.keys, values });
  expect(await kernel.apply(out.finish())).toEqual({ kind: 'applied' });
}

test(
  'another version replaces the programs under load, and fails no connection',
  async () => {
    const objects = web(all.slice(0, 8));
    const proxy = fairlead('nftables', { connectTime: place });
    let running = await proxy.start(lab.node, settings, objects);
    const loading = loaded(2);
    const endMs = performance.now() + 1000 * seconds;
    let updates = 0;
    while (performance.now() < endMs) {
      await running.stop();
      await askKernel(lab.node, async (kernel) => {
        for (const map of ['settings4', 'settings6'] as const) await makeForeign(kernel, map);
        expect(await linkState(kernel)).toEqual([BPFState.wrong, BPFState.wrong]);
      });
      running = await proxy.start(lab.node, settings, objects);
      expect(await askKernel(lab.node, linkState)).toEqual([BPFState.right, BPFState.right]);
      updates += 1;
    }
    const result = await loading;
    tell(result, `${updates} updates`);
    expect(failures(result)).toBe(0);
    expect(updates).toBeGreaterThan(0);
    await running.stop();
    await cleanUp();
  },
  longestMs,
);

test(
  'programs whose maps have another form take over under load, and fail no connection',
  async () => {
    const objects = web(all.slice(0, 8));
    // The form of maps includes their size.
    const rooms = [standardRoom, { frontends: 1024, endpoints: 4096 }] as const;
    const start = (room: Room) =>
      fairlead('nftables', { connectTime: { ...place, room } }).start(lab.node, settings, objects);
    let running = await start(rooms[0]);
    const loading = loaded(2);
    const endMs = performance.now() + 1000 * seconds;
    let updates = 0;
    do {
      await running.stop();
      updates += 1;
      running = await start(rooms[updates % rooms.length]!);
    } while (performance.now() < endMs || updates % rooms.length !== 0);
    expect(await askKernel(lab.node, linkState)).toEqual([BPFState.right, BPFState.right]);
    const result = await loading;
    tell(result, `${updates} updates`);
    expect(failures(result)).toBe(0);
    expect(result.made.length).toBeGreaterThan(0);
    await running.stop();
    await cleanUp();
  },
  longestMs,
);
