/**
 * Kills during the first load of connect-time translation, while maps and programs are made.
 * FAIRLEAD_LOAD_SECONDS says how long.
 */
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, test as anyTest, beforeAll, expect } from 'vitest';
import {
  keyBytes,
  mapNames,
  packedGroup,
  readGroupKey,
  valueBytes,
} from '../../src/connect-time/maps/layout.ts';
import { poolIdBytes } from '../../src/connect-time/maps/pool-ids.ts';
import { readMap } from '../../src/connect-time/maps/read-map.ts';
import type { Kernel } from '../../src/kernel/kernel.ts';
import { EndpointList } from '../../src/net/endpoint-list.ts';
import { noPause } from '../../src/time/pacer.ts';
import { withRandom } from '../chaos/test-seed.ts';
import { FAMILIES } from '../lab/addresses.ts';
import { askKernel } from '../lab/ask-kernel.ts';
import { type ConnectTimePlace, canTranslate, makeConnectTimePlace } from '../lab/connect-time.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import { BASELINE, service, slices } from '../lab/objects.ts';
import { hangsMs, paced } from '../lab/pace.ts';
import { main } from '../process/main.ts';
import { seconds, settings } from './connect-time-duress.ts';
import { fairleadInside, type KillableProxy } from './fairlead-inside.ts';

const test = anyTest.skipIf(!canTranslate());
const endpointsEach = 8;
const objects = [
  ...BASELINE,
  ...Array.from({ length: 1000 }, (_, i) => {
    const [high, low] = [i >> 8, i & 0xff];
    const name = `web-${i}`;
    const pods = Array.from({ length: endpointsEach }, (_, pod) => ({
      at: { IPv4: `10.${64 + pod}.${high}.${low}`, IPv6: `fd00:10:${64 + pod}::${i.toString(16)}` },
    }));
    const clusterIp = { IPv4: `10.96.${100 + high}.${low}`, IPv6: `fd00:10:96::${high}:${low}` };
    return [service(name, { clusterIp }), ...slices(name, pods)];
  }).flat(),
];

let lab: Lab;
let place: ConnectTimePlace;

beforeAll(async () => {
  if (!canTranslate()) return;
  lab = await createLab();
  place = makeConnectTimePlace();
});
afterAll(async () => {
  await lab?.close();
  place?.close();
});

function start(killed?: AbortSignal): Promise<KillableProxy> {
  const proxy = fairleadInside('nftables', {
    connectTime: place,
    ...(killed === undefined ? {} : { killed }),
  });
  return proxy.start(lab.node, settings, objects);
}

/** Frontends with their pools, and the endpoints of these in any order. */
async function held(): Promise<Map<string, string[]>> {
  const all = await askKernel(lab.node, (kernel) =>
    Promise.all(FAMILIES.map((family) => heldOf(kernel, family))),
  );
  return new Map(all.flat().map(([key, values]) => [key, values.sort()]));
}

async function heldOf(
  kernel: Kernel,
  family: keyof typeof mapNames,
): Promise<[string, string[]][]> {
  const frontends = new Map<string, string>();
  const pools = new Map<string, string[]>();
  const read = (
    kind: 'frontends' | 'endpoints',
    take: (key: Uint8Array, value: Uint8Array) => void,
  ): Promise<void> => {
    const map = mapNames[family][kind];
    const sizes = { keyBytes: keyBytes[kind], valueBytes: valueBytes[kind] };
    return readMap(kernel, { directory: place.directory, map, ...sizes }, noPause, take);
  };
  await read('frontends', (key, value) => frontends.set(hex(key), hex(value)));
  await read('endpoints', (key, value) => {
    const pool = Buffer.from(readGroupKey(key).pool, 'latin1').toString('hex');
    const endpoints = EndpointList.from(family, packedGroup(family, value)).texts();
    pools.set(pool, [...(pools.get(pool) ?? []), ...endpoints]);
  });
  // What is removed by hand comes back with other ids.
  const idLength = 2 * poolIdBytes;
  const led = Array.from(frontends, ([key, value]): [string, string[]] => [
    `${family} ${key}`,
    [value.slice(idLength), ...(pools.get(value.slice(0, idLength)) ?? [])],
  ]);
  return [...led, [`${family} pools`, [String(pools.size)]]];
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}

/** Resolves when the first map is about to be made. */
async function begun(): Promise<void> {
  const endMs = performance.now() + hangsMs;
  while (!existsSync(place.directory)) {
    if (performance.now() > endMs) throw new Error('no map is made');
    await sleep(1);
  }
}

/** Kills it within this number of milliseconds after that. */
async function killedStart(afterMs: number): Promise<void> {
  const killer = new AbortController();
  const started = start(killer.signal).then(
    (proxy) => proxy,
    ({ message }: Error) => message,
  );
  await Promise.race([begun(), started]);
  await sleep(afterMs);
  killer.abort();
  const found = await started;
  if (typeof found === 'string') expect(found).toMatch(/has ended \(SIGKILL\)/);
  // One that had started may still be there.
  else await found.kill();
}

/** `--cleanup` of the program, where the place is that of the machine. */
function cleanUp(): void {
  const bpf = dirname(place.directory);
  const script = `mount --bind ${bpf} /sys/fs/bpf && exec ${process.execPath} ${main} --cleanup`;
  execFileSync('ip', ['netns', 'exec', lab.node.namespace, 'sh', '-c', script]);
  const left = place.left();
  expect(left.map((name) => join(bpf, name))).toEqual([]);
}

test(
  'after kills at random moments of the first load, the next start reaches the desired maps',
  () =>
    withRandom(async (random) => {
      const starting = start();
      await begun();
      const begunMs = performance.now();
      const first = await starting;
      const loadMs = Math.ceil(performance.now() - begunMs);
      const wanted = await held();
      expect(wanted.size).toBeGreaterThan(2000);
      await first.stop();
      cleanUp();
      const endMs = performance.now() + 1000 * seconds;
      let kills = 0;
      do {
        for (let again = 1 + random.below(3); again > 0; again -= 1) {
          await killedStart(random.below(loadMs));
          kills += 1;
        }
        if (random.below(3) > 0) {
          const running = await start();
          expect(await held()).toEqual(wanted);
          await running.stop();
        }
        cleanUp();
      } while (performance.now() < endMs);
      console.log(`${kills} kills within ${loadMs} ms of a first load`);
    }),
  paced(120_000) + 5000 * seconds,
);
