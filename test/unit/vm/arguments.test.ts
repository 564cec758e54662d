import { describe, expect, it } from 'vitest';
import { parseArguments, UsageError } from '../../vm/arguments.ts';

describe('the command line of the VM runner', () => {
  it('requests the whole suite on both Debian kernels if it is empty', () => {
    expect(parseArguments([])).toEqual({
      kernels: { kind: 'debian', series: ['6.1', '6.12'] },
      memoryMib: 2048,
      cpus: 2,
      timeLimitMs: 1_800_000,
      job: { kind: 'suite', filters: [] },
    });
  });

  it('limits the kernels by --only, each used once', () => {
    const options = parseArguments(['--only', '6.12', '--only', '6.6', '--only=6.12']);
    expect(options?.kernels).toEqual({ kind: 'debian', series: ['6.12', '6.6'] });
  });

  it('accepts sources that are built as user-mode Linux', () => {
    const options = parseArguments(['--only', '6.1-uml']);
    expect(options?.kernels).toEqual({ kind: 'debian', series: ['6.1-uml'] });
  });

  it('accepts a kernel and modules of the user', () => {
    const options = parseArguments(['--kernel', 'bzImage', '--modules', '/lib/modules/6.9']);
    expect(options?.kernels).toEqual({
      kind: 'own',
      image: 'bzImage',
      modules: '/lib/modules/6.9',
    });
  });

  it('accepts a kernel with everything built in', () => {
    expect(parseArguments(['--kernel', 'bzImage'])?.kernels).toEqual({
      kind: 'own',
      image: 'bzImage',
      modules: undefined,
    });
  });

  it('passes other words to the suite as filters', () => {
    const options = parseArguments(['test/lab', '--cpus', '4', 'socket']);
    expect(options).toMatchObject({
      cpus: 4,
      job: { kind: 'suite', filters: ['test/lab', 'socket'] },
    });
  });

  it('leaves everything after -- to the command, including options and another --', () => {
    const options = parseArguments(['--memory', '512', '--', 'sh', '--only', '--', 'x']);
    expect(options).toMatchObject({
      memoryMib: 512,
      job: { kind: 'command', words: ['sh', '--only', '--', 'x'] },
    });
  });

  it('returns nothing if help is requested', () => {
    expect(parseArguments(['--help'])).toBeUndefined();
  });

  it.each([
    [['--fast'], /--fast/],
    [['--memory', '0'], /--memory 0/],
    [['--cpus', 'two'], /--cpus two/],
    [['--time-limit', '1.5'], /--time-limit 1.5/],
    [['--only', 'bookworm'], /--only bookworm/],
    [['--only', '6.1-kvm'], /--only 6.1-kvm/],
    [['--modules', '/lib/modules/6.9'], /--modules needs --kernel/],
    [['--kernel', 'bzImage', '--only', '6.1'], /exclude each other/],
    [['some.test.ts', '--', 'sh'], /exclude each other/],
    [['--'], /no command/],
  ])('rejects %j and names the reason', (words, reason) => {
    expect(() => parseArguments(words)).toThrow(UsageError);
    expect(() => parseArguments(words)).toThrow(reason);
  });
});
