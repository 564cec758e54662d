import { describe, expect, it } from 'vitest';
import { loadConfig } from '../../../src/config/load.ts';
import { type CheckedNode, checkConfig } from '../../../src/host/checks.ts';
import { setOomScore } from '../../../src/host/process.ts';
import { node } from '../state/build.ts';
import { machine } from './machine.ts';

const dualStack: CheckedNode = {
  families: ['IPv4', 'IPv6'],
  primary: 'IPv4',
  node: node({ podCIDRs: ['10.244.1.0/24', 'fd00:244::/64'] }),
};
const onlyIPv4: CheckedNode = { ...dualStack, families: ['IPv4'] };
const primaryPorts = '--nodeport-addresses=primary';

/** The warnings, or the error. */
function check(checked: Partial<CheckedNode>, ...flags: string[]): readonly string[] | string {
  const result = loadConfig(['--manifests=/x', ...flags], { readFile: () => new Uint8Array() });
  if (result.kind !== 'run') throw new Error(JSON.stringify(result));
  try {
    return checkConfig(result.config, { ...dualStack, ...checked });
  } catch (error) {
    return (error as Error).message;
  }
}

describe('the check of the configuration against the node’s families', () => {
  it('reports nothing if they match', () => {
    expect(check({}, primaryPorts, '--cluster-cidr=10.244.0.0/16')).toEqual([]);
    expect(check(onlyIPv4, '--nodeport-addresses=10.0.0.0/8')).toEqual([]);
    expect(check(onlyIPv4, primaryPorts, '--metrics-bind-address=[::]:10249')).toEqual([]);
  });

  it('warns of failure detection that does not know where the pods of other nodes are', () => {
    const found = (...flags: string[]) => check({}, primaryPorts, ...flags);
    expect(found('--failure-detection=eject')).toEqual([
      'failureDetection is eject and clusterCIDR is empty: ' +
        'only endpoints in podCIDRs of this node are probed, or left out',
    ]);
    expect(found('--failure-detection=eject', '--cluster-cidr=10.244.0.0/16')).toEqual([]);
    expect(found('--failure-detection=off')).toEqual([]);
  });

  it('fails if the primary family is missing', () => {
    expect(check({ families: ['IPv4'], primary: 'IPv6' })).toBe(
      'no support for primary IP family "IPv6": the kernel has it disabled',
    );
  });

  it('fails if clusterCIDR has only one family, of a node with one family', () => {
    const wrong = "clusterCIDR fd00::/64 has nothing of the node's primary IP family, IPv4";
    const flags = [primaryPorts, '--cluster-cidr=fd00::/64'];
    expect(check(onlyIPv4, ...flags)).toBe(`kube-proxy configuration is incorrect: ${wrong}`);
    expect(check({}, ...flags)).toEqual([wrong]);
  });

  it('fails if podCIDRs lack a family and rules recognise pods by them', () => {
    const checked = { node: node({ podCIDRs: ['fd00:244::/64'] }) };
    const wrong = "the node's podCIDRs fd00:244::/64 have nothing of its primary IP family, IPv4";
    expect(check(checked, primaryPorts, '--detect-local-mode=NodeCIDR')).toBe(
      `kube-proxy configuration is incorrect: ${wrong}`,
    );
    expect(check(checked, primaryPorts)).toEqual([wrong]);
  });

  it('permits node ports on all addresses by default', () => {
    expect(check({})).toEqual([expect.stringMatching(/^nodePortAddresses is not set/)]);
    const v4 = '--nodeport-addresses=10.0.0.0/8';
    expect(check({}, v4)).toEqual([expect.stringMatching(/nothing of the other IP family, IPv6/)]);
    expect(check({ primary: 'IPv6', node: undefined }, v4)).toEqual([
      expect.stringMatching(/nothing of the primary IP family, IPv6/),
    ]);
  });

  it('warns of addresses of a family that the node does not have', () => {
    const flags = ['--proxy-mode=ipvs', '--ipvs-exclude-cidrs=fd00::/8', primaryPorts];
    expect(check(onlyIPv4, ...flags)).toEqual([
      "ipvs.excludeCIDRs has nothing of this node's only IP family, IPv4",
    ]);
    expect(check({}, ...flags)).toEqual([]);
    expect(check(onlyIPv4, primaryPorts, '--healthz-bind-address=[::1]:1')).toEqual([
      "healthzBindAddress is not of this node's only IP family, IPv4",
    ]);
  });
});

describe('the OOM score', () => {
  const path = '/proc/self/oom_score_adj';

  it('is written if it differs', () => {
    const files = machine({ [path]: '0\n' });
    expect(setOomScore(-999, files)).toBeUndefined();
    expect(files.read(path)).toBe('-999');
  });

  it('does not stop the start if it cannot be set', () => {
    expect(setOomScore(-999, machine({}))?.message).toContain('ENOENT');
  });
});
