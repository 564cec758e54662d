/** The kernel's notifications that addresses of the machine have changed. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { expect, it, onTestFinished, vi } from 'vitest';
import { hangsMs } from '../lab/pace.ts';
import { createNamespace, type Namespace } from './namespace.ts';

const src = resolve(import.meta.dirname, '..', '..', 'src');

/** Prints the addresses that it reads, at the start and when the kernel reports a change. */
const script = `
  import { interfaceAddresses, MachineAddresses } from ${JSON.stringify(join(src, 'host/interfaces.ts'))};
  import { loadAddon } from ${JSON.stringify(join(src, 'kernel/addon.ts'))};
  import { formatAddress } from ${JSON.stringify(join(src, 'net/address.ts'))};
  import { systemClock } from ${JSON.stringify(join(src, 'time/clock.ts'))};
  const fail = (error) => { throw error; };
  const addresses = new MachineAddresses({
    after: systemClock.after,
    read: interfaceAddresses,
    watch: (told) => new (loadAddon().AddressWatch)(told),
    failed: fail,
    restored: fail,
    unwatched: fail,
  });
  addresses.follow(() => {
    console.log(addresses.read().map(({ bytes }) => formatAddress(bytes)).join(' ') || 'none');
  });
  process.stdin.resume();
`;

function start(namespace: Namespace): { readonly told: string[]; readonly child: ChildProcess } {
  const node = [process.execPath, '--input-type=module', '-e', script];
  const child = spawn('ip', ['netns', 'exec', namespace.name, ...node], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  onTestFinished(async () => {
    const ended = once(child, 'exit');
    child.kill();
    await ended;
  });
  const told: string[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => told.push(line));
  return { told, child };
}

it('reports addresses that are added and removed, and links that go down and up', async () => {
  const namespace = await createNamespace();
  const ip = (...words: string[]): Promise<string> => namespace.run('ip', words);
  const { told } = start(namespace);
  const tells = (addresses: string): Promise<void> =>
    vi.waitFor(() => expect(told.at(-1)).toBe(addresses), { timeout: hangsMs, interval: 20 });
  await tells('none');
  await ip('link', 'set', 'lo', 'up');
  await tells('127.0.0.1 ::1');
  await ip('link', 'add', 'v1', 'type', 'veth', 'peer', 'name', 'v2');
  await ip('addr', 'add', '192.0.2.7/24', 'dev', 'v1');
  await ip('link', 'set', 'v2', 'up');
  await ip('link', 'set', 'v1', 'up');
  await tells('127.0.0.1 192.0.2.7 ::1');
  await ip('addr', 'add', '2001:db8::7/64', 'dev', 'v1', 'nodad');
  await tells('127.0.0.1 192.0.2.7 2001:db8::7 ::1');
  await ip('link', 'set', 'v1', 'down');
  await tells('127.0.0.1 ::1');
  await ip('link', 'set', 'v1', 'up');
  await tells('127.0.0.1 192.0.2.7 ::1');
  await ip('link', 'del', 'v1');
  await tells('127.0.0.1 ::1');
});
