/** What mode ipvs has in the kernel, as text: none of our fakes runs its rules. */
import { expect, it } from 'vitest';
import { NFPROTO } from '../../../../src/kernel/nft/constants.ts';
import { ipvsMode } from '../../../../src/modes/ipvs/mode.ts';
import { FakeKernel } from '../../../fake/kernel.ts';
import { ready, readyLocal } from '../../state/build.ts';
import { endpoints, everyKind, nodeAddress, Stage } from '../nftables/stage.ts';

type Options = Partial<ConstructorParameters<typeof Stage>[0]>;

const [here, away] = ['10.244.0.5', '10.244.1.6'];
const both = endpoints('IPv4', { [away]: ready, [here]: readyLocal });
const far = endpoints('IPv4', { [away]: ready });
/** And with session affinity. */
const ending = { endings: { endAfterMs: 1000 }, affinityTimeoutSeconds: 60 };
const checked = { healthCheckNodePort: 31_000 };
const local = { internalTrafficPolicy: 'Local', externalTrafficPolicy: 'Local' } as const;

async function played(options: Options, ...served: Parameters<Stage['play']>): Promise<FakeKernel> {
  const kernel = new FakeKernel();
  const at = { family: 'IPv4', nodePortAddresses: [nodeAddress] } as const;
  await new Stage({ ...at, ...options }, kernel, ipvsMode).play(...served);
  return kernel;
}

/** The chains alone: packets fill no set, and the others hold what is compared below. */
async function rules(options: Options): Promise<string> {
  return (await played(options)).ruleset().replace(/^.*?(?=^ {2}chain )/ms, '');
}

it('rules', async () => {
  await expect(await rules({})).toMatchFileSnapshot('golden/rules.txt');
});

it.each<[string, Options]>([
  ['counted', { countsTraffic: true }],
  ['masquerade-all', { masqueradeAll: true }],
])('rules with %s, beyond those without', async (name, options) => {
  const known = new Set((await rules({})).split('\n'));
  const lines = (await rules(options)).split('\n').filter((line) => !known.has(line));
  await expect(`${lines.join('\n')}\n`).toMatchFileSnapshot(`golden/${name}.txt`);
});

it.each<[string, ...Parameters<Stage['play']>[0]]>([
  ['every-kind', everyKind('IPv4', { loadBalancerSourceRanges: ['192.0.0.0/8'] }), both],
  ['policy-local-elsewhere', everyKind('IPv4', { ...local, ...ending, ...checked }), far],
])('elements, virtual services and addresses of %s', async (name, ...served) => {
  const kernel = await played({}, served);
  const table = 'fairlead-ipvs';
  const elements = [...kernel.table(NFPROTO.IPv4, table)!.sets.keys()].sort().flatMap((set) => {
    return kernel.elements(NFPROTO.IPv4, table, set).map((element) => `${set} { ${element} }\n`);
  });
  const rest = [kernel.ipvs.text(), ...kernel.links.texts('kube-ipvs0')!, ''].join('\n');
  await expect(elements.join('') + rest).toMatchFileSnapshot(`golden/${name}.txt`);
});

it('real servers of policy Local have the weights of their slices', async () => {
  const slice = (host: string, name: string, weight: number) =>
    endpoints('IPv4', { [host]: readyLocal }, { key: `ns/${name}`, weight });
  const slices = [slice(here, 'web-1', 300), slice('10.244.0.6', 'web-2', 100), far];
  const web = everyKind('IPv4', { externalTrafficPolicy: 'Local' });
  const text = (await played({}, [web, ...slices])).ipvs.text();
  expect(text).toContain(
    'TCP 198.51.100.1:80 wrr flags 0x0 timeout 0 /32\n' +
      '  -> 10.244.0.5:8080 masq weight 3\n  -> 10.244.0.6:8080 masq weight 1\n',
  );
});
