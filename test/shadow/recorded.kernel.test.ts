/**
 * `fairlead shadow` with what kube-proxy 1.36 has programmed for 17 mixed Services, as
 * `scripts/test-shadow` has recorded it: what is right, and what is wrong since then.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createNamespace, type Namespace } from '../conformance/namespace.ts';
import { Program, temporaryDirectory } from '../process/program.ts';
import { misjudged, type Said } from './findings.ts';
import {
  clusterCIDR,
  mixedObjects,
  nodeName,
  type Raw,
  recordedServices,
  surroundings,
} from './mixed.ts';
import { type Plant, plants } from './plants.ts';

/** Half of their kinds at a time: so few Services suit each. */
const plantsMost = 5;

/** Mode, and what loads each recorded listing. */
const modes = {
  nftables: { nft: ['nft', '-f', '-'] },
  iptables: {
    'iptables-nft-save': ['iptables-nft-restore'],
    'ip6tables-nft-save': ['ip6tables-nft-restore'],
  },
} as const;

async function load(namespace: Namespace, mode: keyof typeof modes): Promise<void> {
  for (const [name, [program, ...args]] of Object.entries(modes[mode])) {
    const text = readFileSync(join(import.meta.dirname, 'recorded', `${name}.txt`), 'utf8');
    // Counters are objects of their own, which no listing makes, and kube-proxy names no mask.
    const words = / -m nfacct --nfacct-name +\S+| --mask \S+ --rsource/g;
    await namespace.run(program, args, text.replace(words, ''));
  }
}

/** Flags for a cluster of these objects. */
function clusterFlags(objects: Iterable<Raw>): string[] {
  const manifests = temporaryDirectory();
  const items = [...surroundings, ...objects].map((object) => ({
    apiVersion: apiVersions[object.kind as string] ?? 'v1',
    ...object,
  }));
  const list = { apiVersion: 'v1', kind: 'List', items };
  writeFileSync(join(manifests, 'cluster.json'), JSON.stringify(list));
  const node = `--hostname-override=${nodeName}`;
  return [`--manifests=${manifests}`, node, `--cluster-cidr=${clusterCIDR}`];
}

const apiVersions: Readonly<Record<string, string>> = {
  EndpointSlice: 'discovery.k8s.io/v1',
  ServiceCIDR: 'networking.k8s.io/v1',
};

/** What shadow says of the cluster of these objects. */
async function shadow(namespace: Namespace, objects: Iterable<Raw>): Promise<Said> {
  const flags = [...clusterFlags(objects), '--settle=0s', '-o', 'json'];
  const program = new Program(namespace, ['shadow', ...flags]);
  const exitCode = await program.exitCode;
  expect(program.words).toBe('');
  const said = JSON.parse(program.stdout) as Said;
  expect(exitCode).toBe(said.differences.length + said.unread.length === 0 ? 0 : 1);
  return said;
}

/** The cluster after the plants. */
function planted(all: readonly Plant[]): Raw[] {
  const keyOf = ({ kind, metadata }: Raw): string => {
    const { namespace, name } = metadata as { namespace: string; name: string };
    return `${kind} ${namespace}/${name}`;
  };
  const objects = new Map(
    [...mixedObjects(recordedServices)].map((object) => [keyOf(object), object]),
  );
  for (const { apply, isDeleted, service } of all) {
    for (const object of apply) objects.set(keyOf(object), object);
    if (isDeleted) objects.delete(`Service ${service}`);
  }
  return [...objects.values()];
}

test.each(['nftables', 'iptables'] as const)(
  'shadow in mode %s finds no difference until the cluster changes, and writes nothing',
  async (mode) => {
    const namespace = await createNamespace();
    await load(namespace, mode);
    const ruleset = (): Promise<string> => namespace.run('nft', ['list', 'ruleset']);
    const before = await ruleset();
    const said = await shadow(namespace, mixedObjects(recordedServices));
    expect(said.differences).toEqual([]);
    expect(said.unread).toEqual([]);
    expect(said.compared).toEqual([
      { family: 'IPv4', mode },
      { family: 'IPv6', mode },
    ]);
    expect(said.frontends).toBe(45);

    for (const firstKind of [0, plantsMost]) {
      const all = plants(recordedServices, plantsMost, firstKind);
      expect(all).toHaveLength(plantsMost);
      expect(misjudged(await shadow(namespace, planted(all)), all)).toEqual([]);
    }
    expect(await ruleset()).toBe(before);
  },
);

const linesOf = ({ differences }: Said): string[] =>
  differences.map(({ service, text }) => `${service}: ${text}`).sort();

test("shadow reports changes of kube-proxy's table by other programs, and unreadable parts", async () => {
  const namespace = await createNamespace();
  await load(namespace, 'nftables');
  const changes = [
    'delete element ip kube-proxy service-ips { 10.96.0.0 . tcp . 80 }',
    'flush chain ip kube-proxy service-LRZT3BWD-team-2/svc-2/tcp/http',
    'add rule ip kube-proxy service-LRZT3BWD-team-2/svc-2/tcp/http ' +
      'meta l4proto tcp dnat ip to numgen random mod 2 map { 0 : 10.240.0.2 . 8080, 1 : 10.1.1.1 . 8080 }',
    'delete element ip kube-proxy no-endpoint-services { 10.96.0.33 . tcp . 80 }',
    'add element ip kube-proxy service-ips { 192.0.2.7 . udp . 53 : goto service-CHYEHFHX-team-0/svc-0/tcp/http }',
    'insert rule ip kube-proxy service-VXHUZP2T-team-4/svc-4/tcp/http limit rate 1/second accept',
  ];
  await namespace.run('nft', ['-f', '-'], changes.join('\n'));
  const said = await shadow(namespace, mixedObjects(recordedServices));
  expect(linesOf(said)).toEqual([
    'team-0/svc-0:http: frontend missing in the kernel',
    'team-0/svc-0:http: stale: the Service does not have it',
    'team-16/svc-33:http: frontend missing in the kernel',
    'team-2/svc-2:http: endpoint missing: kube-proxy does not send to 10.241.0.2:8080',
    'team-2/svc-2:http: endpoint missing: kube-proxy does not send to 10.242.0.2:8080',
    'team-2/svc-2:http: kube-proxy sends to 10.1.1.1:8080, which is in no EndpointSlice of team-2/svc-2',
  ]);
  expect(said.unread).toEqual(['10.96.0.4:80/TCP (IPv4)', 'node port 20012/TCP (IPv4)']);
});

test("shadow reports changes of kube-proxy's chains by other programs", async () => {
  const namespace = await createNamespace();
  await load(namespace, 'iptables');
  const chain = /-d 10\.96\.0\.2\/32 .*-j (KUBE-SVC-\S+)/;
  const [, service] = chain.exec(await namespace.run('iptables-nft-save', ['-t', 'nat']))!;
  await namespace.run('iptables-nft', ['-t', 'nat', '-D', service!, '2']);
  const said = await shadow(namespace, mixedObjects(recordedServices));
  expect(linesOf(said)).toEqual([
    'team-2/svc-2:http: endpoint missing: kube-proxy does not send to 10.240.0.2:8080',
  ]);
});

test('shadow has nothing to compare if kube-proxy has programmed nothing', async () => {
  const namespace = await createNamespace();
  const flags = [`--manifests=${temporaryDirectory()}`, '--hostname-override=a', '--settle=0s'];
  const program = new Program(namespace, ['shadow', ...flags]);
  expect(await program.exitCode).toBe(1);
  expect(program.words).toContain('kube-proxy has programmed nothing here that can be compared');
});
