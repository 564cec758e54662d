/** The loop with the userspace mode: sockets on loopback addresses, a fake kernel for the rest. */

import { once } from 'node:events';
import { createServer } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Kernel } from '../../../../src/kernel/kernel.ts';
import type { ModeConfig } from '../../../../src/modes/mode.ts';
import { ModePlanner } from '../../../../src/modes/planner.ts';
import type { ProxyMode } from '../../../../src/modes/proxy-mode.ts';
import type { ServedFrontend } from '../../../../src/modes/sockets/frontends.ts';
import { type Refusal, Switchboard } from '../../../../src/modes/sockets/switchboard.ts';
import { UserspaceBackend, type UserspaceTypes } from '../../../../src/modes/userspace/backend.ts';
import { userspaceMode } from '../../../../src/modes/userspace/mode.ts';
import { formatAddress } from '../../../../src/net/address.ts';
import type { Service } from '../../../../src/state/types.ts';
import { FakeKernel } from '../../../fake/kernel.ts';
import { withoutNetfilter } from '../../../fake/without-netfilter.ts';
import { address, ready, slice, slicePort } from '../../state/build.ts';
import { quiet } from '../../sync/double.ts';
import { testSettings, World, webService } from '../../sync/world.ts';
import { config as anyConfig } from '../config.ts';
import { askOnce, frontend, host, pool, port, TCPClient, tcpEndpoint } from '../sockets/peers.ts';

const config: ModeConfig = { ...anyConfig, localDetector: { kind: 'none' } };

const link = 'fairlead0';

/** A process: its sockets end with it. */
function process(): ProxyMode {
  const mode = userspaceMode();
  onTestFinished(() => mode.close?.());
  return mode;
}

function worldOn<K extends Kernel>(
  kernel: K,
  mode: Pick<ProxyMode, 'planner'> = process(),
): World<K> {
  const world = new World({}, kernel, (environment) => mode.planner(config, environment));
  world.endpointPort = port;
  return world;
}

function serviceAt(name: string, at: string, fields: Partial<Service> = {}): Service {
  const ports = [{ name: 'http', protocol: 'TCP' as const, port, nodePort: 0 }];
  return { ...webService(name, 1), clusterIPs: [address(at)], ports, ...fields };
}

/** Some sockets can't be had, for a reason of the test's. */
class DenyingSwitchboard extends Switchboard {
  /** The code for what listens at an address; undefined = it may. */
  denied: (at: string) => string | undefined = () => undefined;

  override async open(frontend: ServedFrontend): Promise<Refusal | undefined> {
    const code = this.denied(formatAddress(frontend.address.bytes));
    return code === undefined ? super.open(frontend) : { code, message: code, isLasting: false };
  }
}

function plannerWith(sockets: Switchboard): Pick<ProxyMode, 'planner'> {
  return {
    planner: ({ family }, environment) =>
      new ModePlanner<UserspaceTypes>({
        family,
        backend: () => new UserspaceBackend(config, sockets),
        environment,
        bindsAddresses: true,
      }),
  };
}

