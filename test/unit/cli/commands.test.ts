/** What command lines mean, and which of them are wrong; the answers are other tests'. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { describe, expect, it } from 'vitest';
import { reply } from '../../../src/cli/ask/client.ts';
import { fullName } from '../../../src/cli/command.ts';
import { commands, shownCommands } from '../../../src/cli/commands.ts';
import { UsageError } from '../../../src/cli/errors.ts';
import { helpOf } from '../../../src/cli/help.ts';
import { findCommand, readArguments, runCommand } from '../../../src/cli/run-command.ts';
import { Terminal } from '../../../src/cli/terminal.ts';

async function run(...args: readonly string[]) {
  let stdout = '';
  let stderr = '';
  const code = await runCommand(args, {
    stdout: new Terminal(() => ({ write: (text) => (stdout += text) })),
    stderr: new Terminal(() => ({ write: (text) => (stderr += text) })),
  });
  return { code, stdout, stderr };
}

/** The words of a line of an example, without what the shell does with it. */
function wordsOf(line: string): string[] {
  const own = line
    .slice(line.indexOf('fairlead'))
    .split(/ > |[|)]/, 1)[0]!
    .trim();
  return own
    .split(' ')
    .slice(1)
    .map((word) => word.replaceAll("'", ''));
}

describe('the table of commands', () => {
  it.each(commands.map((command) => [fullName(command), command] as const))(
    "has examples of %s that the command's parser accepts",
    async (_, { examples }) => {
      for (const example of examples) {
        const { command, rest } = findCommand(wordsOf(example));
        await expect(readArguments(command!, rest)).resolves.toBeDefined();
      }
    },
  );

  it('has examples of each command that help shows', () => {
    const without = shownCommands.filter(({ examples }) => examples.length === 0);
    expect(without.map(fullName)).toEqual([]);
  });

  it('assigns each letter to one flag of a command', () => {
    const twice = commands.filter(({ flags = {} }) => {
      const letters = Object.values(flags).flatMap(({ letter = [] }) => letter);
      return new Set(letters).size < letters.length;
    });
    expect(twice.map(fullName)).toEqual([]);
  });

  it('has a module to run for each command, with the defaults of times that help names', async () => {
    for (const { flags = {}, load } of commands) {
      const { run, ...others } = await load();
      expect(run).toBeInstanceOf(Function);
      const meanings = Object.values(flags).map(({ meaning }) => meaning);
      const named = meanings.flatMap((one) => /\(default (\d+s)\b/.exec(one)?.[1] ?? []);
      expect(Object.values(others).filter((one) => typeof one === 'string')).toEqual(named);
    }
  });
});

describe('fairlead cluster', () => {
  it('prints the plugin that asks all nodes', async () => {
    const { code, stdout } = await run('cluster');
    expect([code, stdout]).toEqual([0, readFileSync('deploy/kubectl-fairlead', 'utf8')]);
  });
});

describe('help', () => {
  it('of the program fits on a screen', async () => {
    const lines = (await helpOf([])).split('\n');
    expect(lines.length).toBeLessThanOrEqual(41);
    expect(lines.filter((line) => line.length > 100)).toEqual([]);
  });

  it.each(shownCommands.map((command) => [fullName(command), command] as const))(
    'of %s is the same as with --help: meaning, usage, examples, flags',
    async (_, { examples, words }) => {
      const { code, stderr, stdout } = await run(...words, '--help');
      expect([code, stderr]).toEqual([0, '']);
      expect(stdout).toContain(`\nUsage:\n  fairlead ${words.join(' ')}`);
      expect(stdout).toContain(`\nExamples:\n  ${examples[0]}\n`);
      expect(await run('help', ...words)).toEqual({ code, stderr, stdout });
    },
  );

  it('of a group of commands lists its commands', async () => {
    const { stdout } = await run('service', '--help');
    expect(stdout).toContain('fairlead service list [NAME] [flags]');
    expect(stdout).toContain('fairlead service show ');
    expect(await run('help', 'svc')).toEqual(await run('service', '-h'));
  });
});

describe('kubectl’s names of output formats and objects', () => {
  it.each([
    [['svc', 'ls'], 'fairlead service list'],
    [['services', 'get'], 'fairlead service list'],
    [['service', 'list'], 'fairlead service list'],
    [['svc', 'describe'], 'fairlead service show'],
  ])('%j is the same command as %s', (args, name) => {
    expect(fullName(findCommand(args).command!)).toBe(name);
  });

  it.each([
    [['-A'], { 'all-namespaces': 'true' }],
    [['-nshop', '-owide'], { namespace: 'shop', output: 'wide' }],
    [['-n', 'shop', '--output=name'], { namespace: 'shop', output: 'name' }],
    [['--no-headers', '--problems'], { 'no-headers': 'true', problems: 'true' }],
    [['--watch=false', '-o=jsonpath={.items}'], { output: 'jsonpath={.items}' }],
  ])('work in service list %j', async (args, values) => {
    const { command } = findCommand(['service', 'list']);
    expect((await readArguments(command!, args)).values).toEqual(values);
  });

  it('are distinct from the flags of fairlead run, if a command accepts both', async () => {
    const { command } = findCommand(['shadow']);
    const args = ['--proxy-mode', 'ipvs', '-v4', '--settle=1s', '--cleanup'];
    expect(await readArguments(command!, args)).toMatchObject({
      runFlags: ['--proxy-mode=ipvs', '--v=4', '--cleanup=true'],
      values: { settle: '1s' },
    });
  });
});

describe('invalid usage', () => {
  it.each([
    ['sttaus', 'unknown command "sttaus" for "fairlead"; did you mean status?', ''],
    ['service', 'fairlead service needs a command: list or show', ' service'],
    ['service lst', 'unknown command "lst" for "fairlead service"; did you mean list?', ' service'],
    ['connect-time', 'fairlead connect-time needs a command: remove', ' connect-time'],
    ['status --wathc', 'unknown flag: --wathc; did you mean --watch?', ' status'],
    ['status now', 'unexpected argument "now"', ' status'],
    ['status -x', "unknown shorthand flag: 'x' in -x", ' status'],
    ['status -o', "flag needs an argument: 'o' in -o", ' status'],
    [
      'status -o jsno',
      'invalid argument "jsno" for "-o, --output" flag: must be one of json, wide, ' +
        'jsonpath=TEMPLATE; did you mean json?',
      ' status',
    ],
    [
      'status --watch=maybe',
      'invalid argument "maybe" for "-w, --watch" flag: strconv.ParseBool: parsing "maybe": ' +
        'invalid syntax',
      ' status',
    ],
    ['status --server=x', '--server "x" is not ADDRESS:PORT', ' status'],
    ['service list shop/web/x', '"shop/web/x" is not [NAMESPACE/]NAME', ' service list'],
    ['service list /web', '"/web" is not [NAMESPACE/]NAME', ' service list'],
    ['service list -n a/b', '-n "a/b" is not a namespace', ' service list'],
    ['svc show', 'an argument is missing: [NAMESPACE/]NAME[:PORT]|ADDRESS[:PORT]', ' service show'],
    ['svc show a/b/c', '"a/b/c" is not [NAMESPACE/]NAME', ' service show'],
    ['explain 10.96.0.10', '"10.96.0.10" has no port', ' explain'],
    ['explain fd00::1', '"fd00::1" has no port', ' explain'],
    ['explain kube-dns', '"kube-dns" has no port', ' explain'],
    ['explain 10.96.0.10:99999', '"99999" is not a port: 1 to 65535', ' explain'],
    ['explain 10.96.0.10:80/QUIC', '"QUIC" is not a protocol: TCP, UDP or SCTP', ' explain'],
    ['trace web:http/tls', '"tls" is not a protocol: TCP, UDP or SCTP', ' trace'],
    ['explain 10.96.0:80', '"10.96.0" is not an address', ' explain'],
    ['explain google.com:80', '"google.com" is not [NAMESPACE/]NAME', ' explain'],
    ['trace a/b:80 -n 5', '-n "5" is the namespace; a count is -c 5', ' trace'],
    ['trace 10.96.0.10:80 -c 0', '--count "0" is not a number from 1 to 100', ' trace'],
    ['trace 10.96.0.10:80 --from pod', '--from "pod" is not an address', ' trace'],
    ['completion', 'an argument is missing: bash|zsh|fish', ' completion'],
    ['completion tcsh', '"tcsh" is not one of bash, zsh, fish', ' completion'],
    ['completion bah', '"bah" is not one of bash, zsh, fish; did you mean bash?', ' completion'],
    ['completion bash zsh', 'unexpected argument "zsh"', ' completion'],
    ['version --short', 'unknown flag: --short', ' version'],
    ['help me', 'unknown command "me"', ' help'],
    ['help node-report', 'unknown command "node-report"', ' help'],
    ['help flgas', 'unknown command "flgas"; did you mean flags?', ' help'],
    ['help config convrt', 'unknown command "convrt"; did you mean convert?', ' help'],
    ['bundle fast', 'unexpected argument "fast"', ' bundle'],
    ['preflight --cleanup', '--cleanup is for a start, not for preflight', ' preflight'],
    ['preflight --proxy-mode=x', 'failed validate: ', ' preflight'],
    ['preflight --config=/nowhere/c', 'failed complete: cannot be read: ', ' preflight'],
    ['shadow --settle=soon', '--settle: ', ' shadow'],
    ['shadow --settle=-1s', '--settle "-1s" is below 0', ' shadow'],
    ['shadow --setle=1s', 'unknown flag: --setle; did you mean --settle?', ' shadow'],
    ['status -o jsonpath={.a', 'wrong template of jsonpath: {.a has no end', ' status'],
  ])('%s: %s', async (line, reason, command) => {
    const { code, stderr, stdout } = await run(...line.split(' '));
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr.startsWith(`Error: ${reason}`)).toBe(true);
    expect(stderr.endsWith(`\nSee 'fairlead${command} --help'\n`)).toBe(true);
  });

  it('names the configuration file that cannot be used', async () => {
    const { stderr } = await run('shadow', '--config=/nowhere/c');
    expect(stderr).toContain('\n  in /nowhere/c\n');
  });

  it('suggests nothing for a format that lacks its template', async () => {
    const { stderr } = await run('status', '-o', 'jsonpath=');
    expect(stderr).toMatch(/: must be one of json, wide, jsonpath=TEMPLATE\nSee /);
  });

  it('is rejected by the parser with a UsageError', async () => {
    const { command } = findCommand(['status']);
    await expect(readArguments(command!, ['x'])).rejects.toBeInstanceOf(UsageError);
  });
});

