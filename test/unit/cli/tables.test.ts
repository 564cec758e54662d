import { describe, expect, it } from 'vitest';
import { ofPrograms } from '../../../src/cli/connect-time.ts';
import { listOrRemove } from '../../../src/cli/removal.ts';
import { tableRemovals } from '../../../src/cli/tables.ts';
import type { Kernel } from '../../../src/kernel/kernel.ts';
import { NFPROTO } from '../../../src/kernel/nft/constants.ts';
import { availableModes } from '../../../src/modes/index.ts';
import { batch } from '../../conformance/ops.ts';
import { FakeKernel } from '../../fake/kernel.ts';
import { withoutNetfilter } from '../../fake/without-netfilter.ts';
import { kubeProxy, merge, write } from '../takeover/rules.ts';

const comment = 'established connections to Services, by Fairlead';
/** The folder is not mounted here. */
const connectTime = { directory: '/nowhere/fairlead', cgroup: undefined };

function tables(kernel: Kernel, how: 'list' | 'remove', printed: string[] = []) {
  const removals = tableRemovals(kernel, availableModes(), connectTime);
  return listOrRemove(removals, how, (line) => void printed.push(line));
}

/** kube-proxy serves, in both of its forms, and everything of ours is left. */
function afterTheWayBack(): FakeKernel {
  const kernel = new FakeKernel();
  write(kernel, 'fairlead', { services: [''] });
  write(kernel, 'fairlead', { services: [''] }, NFPROTO.IPv6);
  write(kernel, 'kube-proxy', { services: [''], 'fairlead-runs-nftables': [] });
  write(kernel, 'nat', kubeProxy);
  kernel.foreign(batch({ kind: 'tableAdd', family: 1, table: 'fairlead-fast-path', comment }));
  const detection = 'answers of endpoints, by Fairlead';
  for (const family of [NFPROTO.IPv4, NFPROTO.IPv6]) {
    const table = { family, table: 'fairlead-failure-detection', comment: detection };
    kernel.foreign(batch({ kind: 'tableAdd', ...table }));
  }
  kernel.bpf.strays.set(7, 'connect4');
  return kernel;
}

describe('fairlead tables remove', () => {
  it('removes our tables and programs, and none of kube-proxy’s rules', async () => {
    const kernel = afterTheWayBack();
    const printed: string[] = [];
    expect(await tables(kernel, 'remove', printed)).toBe(0);
    expect(printed).toEqual([
      'removed program connect4 (id 7, link 7)',
      'removed table inet fairlead-fast-path',
      'removed table ip fairlead-failure-detection',
      'removed table ip6 fairlead-failure-detection',
      'removed chain ip kube-proxy fairlead-runs-nftables',
      'removed table ip fairlead',
      'removed table ip6 fairlead',
    ]);
    const theirs = new FakeKernel();
    write(theirs, 'kube-proxy', { services: [''] });
    write(theirs, 'nat', kubeProxy);
    expect(kernel.ruleset()).toBe(theirs.ruleset());
    expect(kernel.bpf.strays.size).toBe(0);
  });

  it('lists the same with --dry-run, and writes nothing', async () => {
    const kernel = afterTheWayBack();
    const before = kernel.ruleset();
    const printed: string[] = [];
    expect(await tables(kernel, 'list', printed)).toBe(0);
    expect(printed).toEqual([
      expect.stringMatching(/^program connect4 \(id 7, link 7\): /),
      'table inet fairlead-fast-path: our fast path made it',
      'table ip fairlead-failure-detection: our failure detection made it',
      'table ip6 fairlead-failure-detection: our failure detection made it',
      'chain ip kube-proxy fairlead-runs-nftables: our mode nftables made it',
      expect.stringMatching(/^table ip fairlead: /),
      expect.stringMatching(/^table ip6 fairlead: /),
    ]);
    expect(kernel.ruleset()).toBe(before);
  });

  it('leaves chains that kube-proxy may use by now, and says so', async () => {
    const kernel = new FakeKernel();
    const ours = { 'KUBE-POSTROUTING': ['KUBE-HAIRPIN'], 'KUBE-HAIRPIN': [''] };
    write(kernel, 'nat', merge(kubeProxy, ours));
    const before = kernel.ruleset();
    const printed: string[] = [];
    await tables(kernel, 'remove', printed);
    expect(printed).toEqual([expect.stringMatching(/^left 6 chains KUBE-\* of family ip: /)]);
    expect(kernel.ruleset()).toBe(before);
  });

  it('removes nothing twice, and needs no netfilter', async () => {
    for (const kernel of [afterTheWayBack(), withoutNetfilter(new FakeKernel())]) {
      await tables(kernel, 'remove');
      const printed: string[] = [];
      expect(await tables(kernel, 'remove', printed)).toBe(0);
      expect(await tables(kernel, 'list', printed)).toBe(0);
      expect(printed).toEqual(['nothing to remove', 'nothing to remove']);
    }
  });

  it('fails when a program cannot be detached', async () => {
    const kernel = afterTheWayBack();
    kernel.bpf.forbidden.detach = 'EINVAL';
    await expect(tables(kernel, 'remove')).rejects.toThrow('connect4');
  });
});

const eperm = { list: 'EPERM' };

describe('fairlead tables remove, where it is not known whose the attached programs are', () => {
  it.each([
    ['they cannot be told apart', ({ bpf }: FakeKernel) => bpf.strays.set(0, '')],
    ['the kernel does not say', ({ bpf }: FakeKernel) => Object.assign(bpf.forbidden, eperm)],
  ])('removes the tables, and fails: %s', async (_, hide) => {
    const kernel = afterTheWayBack();
    hide(kernel);
    const printed: string[] = [];
    const words = /programs are attached/;
    await expect(tables(kernel, 'list', printed)).rejects.toThrow(words);
    expect(printed.join('\n')).toContain('table ip fairlead: ');
    await expect(tables(kernel, 'remove', printed)).rejects.toThrow(words);
    expect(printed).toContain('removed table ip6 fairlead');
    expect(printed).not.toContain('nothing to remove');
  });
});

describe('fairlead connect-time remove --dry-run', () => {
  function list(kernel: Kernel): Promise<string> {
    const printed: string[] = [];
    const removals = [ofPrograms(kernel, connectTime)];
    return listOrRemove(removals, 'list', (line) => void printed.push(line)).then(() =>
      printed.join('\n'),
    );
  }

  it('says that there is nothing to remove', async () => {
    expect(await list(new FakeKernel())).toBe('nothing to remove');
  });

  it('fails where it cannot be known whose the attached programs are', async () => {
    const kernel = new FakeKernel();
    kernel.bpf.strays.set(0, 'connect4');
    await expect(list(kernel)).rejects.toThrow(
      '1 programs are attached, and asking whose they are',
    );
    kernel.bpf.forbidden.list = 'EPERM';
    await expect(list(kernel)).rejects.toThrow('cannot ask which programs are attached: ');
  });
});
