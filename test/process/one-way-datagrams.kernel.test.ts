/**
 * Datagrams that cannot be answered: from source port 0 (RFC 768), and with a forged source that is
 * a Service: its answer would come back as a datagram of a client.
 */
import { expect, test } from 'vitest';
import { SERVER_PORT, service, slice } from '../lab/objects.ts';
import { paced } from '../lab/pace.ts';
import { Place, until } from './program.ts';

const [vip, endpoint] = ['10.96.0.77', '10.244.1.9'];
/** Rules of the test rewrite the source of datagrams from it: no other socket can have that. */
const clientPort = 40_000;

/** The endpoint answers all. A second client asks after the datagram of the first. */
const clients = (isPassedOn: boolean): string => `import { createSocket } from 'node:dgram';
  import { once } from 'node:events';
  const server = createSocket('udp4', (message, from) => {
    console.log(String(message));
    server.send('answer', from.port, from.address);
  });
  const [first, second] = [createSocket('udp4'), createSocket('udp4')];
  server.bind(${SERVER_PORT}, '${endpoint}');
  first.bind(${clientPort}, '${endpoint}');
  await Promise.all([once(server, 'listening'), once(first, 'listening')]);
  const arrived = once(server, 'message');
  await new Promise((sent) => first.send('one-way', 80, '${vip}', sent));
  ${isPassedOn ? 'await arrived;' : ''}
  second.send('question', 80, '${vip}');
  const [answer] = await once(second, 'message');
  console.log(String(answer));
  process.exit();`;

test.each([
  ['source port 0', 'udp sport set 0', true, 'one-way\nquestion\nanswer\n'],
  ['a Service', `ip saddr set ${vip} udp sport set 80`, false, 'question\nanswer\n'],
])(
  'a datagram from %s does no harm: the next one is answered',
  async (_, rewrite, isPassedOn, expected) => {
    const place = await Place.make();
    const { namespace } = place;
    await namespace.run('ip', ['addr', 'add', `${endpoint}/32`, 'dev', 'lo']);
    const rules = `table ip test {
    chain output {
      type filter hook output priority raw
      udp sport ${clientPort} ${rewrite}
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
    const node = [process.execPath, '--input-type=module', '--eval', clients(isPassedOn)];
    const said = await namespace.run('timeout', [`${paced(20)}`, ...node]).catch(String);
    expect(program.ended).toBeUndefined();
    expect(said).toBe(expected);
  },
);