describe('a Service in mode userspace', () => {
  it('is served at its address with any endpoints, and refused without endpoints', async () => {
    const [vip, a, b] = [host(50, 1), host(50, 2), host(50, 3)];
    await Promise.all([tcpEndpoint(a), tcpEndpoint(b)]);
    const kernel = new FakeKernel();
    const world = worldOn(kernel);
    world.setService(serviceAt('web', vip));
    world.setEndpoints('web', a);
    await world.start();
    expect(kernel.links.texts(link)).toEqual([`${vip}/32`]);
    expect(await askOnce(vip)).toBe(a);
    world.setEndpoints('web', b);
    await world.clock.pass(0);
    expect(await askOnce(vip)).toBe(b);
    world.setEndpoints('web');
    await world.clock.pass(0);
    expect(await askOnce(vip)).toBe('refused');
    expect(kernel.links.texts(link)).toEqual([`${vip}/32`]);
    world.removeService('web');
    await world.clock.pass(0);
    expect(kernel.links.texts(link)).toEqual([]);
    // It has no tables, whose protection could be reported.
    expect(world.kinds('exposed')).toEqual([]);
    await world.stop();
  });

  it('keeps its address until its connections have ended', async () => {
    const [vip, a] = [host(51, 1), host(51, 2)];
    await tcpEndpoint(a);
    const kernel = new FakeKernel();
    const world = worldOn(kernel);
    world.setService(serviceAt('web', vip));
    world.setEndpoints('web', a);
    await world.start();
    const client = new TCPClient(vip);
    expect(await client.ask()).toBe(a);
    world.removeService('web');
    await world.clock.pass(5000);
    expect(await askOnce(vip)).toBe('refused');
    expect(await client.ask()).toBe(a);
    world.sync.audit.verify();
    await world.clock.pass(5000);
    expect(kernel.links.texts(link)).toEqual([`${vip}/32`]);
    expect(world.kinds('drift')).toHaveLength(1);
    client.socket.destroy();
    await once(client.socket, 'close');
    await world.clock.pass(2000);
    await world.clock.pass(2000);
    expect(kernel.links.texts(link)).toEqual([]);
    await world.stop();
  });

  it('is set aside while another process uses its port, and retried', async () => {
    const [taken, free, a] = [host(52, 1), host(52, 2), host(52, 3)];
    await tcpEndpoint(a);
    const other = createServer().listen(port, taken);
    await once(other, 'listening');
    const kernel = new FakeKernel();
    const world = worldOn(kernel);
    world.setService(serviceAt('web', free));
    world.setEndpoints('web', a);
    await world.start();
    world.setService(serviceAt('blocked', taken));
    world.setEndpoints('blocked', a);
    await world.clock.pass(0);
    expect([...world.sync.quarantined].map(({ key, failure }) => [key, failure.code])).toEqual([
      ['default/blocked:http/TCP', 'EADDRINUSE'],
    ]);
    expect(kernel.links.texts(link)).toEqual([`${free}/32`]);
    expect(await askOnce(free)).toBe(a);
    other.close();
    await once(other, 'close');
    await world.clock.pass(1000);
    expect([...world.sync.quarantined]).toEqual([]);
    expect(await askOnce(taken)).toBe(a);
    await world.stop();
  });

  it.each([
    ['EACCES', 60],
    ['EPERM', 61],
    ['EADDRNOTAVAIL', 62],
    ['EMFILE', 63],
  ])('is set aside alone, whatever the reason (%s), and retried', async (code, block) => {
    const [denied, web, more] = [host(block, 1), host(block, 2), host(block, 3)];
    const a = host(block, 4);
    await tcpEndpoint(a);
    const sockets = new DenyingSwitchboard();
    onTestFinished(() => sockets.closeAll());
    sockets.denied = (at) => (at === denied ? code : undefined);
    const kernel = new FakeKernel();
    const world = worldOn(kernel, plannerWith(sockets));
    for (const [name, at] of Object.entries({ denied, web })) {
      world.setService(serviceAt(name, at));
      world.setEndpoints(name, a);
    }
    await world.start();
    for (let seconds = 0; seconds < 600; seconds += 1) await world.clock.pass(1000);
    const aside = [...world.sync.quarantined].map(({ key, failure }) => [key, failure.code]);
    expect(aside).toEqual([['default/denied:http/TCP', code]]);
    world.setService(serviceAt('more', more));
    world.setEndpoints('more', a);
    await world.clock.pass(0);
    expect(await askOnce(web)).toBe(a);
    expect(await askOnce(more)).toBe(a);
    expect(kernel.links.texts(link)).toEqual([`${web}/32`, `${more}/32`]);
    sockets.denied = () => undefined;
    await world.clock.pass(testSettings.quarantineBackoff.maxMs);
    expect([...world.sync.quarantined]).toEqual([]);
    expect(await askOnce(denied)).toBe(a);
    await world.stop();
  });

  it('that is set aside at the start does not prevent others from being served', async () => {
    const [taken, free, a] = [host(53, 1), host(53, 2), host(53, 3)];
    await Promise.all([tcpEndpoint(a), tcpEndpoint(taken)]);
    const world = worldOn(new FakeKernel());
    for (const [name, at] of Object.entries({ blocked: taken, web: free })) {
      world.setService(serviceAt(name, at));
      world.setEndpoints(name, a);
    }
    await world.start();
    await world.clock.pass(300);
    expect([...world.sync.quarantined].map(({ key }) => key)).toEqual(['default/blocked:http/TCP']);
    expect(await askOnce(free)).toBe(a);
    await world.stop();
  });

  it('of an unsupported protocol is set aside once, until it changes', async () => {
    const [vip, a] = [host(54, 1), host(54, 2)];
    const world = worldOn(new FakeKernel());
    const ports = [{ name: 'http', protocol: 'SCTP' as const, port, nodePort: 0 }];
    world.setService(serviceAt('web', vip, { ports }));
    world.state.apply({
      kind: 'slice',
      slice: {
        ...slice({ [a]: ready }, { key: 'default/web-1', service: 'default/web' }),
        ports: [slicePort('http', port, 'SCTP')],
      },
    });
    await world.start();
    await world.clock.pass(3_600_000);
    expect([...world.sync.quarantined].map(({ failure }) => failure.message)).toEqual([
      'there are no sockets for SCTP',
    ]);
    expect(world.kinds('quarantined')).toHaveLength(1);
    world.setService(serviceAt('web', vip));
    await world.clock.pass(1000);
    expect([...world.sync.quarantined]).toEqual([]);
    await world.stop();
  });
});

