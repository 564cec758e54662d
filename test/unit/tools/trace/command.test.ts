/** How the command is asked, before it comes to the kernel. */
import { describe, expect, it } from 'vitest';
import { saidAt } from '../../ask/asking.ts';

/** No process answers there. */
const port = 1;

describe('fairlead trace', () => {
  it.each([
    [[], 'an argument is missing: ADDRESS:PORT'],
    [['10.96.0.1:80', 'more'], 'unexpected argument "more"'],
    [['10.96.0.1'], '"10.96.0.1" has no port: it must be ADDRESS:PORT'],
    [['10.96.0.1:http'], '"http" is not a port: 1 to 65535'],
    [['10.96.0.1:80', '--count=0'], '--count "0" is not a number from 1 to 100'],
    [['10.96.0.1:80', '-c', '101'], '--count "101" is not a number from 1 to 100'],
    [['10.96.0.1:80', '--timeout=5'], '--timeout: time: missing unit in duration "5"'],
    [['10.96.0.1:80', '--timeout=0s'], '--timeout 0s is not a time to wait'],
    [['10.96.0.1:80', '--from=web'], '--from "web" is not an address, a block of addresses, or'],
    [['10.96.0.1:80', '--from=pod'], 'name its address, or the block of such addresses'],
    [['10.96.0.1:80', '--from=fd00::1'], 'are of two families'],
    [['10.96.0.1:80', '-o', 'xml'], 'invalid argument "xml" for "-o, --output" flag'],
  ])('rejects %j: %s', async (args, reason) => {
    const { code, stderr, stdout } = await saidAt(port, 'trace', ...args);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain(reason);
    expect(stderr).toContain("\nSee 'fairlead trace --help'\n");
  });

  it('requires the running process for names', async () => {
    const { code, stderr } = await saidAt(port, 'trace', 'default/web:80');
    expect([code, stderr]).toEqual([3, expect.stringMatching(/^Error: cannot reach /)]);
  });
});
