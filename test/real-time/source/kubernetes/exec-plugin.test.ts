import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ExecPlugin, type PluginEvent } from '../../../../src/source/kubernetes/exec-plugin.ts';
import { createAuthority } from '../../../fake/api-server-certificate.ts';
import { until } from '../../until.ts';
import { change, startCluster, startSource, temporaryDirectory } from './setup.ts';

const apiVersion = 'client.authentication.k8s.io/v1';

function credential(status: object): string {
  return JSON.stringify({ apiVersion, kind: 'ExecCredential', status });
}

/** A plugin that is a shell script with these lines; it counts its runs in a file. */
function plugin(lines: string, timeoutMs = 10_000) {
  const directory = temporaryDirectory({ runs: '' });
  const command = join(directory, 'plugin');
  const write = (text: string): void => {
    writeFileSync(command, `#!/bin/sh\ncd ${directory}\necho run >> runs\n${text}\n`);
    chmodSync(command, 0o755);
  };
  write(lines);
  const events: PluginEvent[] = [];
  const exec = { apiVersion, command, args: ['one'], env: [{ name: 'COLOUR', value: 'red' }] };
  return {
    directory,
    exec,
    write,
    runs: () => readFileSync(join(directory, 'runs'), 'utf8').split('\n').length - 1,
    events,
    reader: new ExecPlugin(exec, timeoutMs, (event) => events.push(event)),
  };
}