describe('the existing state in mode userspace', () => {
  it('is kept after a process has died, except addresses of no Service', async () => {
    const [kept, gone, a] = [host(55, 1), host(55, 2), host(55, 3)];
    await tcpEndpoint(a);
    const kernel = new FakeKernel();
    const dying = process();
    const before = worldOn(kernel, dying);
    for (const [name, at] of Object.entries({ kept, gone })) {
      before.setService(serviceAt(name, at));
      before.setEndpoints(name, a);
    }
    await before.start();
    await before.stop();
    dying.close?.();
    expect(await askOnce(kept)).toBe('refused');
    const after = worldOn(kernel);
    after.setService(serviceAt('kept', kept));
    after.setEndpoints('kept', a);
    const { writes } = kernel;
    await after.start();
    expect(kernel.links.texts(link)).toEqual([`${kept}/32`]);
    expect(kernel.writes).toBe(writes + 1);
    expect(await askOnce(kept)).toBe(a);
    await after.stop();
  });

  it('is not written again after a change of the configuration, without effect on connections', async () => {
    const [vip, a] = [host(56, 1), host(56, 2)];
    await tcpEndpoint(a);
    const kernel = new FakeKernel();
    const mode = process();
    const start = async (): Promise<World<FakeKernel>> => {
      const world = worldOn(kernel, mode);
      world.setService(serviceAt('web', vip));
      world.setEndpoints('web', a);
      await world.start();
      return world;
    };
    const before = await start();
    const client = new TCPClient(vip);
    expect(await client.ask()).toBe(a);
    await before.stop();
    const { writes } = kernel;
    const after = await start();
    expect(kernel.writes).toBe(writes);
    expect(after.kinds('drift')).toEqual([]);
    expect(await client.ask()).toBe(a);
    expect(await askOnce(vip)).toBe(a);
    await after.stop();
  });

  it('is restored if the link is missing', async () => {
    const [vip, a] = [host(57, 1), host(57, 2)];
    await tcpEndpoint(a);
    const kernel = new FakeKernel();
    kernel.links.types.delete('dummy');
    const world = worldOn(kernel);
    world.setService(serviceAt('web', vip));
    world.setEndpoints('web', a);
    await world.start();
    kernel.links.run({ kind: 'linkDelete', link });
    world.sync.audit.verify();
    await world.clock.pass(1000);
    expect(kernel.links.texts(link)).toEqual([`${vip}/32`]);
    expect(world.kinds('drift')).toContainEqual(
      expect.objectContaining({ drift: { missing: 2, wrong: 0, unwanted: 0 } }),
    );
    kernel.links.run({ kind: 'linkDelete', link });
    world.setService(serviceAt('more', host(57, 3)));
    await world.clock.pass(1000);
    expect(kernel.links.texts(link)).toEqual([`${vip}/32`, `${host(57, 3)}/32`]);
    await world.stop();
  });
});

