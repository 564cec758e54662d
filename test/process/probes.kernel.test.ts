/** To which endpoints the node opens connections, by the packets that leave it. */
import { expect, test } from 'vitest';
import { type KubernetesObject, SERVER_PORT, service, slice } from '../lab/objects.ts';
import { Place, until } from './program.ts';

const addresses = {
  pod: '10.244.1.2',
  ownLater: '10.244.9.1',
  frontendLater: '10.244.9.2',
  clusterIP: '10.96.0.20',
  outside: '198.51.100.7',
} as const;
type Name = keyof typeof addresses;
const names = Object.keys(addresses) as Name[];

/** A Service of a tenant, who asks for probes. */
function probed(targets: readonly string[]): KubernetesObject[] {
  const web = service('tenant', { clusterIp: { IPv4: '10.96.0.30' } });
  const annotations = {
    'fairlead.io/failure-detection': 'observe',
    'fairlead.io/probe': 'tcp',
  };
  const at = targets.map((IPv4) => ({ at: { IPv4 } }));
  return [{ ...web, metadata: { ...web.metadata, annotations } }, slice('IPv4', 'tenant', at)];
}

/** A Service of another tenant, without endpoints. */
function victim(...externalIps: string[]): KubernetesObject {
  return service('victim', {
    clusterIp: { IPv4: addresses.clusterIP },
    ports: [{ port: SERVER_PORT }],
    externalIps: externalIps.map((IPv4) => ({ IPv4 })),
  });
}

/** A node that sends all packets, and counts first packets of TCP, as they were addressed. */
async function counting(): Promise<Place> {
  const place = await Place.make();
  const { run } = place.namespace;
  for (const words of [
    'link add wire type veth peer name far',
    'address add 192.0.2.10/24 dev wire',
    'link set far up',
    'link set wire up',
    'neighbour add 192.0.2.1 lladdr 02:00:00:00:00:01 dev wire',
    'route add default via 192.0.2.1',
  ]) {
    await run('ip', words.split(' '));
  }
  const rules = names.map((name) => {
    return `ip daddr ${addresses[name]} tcp flags & (syn | ack) == syn counter name ${name}`;
  });
  const table = `table ip watch {
    ${names.map((name) => `counter ${name} { }`).join('\n')}
    chain output { type filter hook output priority -400; ${rules.join('; ')}; }
  }`;
  await run('nft', ['-f', '-'], table);
  return place;
}

async function counts({ namespace }: Place): Promise<Record<Name, number>> {
  const text = await namespace.run('nft', ['list', 'counters', 'table', 'ip', 'watch']);
  const of = (name: Name) =>
    Number(new RegExp(`counter ${name} \\{\\s+packets (\\d+)`).exec(text)?.[1]);
  return Object.fromEntries(names.map((name) => [name, of(name)])) as Record<Name, number>;
}

test('the node connects only to what may be a pod, as far as it knows at that time', async () => {
  const place = await counting();
  const objects = probed(Object.values(addresses));
  place.apply([], ...objects, victim());
  place.configure({ failureDetection: 'by-annotation', clusterCIDR: '10.244.0.0/16' });
  place.start();
  await until(async () => {
    const { frontendLater, ownLater, pod } = await counts(place);
    return Math.min(frontendLater, ownLater, pod) >= 2;
  }, 'what may be a pod is probed');
  await place.namespace.run('ip', ['address', 'add', `${addresses.ownLater}/32`, 'dev', 'lo']);
  place.apply([], ...objects, victim(addresses.frontendLater));
  let since = await counts(place);
  await until(async () => {
    const now = await counts(place);
    const isProbed = now.ownLater > since.ownLater || now.frontendLater > since.frontendLater;
    if (isProbed) since = now;
    return now.pod >= since.pod + 4;
  }, 'only the pod is probed');
  expect(await counts(place)).toMatchObject({ clusterIP: 0, outside: 0 });
});