function isRunning(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

describe('an exec plugin', () => {
  it('fails with an ordinary error if no file descriptor is left', () => {
    const path = join(import.meta.dirname, '../../../../src/source/kubernetes/exec-plugin.ts');
    const script = `import { openSync } from 'node:fs';
      import { ExecPlugin } from ${JSON.stringify(path)};
      const reader = new ExecPlugin({ command: 'true', apiVersion: 'v1' }, 10_000);
      try { for (;;) openSync('/dev/null'); } catch {}
      const said = await reader.read().catch(({ message }) => message);
      console.log(said);`;
    const node = [process.execPath, '--input-type=module', '--eval', script];
    const said = execFileSync('prlimit', ['--nofile=64', ...node], { encoding: 'utf8' });
    expect(said).toContain('EMFILE');
  });

  it.each([
    ['nowhere', 'nowhere is not on the PATH, or the interpreter that it names does not exist'],
    ['/nowhere/plugin', '/nowhere/plugin does not exist, or the interpreter'],
    ['/etc/passwd', '/etc/passwd may not be run (permission denied)'],
  ])('that cannot be started is named: %s', async (command, reason) => {
    const events: PluginEvent[] = [];
    const reader = new ExecPlugin({ command, apiVersion }, 10_000, (event) => events.push(event));
    await expect(reader.read()).rejects.toThrow(reason);
    expect(events).toEqual([{ kind: 'plugin-call', status: 'plugin_not_found_error', code: 1 }]);
  });

  it('receives its arguments, its environment and that it must not be interactive', async () => {
    const { reader } = plugin(
      `printf '%s' '{"status":{"token":"'"$1-$COLOUR"'-'$(printf %s "$KUBERNETES_EXEC_INFO" | base64 -w0)'"}}'`,
    );
    const { authorization } = await reader.read();
    const [, words, info = ''] = /^Bearer (one-red)-(.*)$/.exec(authorization ?? '') ?? [];
    expect(words).toBe('one-red');
    expect(JSON.parse(Buffer.from(info, 'base64').toString())).toEqual({
      kind: 'ExecCredential',
      apiVersion,
      spec: { interactive: false },
    });
  });

  it('runs once for concurrent callers, and again after its credentials have expired', async () => {
    const later = new Date(Date.now() + 3_600_000).toISOString();
    const status = { clientCertificateData: 'C', clientKeyData: 'K' };
    const { reader, runs, write } = plugin(
      `sleep 0.2; echo '${credential({ ...status, expirationTimestamp: later })}'`,
    );
    const [first] = await Promise.all([reader.read(), reader.read(), reader.read()]);
    expect(first).toEqual({
      authorization: undefined,
      certificate: Buffer.from('C'),
      key: Buffer.from('K'),
    });
    await reader.read();
    expect(runs()).toBe(1);
    reader.invalidate();
    write(`echo '${credential({ token: 't', expirationTimestamp: '2020-01-01T00:00:00Z' })}'`);
    expect((await reader.read()).authorization).toBe('Bearer t');
    await reader.read();
    expect(runs()).toBe(3);
  });

  it.each([
    ['fails', 'echo first >&2; echo the reason >&2; exit 3', 'the reason'],
    ['fails in silence', 'exit 3', 'it ended with code 3'],
    ['is killed', 'kill -TERM $$', 'it ended with SIGTERM'],
    ['prints no JSON', 'echo hello', 'it printed no ExecCredential with a status'],
    ['gives nothing', `echo '${credential({})}'`, 'it gave neither a token nor a certificate'],
    [
      'gives half a pair',
      `echo '${credential({ clientKeyData: 'K' })}'`,
      'its certificate and its key must come together',
    ],
    ['never stops printing', 'yes', 'it prints too much'],
  ])('that %s is told with the reason', async (_what, lines, reason) => {
    const { events, reader } = plugin(lines);
    await expect(reader.read()).rejects.toThrow(reason);
    const isRead = /status|token|together/.test(reason);
    const code = isRead ? 0 : /exit 3/.test(lines) ? 3 : -1;
    const status = isRead ? 'no_error' : 'plugin_execution_error';
    expect(events).toEqual([{ kind: 'plugin-call', status, code }]);
  });

  it('reports until when its certificate is valid, and the age of one that it replaces', async () => {
    const authority = createAuthority();
    const { certificate, key } = authority.issue('first');
    const status = { clientCertificateData: certificate, clientKeyData: key };
    const expired = { expirationTimestamp: '2020-01-01T00:00:00Z' };
    const { events, reader, write } = plugin(
      `printf %s '${credential({ ...status, ...expired })}'`,
    );
    await reader.read();
    await reader.read();
    const { validFromDate, validToDate } = new X509Certificate(certificate);
    const notAfterMs = validToDate.getTime();
    write(`echo '${credential({ token: 't' })}'`);
    await reader.read();
    const call = { kind: 'plugin-call', status: 'no_error', code: 0 };
    const kind = 'plugin-certificate';
    const same = { kind, notAfterMs, replacedAgeMs: undefined };
    const gone = { kind, notAfterMs: undefined, replacedAgeMs: expect.any(Number) };
    expect(events).toEqual([call, same, call, same, call, gone]);
    const last = events.at(-1);
    const ageMs = last?.kind === kind ? last.replacedAgeMs! : Number.NaN;
    const mostMs = Date.now() - validFromDate.getTime();
    expect(ageMs).toBeLessThanOrEqual(mostMs);
    expect(ageMs).toBeGreaterThan(mostMs - 120_000);
  });

  it.each([
    ['no command', {}, 'command is missing'],
    ['a terminal', { command: 'x', interactiveMode: 'Always' }, 'interactiveMode asks for a'],
    ['a command that is no text', { command: 5 }, 'command must be a string, is 5'],
  ])('with %s is rejected at the start', (_what, exec, reason) => {
    expect(() => new ExecPlugin(exec, 1000)).toThrow(reason);
  });

  it('that hangs is killed with all its processes', async () => {
    // The file of their ids is whole as soon as it exists.
    const { directory, reader, runs } = plugin(
      'sleep 1000 & echo $! $$ > written; mv written pids; wait',
      700,
    );
    const pids = join(directory, 'pids');
    // On a busy machine a run may be killed before it has come so far.
    let asked = 0;
    do {
      asked += 1;
      const answers = await Promise.allSettled([reader.read(), reader.read(), reader.read()]);
      for (const answer of answers) {
        expect(answer).toMatchObject({ reason: { message: 'it has not ended after 0.7 s' } });
      }
    } while (!existsSync(pids));
    expect(runs()).toBeLessThanOrEqual(asked);
    const started = readFileSync(pids, 'utf8').trim().split(' ').map(Number);
    expect(started).toHaveLength(2);
    await until('they have ended', () => !started.some(isRunning));
  });

  it('that hangs is reported by each request that waits for it, and is run again', async () => {
    const server = await startCluster(2);
    server.token = 'good';
    const { directory, exec, runs, write } = plugin('sleep 1000');
    const user = { name: 'u', user: { exec } };
    const config = {
      'current-context': 'c',
      contexts: [{ name: 'c', context: { cluster: 'k', user: 'u' } }],
      clusters: [{ name: 'k', cluster: { server: server.url } }],
      users: [user],
    };
    writeFileSync(join(directory, 'config'), JSON.stringify(config));
    const { converged, sink } = startSource(server, {
      kubeconfigPath: join(directory, 'config'),
      masterUrl: '',
      pluginTimeoutMs: 700,
    });
    await until('all have failed', () => sink.problems.length >= 4);
    expect(sink.said()[0]).toMatch(/the credential plugin failed: it has not ended after 0\.7 s$/);
    write(`echo '${credential({ token: 'good' })}'`);
    await converged();
    // Again while it runs: the token is no longer good, and the plugin hangs.
    const before = runs();
    server.token = 'better';
    write('sleep 1000');
    server.disturb('services', 'drop');
    await until('it hangs', () => runs() > before);
    write(`echo '${credential({ token: 'better' })}'`);
    change(server, 1);
    await converged();
  });
});