describe('mode userspace', () => {
  it('makes its link before there is a Service', async () => {
    const kernel = new FakeKernel();
    const world = worldOn(kernel);
    await world.start();
    expect(kernel.links.texts(link)).toEqual([]);
    await world.stop();
  });

  it('closes sockets of no Service, as an audit finds them', async () => {
    const [vip, a] = [host(64, 1), host(64, 2)];
    await tcpEndpoint(a);
    const sockets = new Switchboard();
    onTestFinished(() => sockets.closeAll());
    const world = worldOn(new FakeKernel(), plannerWith(sockets));
    await world.start();
    await sockets.open(frontend(vip, pool(a)));
    world.sync.audit.verify();
    await world.clock.pass(1000);
    expect(await askOnce(vip)).toBe('refused');
    expect(world.kinds('drift').at(-1)).toMatchObject({ drift: { missing: 0, unwanted: 1 } });
    await world.stop();
  });

  it('ends connections of a Service that asks for it when their endpoint has gone', async () => {
    const [vip, a] = [host(65, 1), host(65, 2)];
    await tcpEndpoint(a);
    const mode = process();
    const world = worldOn(new FakeKernel(), mode);
    const ending = serviceAt('web', vip, { endings: { endAfterMs: 1000 } });
    world.setService(ending);
    world.setEndpoints('web', a);
    await world.start();
    const client = new TCPClient(vip);
    expect(await client.ask()).toBe(a);
    const before = world.sync.inForce.get('default/web:http/TCP')!;
    mode.changed!(before, { ...before, endings: { kept: pool() } });
    expect(await client.read()).toBe('reset');
    await world.stop();
  });
});

describe('changes by other programs in mode userspace', () => {
  it('are found by periodic reads, because no generation shows them', async () => {
    const [vip, a] = [host(59, 1), host(59, 2)];
    await tcpEndpoint(a);
    const fake = new FakeKernel();
    const kernel = withoutNetfilter(fake);
    let reads = 0;
    const read: Kernel['dump'] = (request) => {
      if (request.kind === 'addressesDump') reads += 1;
      return kernel.dump(request);
    };
    const world = worldOn({ ...kernel, dump: read });
    world.setService(serviceAt('web', vip));
    world.setEndpoints('web', a);
    await world.start();
    const { checkMs, fullMs } = testSettings.audit;
    await world.clock.pass(10 * checkMs);
    expect(reads).toBe(1);
    fake.links.run({ kind: 'linkDelete', link });
    await world.clock.pass(fullMs);
    expect(fake.links.texts(link)).toEqual([`${vip}/32`]);
    expect(await askOnce(vip)).toBe(a);
    await world.stop();
  });
});

describe('the requirements of mode userspace', () => {
  it('are dummy links or bridges, and the probe removes its link', async () => {
    const kernel = new FakeKernel();
    const mode = process();
    expect(await mode.probe(kernel)).toEqual([]);
    kernel.links.types.delete('dummy');
    expect(await mode.probe(kernel)).toEqual([]);
    kernel.links.types.delete('bridge');
    expect(await mode.probe(kernel)).toEqual([
      {
        feature: 'dummy links or bridges (EOPNOTSUPP)',
        advice: 'load module dummy or bridge (kernel option CONFIG_DUMMY or CONFIG_BRIDGE)',
      },
    ]);
    const links = await kernel.dump({ kind: 'linkGet', link: '' });
    expect(links.records).toMatchObject([{ link: 'lo' }]);
  });

  it('are a link that it owns; cleanup removes everything', async () => {
    const [vip, a] = [host(58, 1), host(58, 2)];
    await tcpEndpoint(a);
    const kernel = new FakeKernel();
    const mode = process();
    expect(await mode.owned(kernel)).toEqual([]);
    await mode.cleanup(kernel);
    const world = worldOn(kernel, mode);
    world.setService(serviceAt('web', vip));
    world.setEndpoints('web', a);
    await world.start();
    await world.stop();
    const because = 'only Fairlead uses this name; it has 1 addresses of Services';
    expect(await mode.owned(kernel)).toEqual([{ object: 'interface fairlead0', because }]);
    const client = new TCPClient(vip);
    expect(await client.ask()).toBe(a);
    await mode.cleanup(kernel);
    expect(await client.read()).toBe('reset');
    expect(await askOnce(vip)).toBe('refused');
    expect(kernel.links.texts(link)).toBeUndefined();
    await quiet();
  });
});