describe('a command whose process does not answer', () => {
  it.each([['status'], ['service list'], ['explain 10.96.0.1:443'], ['top'], ['diff']])(
    'exits with 3: %s',
    async (line) => {
      const { code, stderr } = await run(...line.split(' '), '--server=127.0.0.1:1');
      expect([code, stderr]).toEqual([
        3,
        'Error: cannot reach http://127.0.0.1:1: connect ECONNREFUSED 127.0.0.1:1\n' +
          'Fairlead does not run on this node, does not answer, or has another ' +
          'metricsBindAddress: for that, give --server or --config.\n',
      ]);
    },
  );
});

describe('a process that takes connections and does not answer', () => {
  it('is reported with the time that the command has waited', async () => {
    const server = createServer(() => {}).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const url = `http://127.0.0.1:${port}`;
    await expect(reply(url, url, 50)).rejects.toThrow(
      `cannot reach ${url}: no answer within 0.05 s`,
    );
    server.close();
  });
});

describe('fairlead version', () => {
  it('prints an object for programs', async () => {
    const { code, stdout } = await run('version', '-o', 'json');
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toEqual({
      fairleadVersion: expect.stringMatching(/^v\d+\.\d+\.\d+$/),
      kubernetesVersion: expect.stringMatching(/^v1\./),
      nodeVersion: process.version,
    });
    expect((await run('version', '-o', 'jsonpath={.nodeVersion}')).stdout).toBe(process.version);
  });
});
