/** Asks the kernel for IPVS, the scheduler, dummy links, and what our table needs. */
import { isKernelError, isNoAnswer } from '../../kernel/errors.ts';
import { refusal } from '../../kernel/failures.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { IPPROTO, NFPROTO } from '../../kernel/nft/constants.ts';
import { advice, type MissingFeature } from '../../kernel/nft/probe.ts';
import { type KernelOp, kernelOps } from '../../kernel/ops.ts';
import { RecordWriter } from '../../kernel/records.ts';
import { Address, type Family } from '../../net/address.ts';
import { balances } from '../../state/deal.ts';
import { defaultIPVSSettings, type IPVSSettings, type ModeDealing } from '../mode.ts';
import { probeTable } from '../nft-table/probe.ts';
import { chains } from './chains.ts';
import { linkName, tableLayout } from './layout.ts';
import { schedulersOf, settingsOf } from './service-writer.ts';

/** Documentation addresses (RFC 5737); upstream's probe has the same. */
const probeAddress = Uint8Array.of(198, 51, 100, 0);
const probePort = 20000;
const probeLink = `fl-probe-${process.pid}`.slice(0, 15);

/** What the kernel lacks; empty = nothing. Throws KernelError (EPERM) without CAP_NET_ADMIN. */
export async function probe(
  kernel: Kernel,
  { scheduler }: IPVSSettings = defaultIPVSSettings,
): Promise<readonly MissingFeature[]> {
  const table = await lackOfTable(kernel);
  if (!(await hasIPVS(kernel))) {
    return [...table, { feature: 'IPVS', advice: advice('CONFIG_IP_VS', 'ip_vs') }];
  }
  const missing = [await lackOfScheduler(kernel, scheduler), await lackOfLinks(kernel)];
  return [...table, ...missing.filter((one) => one !== undefined)];
}

/** A kernel may lack schedulers, which only some Services ask for. */
export const dealing: ModeDealing = {
  name: 'mode ipvs',
  balances: new Set(balances),
  unknown: new Set(balances),
  usesTables: false,
  refusesRanges: true,
  lack: async (kernel, balance) => {
    for (const scheduler of schedulersOf(balance)) {
      const missing = await lackOfScheduler(kernel, scheduler);
      if (missing !== undefined) return missing.feature;
    }
    return undefined;
  },
};

async function hasIPVS(kernel: Kernel): Promise<boolean> {
  try {
    await kernel.dump({ kind: 'ipvsInfoGet' });
    return true;
  } catch (error) {
    if (isKernelError(error, 'EPROTONOSUPPORT')) return false;
    throw error;
  }
}

/** Makes a virtual service, which loads the scheduler's module, and deletes it. */
async function lackOfScheduler(
  kernel: Kernel,
  scheduler: string,
): Promise<MissingFeature | undefined> {
  const service = {
    family: NFPROTO.IPv4,
    protocol: IPPROTO.TCP,
    address: probeAddress,
    port: probePort,
  };
  const address = Address.from(probeAddress);
  const settings = settingsOf({ address, timeoutSeconds: 0 }, scheduler);
  const failure = await attempt(
    kernel,
    { kind: 'virtualServiceAdd', ...service, ...settings },
    { kind: 'virtualServiceDelete', ...service },
  );
  // EEXIST: another probe is under way.
  if (failure === undefined || failure === 'EEXIST') return undefined;
  return {
    feature: `scheduler ${scheduler} of IPVS (${failure})`,
    advice: `${advice('CONFIG_IP_VS_*', `ip_vs_${scheduler}`)}, or set ipvs.scheduler to another`,
  };
}

async function lackOfLinks(kernel: Kernel): Promise<MissingFeature | undefined> {
  const { records } = await kernel.dump({ kind: 'linkGet', link: linkName });
  if (records.length > 0) return undefined;
  const failure = await attempt(
    kernel,
    { kind: 'linkAdd', link: probeLink, type: 'dummy' },
    { kind: 'linkDelete', link: probeLink },
  );
  if (failure !== undefined) {
    return { feature: `dummy links (${failure})`, advice: advice('CONFIG_DUMMY', 'dummy') };
  }
  return undefined;
}

/**
 * Makes something and deletes it, in one buffer: nothing is left where this process is killed, or
 * the answer lost. Returns the errno where it cannot be made. Throws KernelError when the kernel
 * could not say (ENOMEM, EBUSY).
 */
async function attempt(
  kernel: Kernel,
  add: KernelOp,
  deletion: KernelOp,
): Promise<string | undefined> {
  const writer = new RecordWriter(kernelOps, 256);
  for (const op of [add, deletion]) writer.write(op.kind, op);
  const result = await kernel.apply(writer.finish());
  // The deletion (op 1) fails where another probe has deleted the same.
  const failures = result.kind === 'applied' ? [] : result.failures;
  const failure = failures.find(({ op }) => op !== 1);
  if (failure !== undefined && isNoAnswer(failure.code)) {
    throw refusal('ipvs.probe', add.kind, failure);
  }
  return failure?.code;
}

/** The table with all its rules. */
function lackOfTable(kernel: Kernel): Promise<readonly MissingFeature[]> {
  const family: Family = 'IPv4';
  const asked = { masqueradeAll: true, masqueradeMark: 1, countsTraffic: false } as const;
  const probed = chains({ family, localDetector: noDetector, ...asked }).map(
    ({ name, base, rules }) => ({
      name,
      base,
      rules: rules.map((statements) => ({
        statements,
        feature: `an expression of chain ${name}`,
        advice: advice(
          'CONFIG_NFT_CT, _FIB_IPV4, _MASQ, _REJECT_INET',
          'nft_ct, nft_fib_ipv4, nft_masq, nft_reject_inet',
        ),
      })),
    }),
  );
  return probeTable(kernel, tableLayout(family), probed);
}

const noDetector = { kind: 'none' } as const;
