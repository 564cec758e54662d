/** Runs containers as the kubelet would have them run, by runc, without a daemon. */
import { spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { V1Container, V1SecurityContext } from '@kubernetes/client-node';
import { onTestFinished } from 'vitest';
import type { Namespace } from '../conformance/namespace.ts';
import { temporaryDirectory } from '../process/program.ts';
import type { Image } from './image.ts';

export interface RunOptions {
  readonly image: Image;
  /** As the DaemonSet has it: its arguments and its security context count. */
  readonly container: V1Container;
  readonly namespace: Namespace;
  /** Folders and files of this machine by their places in the container. */
  readonly mounts: Readonly<Record<string, string>>;
  readonly extraArgs?: readonly string[];
}

export interface Running {
  readonly exitCode: Promise<number | null>;
  /** What it has written to its standard outputs. */
  readonly output: () => string;
  stop(): void;
}

/** Runs until the test ends, or before. */
export function runContainer(options: RunOptions): Running {
  const bundle = temporaryDirectory();
  writeFileSync(join(bundle, 'config.json'), JSON.stringify(specOf(options)));
  const id = `fairlead-${randomBytes(4).toString('hex')}`;
  const state = ['--root', join(bundle, 'state')];
  const child = spawn('runc', [...state, 'run', '--bundle', bundle, id], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (part) => {
      output += String(part);
    });
  }
  const exitCode = new Promise<number | null>((done) => child.once('close', done));
  onTestFinished(async () => {
    // To kill runc alone would leave what it runs, which holds the pipes that `exitCode` waits for.
    spawnSync('runc', [...state, 'delete', '--force', id]);
    child.kill('SIGKILL');
    await exitCode;
  });
  return { exitCode, output: () => output, stop: () => void child.kill('SIGTERM') };
}

function specOf({ container, extraArgs = [], image, mounts, namespace }: RunOptions): object {
  const context = container.securityContext ?? {};
  const { entrypoint, env, root } = image;
  const capabilities = capabilitiesOf(context);
  const args = (container.args ?? []).map((word) => word.replace('$(NODE_NAME)', 'node'));
  const bound = Object.entries(mounts).map(([destination, source]) => {
    const known = container.volumeMounts?.find(({ mountPath }) => mountPath === destination);
    const mode = known === undefined || known.readOnly === true ? 'ro' : 'rw';
    return { destination, source, type: 'bind', options: ['rbind', mode] };
  });
  return {
    ociVersion: '1.0.2',
    process: {
      user: { uid: context.runAsUser ?? 0, gid: context.runAsUser ?? 0 },
      cwd: '/',
      args: [...entrypoint, ...args, ...extraArgs],
      env,
      noNewPrivileges: context.allowPrivilegeEscalation === false,
      capabilities: Object.fromEntries(
        ['bounding', 'effective', 'permitted'].map((set) => [set, capabilities]),
      ),
    },
    root: { path: root, readonly: context.readOnlyRootFilesystem === true },
    mounts: [...systemMounts(context), ...bound],
    linux: {
      namespaces: [
        ...['mount', 'ipc', 'uts', 'pid'].map((type) => ({ type })),
        { type: 'network', path: namespace.path },
      ],
      ...(context.privileged === true ? {} : confinement(context, capabilities)),
    },
  };
}

function systemMounts({ privileged }: V1SecurityContext): object[] {
  const options = ['nosuid', 'noexec', 'nodev', privileged === true ? 'rw' : 'ro'];
  return [
    { destination: '/proc', source: 'proc', type: 'proc' },
    { destination: '/dev', source: 'tmpfs', type: 'tmpfs', options: ['nosuid', 'mode=755'] },
    { destination: '/sys', source: 'sysfs', type: 'sysfs', options },
  ];
}

function capabilitiesOf({ capabilities, privileged }: V1SecurityContext): string[] {
  if (privileged === true) return ownCapabilities();
  return (capabilities?.add ?? []).map((name) => `CAP_${name}`);
}

/** All that this process may give: those of the machine, or of its user namespace. */
function ownCapabilities(): string[] {
  const mask = /^CapBnd:\s*(\w+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))![1]!;
  return capabilityNames.filter((_, bit) => (BigInt(`0x${mask}`) >> BigInt(bit)) & 1n);
}

/** As container runtimes confine what is not privileged. */
function confinement(
  { seccompProfile }: V1SecurityContext,
  capabilities: readonly string[],
): object {
  return {
    maskedPaths: ['/proc/kcore', '/proc/keys', '/proc/timer_list', '/sys/firmware'],
    readonlyPaths: ['/proc/bus', '/proc/fs', '/proc/irq', '/proc/sys', '/proc/sysrq-trigger'],
    ...(seccompProfile?.type === 'RuntimeDefault' ? { seccomp: runtimeDefault(capabilities) } : {}),
  };
}

/** The list is that of the program that does the same without a container. */
function runtimeDefault(capabilities: readonly string[]): object {
  const path = join(import.meta.dirname, '../process/native/runtime-default.c');
  const names = [...readFileSync(path, 'utf8').matchAll(/ REFUSED\((\w+)\)/g)]
    .map((match) => match[1]!)
    .filter((name) => !(name === 'bpf' && capabilities.includes('CAP_BPF')));
  return {
    defaultAction: 'SCMP_ACT_ALLOW',
    syscalls: [{ names, action: 'SCMP_ACT_ERRNO', errnoRet: 1 }],
  };
}

/** In the order of linux/capability.h. */
const capabilityNames =
  `CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE
  NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO
  SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME
  SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG
  WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE`
    .split(/\s+/)
    .map((name) => `CAP_${name}`);
