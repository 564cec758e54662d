/** Datagrams from source port 0, which say that there is nowhere to answer to (RFC 768). */
import { expect, test } from 'vitest';
import { SERVER_PORT, service, slice } from '../lab/objects.ts';
import { paced } from '../lab/pace.ts';
import { Place, until } from './program.ts';

const [vip, endpoint] = ['10.96.0.77', '10.244.1.9'];
/** Rules of the test rewrite it to 0: no socket can have that. */
const clientPort = 40_000;

/** The endpoint answers all; a second client asks when it has got the datagram of the first. */
const clients = `import { createSocket } from 'node:dgram';
  import { once } from 'node:events';
  const server = createSocket('udp4', (message, from) => {
    console.log(String(message), from.port > 0);
    server.send('answer', from.port, from.address);
  });
  const [first, second] = [createSocket('udp4'), createSocket('udp4')];
  server.bind(${SERVER_PORT}, '${endpoint}');
  first.bind(${clientPort}, '${endpoint}');
  await Promise.all([once(server, 'listening'), once(first, 'listening')]);
  first.send('one-way', 80, '${vip}');
  await once(server, 'message');
  second.send('question', 80, '${vip}');
  const [answer] = await once(second, 'message');
  console.log(String(answer));
  process.exit();`;

test('a datagram that cannot be answered reaches its endpoint, and the next one is answered', async () => {
  const place = await Place.make();
  const { namespace } = place;
  await namespace.run('ip', ['addr', 'add', `${endpoint}/32`, 'dev', 'lo']);
  const rules = `table ip test {
    chain output {
      type filter hook output priority raw
      udp sport ${clientPort} udp sport set 0
    }
  }`;
  await namespace.run('nft', [rules]);
  const ports = [{ protocol: 'UDP', port: SERVER_PORT }] as const;
  const udp = service('udp', {
    clusterIp: { IPv4: vip },
    ports: [{ protocol: 'UDP', port: 80 }],
  });
  place.apply(['pod-a'], udp, slice('IPv4', 'udp', [{ at: { IPv4: endpoint } }], { ports }));
  place.configure({ mode: 'userspace', clusterCIDR: '10.244.0.0/16' });
  const program = place.start();
  const listening = (): Promise<string> => namespace.run('ss', ['-Huln', 'src', vip]);
  await until(async () => (await listening()) !== '', `something listens at ${vip}`);
  const node = [process.execPath, '--input-type=module', '--eval', clients];
  const said = await namespace.run('timeout', [`${paced(20)}`, ...node]).catch(String);
  expect(program.ended).toBeUndefined();
  expect(said).toBe('one-way true\nquestion true\nanswer\n');
});
